"""Timeline of node positions from the traces, to compare messages with."""

from __future__ import annotations

from typing import Final, NamedTuple

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.limits import STEP_NS
from kraftwreck.checkers.kraft.quorum_model.quorum import VoterSet, voters_in
from kraftwreck.checkers.kraft.quorum_model.transitions import RESIGNED
from kraftwreck.checkers.kraft.recorded.timeline import Timeline
from kraftwreck.histories.message import Message
from kraftwreck.histories.trace import TraceEvent

_MOVES = frozenset(("start", "state", "grant", "elected", "resign"))
_LOG = frozenset(("append", "truncate", "install", "start"))

_TOLD = _MOVES | _LOG | {"voters"}


class Position(NamedTuple):
    """A node's position: ``directory`` is its disk's id in hex, None if unknown."""

    state: str
    epoch: int
    leader: int
    voted: int
    directory: str | None


class _Node:
    """The positions of one node, the ends of its log, and its voters."""

    def __init__(self) -> None:
        self.positions: Timeline[Position] = Timeline()
        self.tips: Timeline[tuple[int | None, int]] = Timeline()
        """(epoch of the last record, end offset); no epoch where it is not known."""
        self.voters: Timeline[tuple[VoterSet, int]] = Timeline()
        """The voters in force, with kraft.version."""
        self._stack: list[tuple[int, int | None]] = []
        self._directory: str | None = None

    def moved(self, event: TraceEvent, at: int) -> None:
        """Note the node's position."""
        if event.kind == "start":
            self._directory = event.detail.get("directory")
        now = Position(event.state, event.epoch, event.leader, event.voted, self._directory)
        if self.positions.values[-1:] != [now]:
            self.positions.note(at, now)

    def logged(self, event: TraceEvent, at: int) -> None:
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
        self.tips.note(at, (stack[-1][1], event.leo))


_NOWHERE: Final = _Node()


class Standing:
    """All nodes of a run; made once and shared (:meth:`of`)."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._nodes = {name: _Node() for name in evidence.ids}
        self.resigned: set[tuple[int, int]] = set()
        """(node id, epoch) of each node that resigned as leader of the epoch."""
        for event in evidence.run.events:
            kind, node = event.kind, self._nodes.get(event.node)
            if kind not in _TOLD or node is None:
                continue
            moment = evidence.moment(event)
            at = -1 if moment is None else moment
            if kind == "voters":
                voters = frozenset(voters_in(event).items())
                node.voters.note(at, (voters, event.detail["kraft_version"]))
            if kind in _MOVES:
                node.moved(event, at)
                if event.state == RESIGNED:
                    self.resigned.add((evidence.ids[event.node], event.epoch))
            if kind in _LOG:
                node.logged(event, at)

    @classmethod
    def of(cls, evidence: Evidence) -> Standing:
        """Return the positions of the nodes of ``evidence``'s run, made once."""
        return evidence.run.derived("standing", lambda run: cls(evidence))

    def _replier(self, message: Message) -> _Node:
        return self._nodes.get(self._evidence.name(message.replier), _NOWHERE)

    def positions(self, message: Message) -> list[Position]:
        """Return the replier's positions from the request's sending to its answer."""
        return self._replier(message).positions.during(*span(message))

    def tips(self, message: Message) -> list[tuple[int | None, int]]:
        """Return (epoch of the last record, end offset) of the replier's log in that time."""
        return self._replier(message).tips.during(*span(message))

    def voters(self, message: Message) -> list[tuple[VoterSet, int]]:
        """Return the voters in force on the replier, with kraft.version, in that time."""
        return self._replier(message).voters.during(*span(message))


def span(message: Message) -> tuple[int, int]:
    """Return when (ns) a request was sent, and the end of the step that answered it."""
    return message.sent, message.time + STEP_NS


def told(stood: list[Position]) -> str:
    """Return positions in words."""
    places = [f"{at.state} of epoch {at.epoch} (leader {at.leader})" for at in stood[-4:]]
    return ", then ".join(places)
