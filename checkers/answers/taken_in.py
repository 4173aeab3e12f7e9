"""What any node tells of the metadata by itself: a state it has been given (C20).

An answer may show what the node had taken in a moment before at the earliest, and what a node
shows never goes back: no state is older than one that was shown before the request was sent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING

from checkers.answers.exchanges import Commits, Exchange
from checkers.answers.state import State, StateHistory
from checkers.recorded.clocks import running_since

if TYPE_CHECKING:
    from checkers.invariants.evidence import Evidence  # whose package imports this

LAG_NS = 1_000_000_000
"""How long a node may take, while it runs, to answer by what it was given."""


class TakenIn:
    """Judges what nodes show, answer by answer in the order of their times."""

    def __init__(self, evidence: Evidence, history: StateHistory, commits: Commits) -> None:
        self._evidence = evidence
        self._history = history
        self._commits = commits
        self._shown: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        """Per process when (ns) it answered, and the end that it had shown by then, at least."""

    def fault(
        self, exchange: Exchange, fault: Callable[[State], str | None], *, serves: bool
    ) -> str | None:
        """Return what is wrong with an answer; ``fault`` tells why it does not show a state.

        What ``serves`` is a broker that has caught up with all that was committed as it started.
        """
        message = exchange.message
        node = self._evidence.name(message.replier)
        end, life = self._commits.taken(node, message.time + self._commits.blur)
        known = self._commits.at_start(node, life) if serves else 0
        if end < known:
            return (
                f"{exchange.where} having taken in the log up to offset {end}; when it started, "
                f"{known} was committed, and a broker serves once it has caught up."
            )
        stopped = self._evidence.pauses.get(node, ())
        since = running_since(message.time, LAG_NS, stopped)
        low, before = self._commits.taken(node, since - self._commits.blur)
        low = max(low if before == life else 0, self._shown_before(node, life, message.sent))
        low = min(low, end)
        for state in reversed(list(self._history.states(low, end))):  # The earliest comes first.
            if fault(state) is None:
                self._shows(node, life, message.time, state.end)
                return None
        return (
            f"{exchange.where} having taken in the log up to offset {end}, and that tells "
            f"otherwise: {fault(State(self._history, end))}."
        )

    def _shown_before(self, node: str, life: int, time: int) -> int:
        """Return the end of what the process had shown before ``time``, at least."""
        times, ends = self._shown.get((node, life), ([], []))
        place = bisect_left(times, time - self._commits.blur)
        return ends[place - 1] if place else 0

    def _shows(self, node: str, life: int, time: int, end: int) -> None:
        times, ends = self._shown.setdefault((node, life), ([], []))
        if not ends or end > ends[-1]:
            times.append(time)
            ends.append(end)
