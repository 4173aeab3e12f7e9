"""Non-controller reads: the answer must be a state this node had applied (C20).

An answer may lag behind the state that the node had applied, but only by a moment. Reads never go
backwards: no state is older than one that the node showed before the request was sent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING

from kraftwreck.checkers.kraft.controller_model.exchanges import Commits, Exchange
from kraftwreck.checkers.kraft.controller_model.state import State, StateHistory
from kraftwreck.checkers.kraft.limits import APPLIED_NS
from kraftwreck.checkers.recorded.clocks import running_since

if TYPE_CHECKING:
    from kraftwreck.checkers.kraft.invariants.evidence import Evidence  # whose package imports this


class TakenIn:
    """Judges the answers of nodes in the order of their times."""

    def __init__(self, evidence: Evidence, history: StateHistory, commits: Commits) -> None:
        self._evidence = evidence
        self._history = history
        self._commits = commits
        self._shown: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        """Per process: when (ns) it answered, and the least end that it had shown by then."""

    def fault(
        self, exchange: Exchange, fault: Callable[[State], str | None], *, serves: bool
    ) -> str | None:
        """Return what is wrong with an answer; ``fault`` returns how it differs from a state.

        A node that ``serves`` is a broker that caught up with what was committed when it started.
        """
        message = exchange.message
        node = self._evidence.name(message.replier)
        end, life = self._commits.taken(node, message.time + self._commits.blur)
        known = self._commits.at_start(node, life) if serves else 0
        if end < known:
            return (
                f"{exchange.where} having applied the log up to offset {end}; when it started, "
                f"{known} was committed, and a broker serves only once it has caught up."
            )
        stopped = self._evidence.pauses.get(node, ())
        since = running_since(message.time, APPLIED_NS, stopped)
        low, before = self._commits.taken(node, since - self._commits.blur)
        low = max(low if before == life else 0, self._shown_before(node, life, message.sent))
        low = min(low, end)
        for state in reversed(list(self._history.states(low, end))):  # The earliest comes first.
            if fault(state) is None:
                self._shows(node, life, message.time, state.end)
                return None
        return (
            f"{exchange.where} having applied the log up to offset {end}, but not as that state "
            f"is: {fault(State(self._history, end))}."
        )

    def _shown_before(self, node: str, life: int, time: int) -> int:
        """Return the least end of what the process had shown before ``time``."""
        times, ends = self._shown.get((node, life), ([], []))
        place = bisect_left(times, time - self._commits.blur)
        return ends[place - 1] if place else 0

    def _shows(self, node: str, life: int, time: int, end: int) -> None:
        times, ends = self._shown.setdefault((node, life), ([], []))
        if not ends or end > ends[-1]:
            times.append(time)
            ends.append(end)
