"""Timeline of node positions from the traces, to compare messages with."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.limits import STEP_NS
from kraftwreck.histories.message import Message
from kraftwreck.histories.trace import TraceEvent

LEADER, FOLLOWER, RESIGNED = "leader", "follower", "resigned"
_MOVES = frozenset(("start", "state", "grant", "elected", "resign"))
_LOG = frozenset(("append", "truncate", "install", "start"))

_TOLD = _MOVES | _LOG | {"voters"}

Voters = frozenset[tuple[int, str]]
"""(node id, directory id in hex) of the voters in force."""


class Position(NamedTuple):
    """A node's position: ``directory`` is its disk's id in hex, None if unknown."""

    state: str
    epoch: int
    leader: int
    voted: int
    directory: str | None


class _Node:
    """The positions of one node and the ends of its log, over time. ``when`` returns the time (ns
    since the start of the test) of an event."""

    def __init__(self, when: Callable[[TraceEvent], int | None]) -> None:
        self._when = when
        self.times: list[int] = []
        self.positions: list[Position] = []
        self.tip_times: list[int] = []
        self.tips: list[tuple[int | None, int]] = []
        """(epoch of the last record, end offset); no epoch where it is not known."""
        self.voters_times: list[int] = []
        self.voters: list[tuple[Voters, int]] = []
        self._stack: list[tuple[int, int | None]] = []
        self._directory: str | None = None

    def _time(self, event: TraceEvent) -> int:
        at = self._when(event)
        return -1 if at is None else at

    def moved(self, event: TraceEvent) -> None:
        """Note the node's position."""
        if event.kind == "start":
            self._directory = event.detail.get("directory")
        now = Position(event.state, event.epoch, event.leader, event.voted, self._directory)
        if not self.positions or self.positions[-1] != now:
            self.times.append(self._time(event))
            self.positions.append(now)

    def counts(self, event: TraceEvent) -> None:
        """Note the voters that the node uses."""
        voters = frozenset((int(i), str(directory)) for i, directory in event.detail["voters"])
        self.voters_times.append(self._time(event))
        self.voters.append((voters, event.detail["kraft_version"]))

    def logged(self, event: TraceEvent) -> None:
        """Note the end of the node's log."""
        stack = self._stack
        last_epoch = event.detail.get("last_epoch") if event.kind == "start" else None
        if last_epoch is not None:
            if not stack or stack[-1] != (event.leo, last_epoch):
                # The process before may have cut and appended, and died without a report.
                stack[:] = [(event.leo, last_epoch)]
        elif event.kind == "append":
            stack.append((event.leo, event.detail["epoch"]))
        elif event.kind == "install":
            stack[:] = [(event.leo, event.detail["epoch"])]
        else:
            while stack and stack[-1][0] > event.leo:
                stack.pop()
            if not stack or stack[-1][0] != event.leo:
                stack[:] = [(event.leo, 0 if event.leo == 0 else None)]
        self.tip_times.append(self._time(event))
        self.tips.append((stack[-1][1], event.leo))


class Standing:
    """All nodes of a run; made once and shared (:meth:`of`)."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._nodes: dict[str, _Node] = {
            name: _Node(evidence.moment) for name in evidence.names.values()
        }
        self.resigned: set[tuple[int, int]] = set()
        """(node id, epoch) of each node that resigned as leader of the epoch."""
        ids = {name: node for node, name in evidence.names.items()}
        for event in evidence.run.events:
            kind = event.kind
            if kind in _TOLD:
                node = self._nodes.get(event.node)
                if node is None:
                    continue
                if kind == "voters":
                    node.counts(event)
                    continue
                if kind in _MOVES:
                    node.moved(event)
                    if event.state == RESIGNED:
                        self.resigned.add((ids[event.node], event.epoch))
                if kind in _LOG:
                    node.logged(event)

    @classmethod
    def of(cls, evidence: Evidence) -> Standing:
        """Return the positions of the nodes of ``evidence``'s run, made once."""
        return evidence.run.derived("standing", lambda run: cls(evidence))

    def positions(self, message: Message) -> list[Position]:
        """Return the replier's positions from the request's sending to its answer."""
        node = self._nodes.get(self._evidence.name(message.replier))
        return [] if node is None else node.positions[self._span(message, node.times)]

    def tips(self, message: Message) -> list[tuple[int | None, int]]:
        """Return (epoch of the last record, end offset) of the replier's log in that time."""
        node = self._nodes.get(self._evidence.name(message.replier))
        return [] if node is None else node.tips[self._span(message, node.tip_times)]

    def voters(self, message: Message) -> list[tuple[Voters, int]]:
        """Return the voters in force on the replier, with kraft.version, in that time."""
        node = self._nodes.get(self._evidence.name(message.replier))
        return [] if node is None else node.voters[self._span(message, node.voters_times)]

    @staticmethod
    def _span(message: Message, times: list[int]) -> slice:
        first = max(bisect_right(times, message.sent) - 1, 0)
        return slice(first, bisect_right(times, message.time + STEP_NS, lo=first))


def told(stood: list[Position]) -> str:
    """Return positions in words."""
    places = [f"{at.state} of epoch {at.epoch} (leader {at.leader})" for at in stood[-4:]]
    return ", then ".join(places)
