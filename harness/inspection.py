"""Inspection: each member is asked for its own state and position.

That happens after each storm of faults, while the clients pause, and at the end of a run. Members
are asked in rounds. A state belongs to a position if two rounds show the same of both, whichever
was read first. The rounds end when this holds for all members at one common position, or when the
time is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from kraftwreck.harness.patience import PATIENCE
from kraftwreck.histories.members import Member

SETTLE_S = 20.0 * PATIENCE
"""How long members may take to arrive at one position at the end of a run."""
GLANCE_S = 3.0
"""How long they may take after a storm: the clients wait."""
ANSWER_S = 10.0 * PATIENCE
"""How long one member may take to answer."""
PAUSE_S = 0.1

Ask = Callable[[str], Member | None]
"""Returns a member's state, None for one that is not held against others."""


class Inspection:
    """Asks the members ``names`` again and again, each by one thread at a time: a client that an
    earlier question still uses is not shared with a later one."""

    def __init__(
        self,
        names: Sequence[str],
        ask: Ask,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._names, self._ask = names, ask
        self._clock, self._sleep = clock, sleep
        self._asking: dict[str, threading.Thread] = {}

    def members(self, settle_s: float = SETTLE_S) -> dict[str, Member]:
        """Return the members by name; a member that failed, or moved on, has an ``error``.

        Members may take ``settle_s`` seconds. Whatever ``ask`` raises is the error of its member.
        None of its members: the result is empty.
        """
        deadline = self._clock() + settle_s
        answer_s = min(ANSWER_S, settle_s)
        before = self._round(answer_s)
        while before:
            self._sleep(PAUSE_S)
            after = self._round(answer_s)
            settled = {
                name: _settled(before[name], after[name]) for name in before if name in after
            }
            if _agreed(settled) or self._clock() >= deadline:
                return settled
            before = after
        return {}

    def _round(self, answer_s: float) -> dict[str, Member]:
        """Ask all members at once. One that does not answer in time keeps its thread, and is not
        asked again before that ends."""
        found: dict[str, Member | None] = {}
        deadline = time.monotonic() + answer_s
        for name in self._names:
            if name not in self._asking or not self._asking[name].is_alive():
                thread = threading.Thread(target=self._answer, args=(name, found), daemon=True)
                self._asking[name] = thread
                thread.start()
        for name in self._names:
            self._asking[name].join(max(0.0, deadline - time.monotonic()))
        silent = Member(error=f"no answer in {answer_s:g} s")
        told = {name: found.get(name, silent) for name in self._names}
        return {name: member for name, member in told.items() if member is not None}

    def _answer(self, name: str, found: dict[str, Member | None]) -> None:
        try:
            told = self._ask(name)
            msgspec.json.encode(told)
            if not isinstance(told, Member | None):
                raise TypeError(f"{type(told).__name__} is no Member")
        except Exception as error:
            text = " ".join(str(error).split())
            told = Member(error=f"{type(error).__name__}: {text}" if text else type(error).__name__)
        found[name] = told


def _agreed(members: Mapping[str, Member]) -> bool:
    first = next(iter(members.values()), Member())
    return all(not m.error and m.position == first.position for m in members.values())


def _settled(before: Member, after: Member) -> Member:
    """Return the member if nothing has changed between two rounds."""
    if before.error or after.error:
        return Member(error=after.error or before.error)
    if before.position is None:
        return Member(error="it told no position")
    if before.position != after.position:
        return Member(error=f"it moved on from {before.position} to {after.position}")
    if before.state != after.state:
        return Member(error=f"its state has changed, but not its position {after.position}")
    return after
