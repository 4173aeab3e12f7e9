"""Requests with their answers, and the states of the committed log that each may describe."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kraftwreck.checkers.kraft.limits import BLUR_NS, STEP_NS
from kraftwreck.checkers.kraft.recorded.timeline import Timeline
from kraftwreck.checkers.recorded.clocks import slowest
from kraftwreck.histories.message import Message
from kraftwreck.histories.trace import TraceEvent

if TYPE_CHECKING:
    from kraftwreck.checkers.kraft.invariants.evidence import Evidence  # whose package imports this


class Exchange(NamedTuple):
    """A request and its answer.

    The active controller at its end answers from a state between ``low`` and ``high``: all that was
    committed when the request was sent, and when it was answered. In a node's own input log, it is
    all that this node knew to be committed when the request arrived. ``where`` names the node and
    the API.
    """

    message: Message
    low: int
    high: int
    where: str

    @property
    def span(self) -> tuple[int, int]:
        """Return the first and the last of these states, by their ends."""
        return self.low, self.high

    @property
    def request(self) -> dict[str, Any]:
        request: dict[str, Any] = self.message.request
        return request

    @property
    def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.message.response
        return answer


_PROGRESS: Final = frozenset(("start", "commit", "load", "apply"))


class _Progress(NamedTuple):
    """How far a node knew the log to be committed, and how far its incarnation ``life`` had applied
    it."""

    known: int
    applied: int
    life: int


_NONE: Final = _Progress(0, 0, 0)
_life = attrgetter("life")


def _next(before: _Progress, event: TraceEvent) -> _Progress:
    """Return the progress after an event of :data:`_PROGRESS`.

    A step that applies all that it reports as committed traces no ``apply``; otherwise that is its
    last event.
    """
    kind, detail, applied = event.kind, event.detail, 0
    known = before.known if kind != "start" else 0
    if kind == "commit":
        known = applied = detail["last"] + 1
    elif kind == "apply":
        applied = detail["end"]
    elif kind == "load":
        applied = detail["end"]
        if before.life == event.incarnation:
            applied = max(applied, before.applied)  # Later batches are reported before it.
    return _Progress(max(known, applied), applied, event.incarnation)


class Commits:
    """How far the log was committed, and how far each node had applied it, by time.

    A commit counts from the first event that reports it or a later commit: the node that wrote a
    batch may have died before it reported the commit.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.blur = int(BLUR_NS * slowest(evidence.run.test))
        self.step = max(self.blur, STEP_NS if evidence.own_inputs else 0)
        """How far the times of a step's answers and events may differ (ns)."""
        self._times: list[int] = []
        self._ends: list[int] = []
        told = sorted(evidence.trace.chain.committed.items())
        first = 1 << 62
        for _, entry in reversed(told):
            at = evidence.moment(entry.event)
            if at is None:
                continue  # Known from a disk only: the time is unknown.
            first = min(first, at)
            self._times.append(first)
            self._ends.append(entry.last + 1)
        self._times.reverse()
        self._ends.reverse()
        self._last = self._ends[-1] if self._ends else 0
        self._written: dict[int, int] = {}
        for _, entry in told:
            at = evidence.moment(evidence.trace.chain.appended(entry))
            if at is not None:
                self._written[entry.last + 1] = at
        self._taken: dict[str, Timeline[_Progress]] = {}
        for at, event in evidence.dated(e for e in evidence.run.events if e.kind in _PROGRESS):
            taken = self._of(event.node)
            taken.note(at, _next(taken.values[-1] if taken.values else _NONE, event))

    @classmethod
    def of(cls, evidence: Evidence) -> Commits:
        """Return the commits of ``evidence``'s run, gathered once."""
        return evidence.run.derived("commits", lambda run: cls(evidence))

    def _of(self, node: str) -> Timeline[_Progress]:
        return self._taken.setdefault(node, Timeline())

    def committed(self, time: int) -> int:
        """Return the end of what was committed at ``time`` (ns)."""
        place = bisect_right(self._times, time)
        return self._ends[place - 1] if place else 0

    def when(self, end: int) -> int | None:
        """Return when (ns) everything below ``end`` was committed, None if that is not known."""
        place = bisect_left(self._ends, end)
        return self._times[place] if place < len(self._times) else None

    def written(self, end: int) -> int:
        """Return when (ns) the batch that ends at ``end`` was first appended.

        The append is known from its leader, or from the first node that reported it. Otherwise the
        time of the commit counts, and a far future if that is unknown too.
        """
        told, committed = self._written.get(end), self.when(end)
        return min((at for at in (told, committed) if at is not None), default=1 << 62)

    def taken(self, node: str, time: int, life: int | None = None) -> tuple[int, int]:
        """Return (end, incarnation) of what the node had applied at ``time``, or at the end of its
        incarnation ``life`` if that ended before."""
        found = self._of(node)
        place = bisect_right(found.times, time)
        if life is not None:
            place = min(place, bisect_right(found.values, life, key=_life))
        last = found.values[place - 1] if place else _NONE
        return last.applied, last.life

    def shown(self, node: str, time: int) -> tuple[int, int, int]:
        """Return (least, most, incarnation) of the end of what the node had applied as it answered
        at ``time``: before that step, and after it."""
        end, life = self.taken(node, time + self.step)
        least, before = self.taken(node, time - self.step)
        return min(least, end) if before == life else 0, end, life

    def known(self, node: str, time: int) -> int:
        """Return the end of what the node knew to be committed at ``time``."""
        return (self._of(node).at(time) or _NONE).known

    def at_start(self, node: str, life: int) -> int:
        """Return the end of what was committed when the node's incarnation ``life`` started. A
        broker registers after that, and serves once it has applied its registration."""
        found = self._of(node)
        place = bisect_left(found.values, life, key=_life)
        known = place < len(found.values) and found.values[place].life == life
        return self.committed(found.times[place] - self.blur) if known else 0

    def exchange(self, message: Message) -> Exchange | None:
        """Return the exchange of a captured message, None if its request or answer is missing."""
        if not message.is_exchange:
            return None
        node = self._evidence.name(message.replier)
        if self._evidence.own_inputs:
            # The node's own clock orders its inputs and its commits without an error.
            low = self.known(node, message.sent - 1)
            # A broker passes on what the controller knows, which may be news to it.
            broker = self._evidence.is_broker(message)
            high = self._last if broker else self.known(node, message.time)
        else:
            low = self.committed(message.sent - self.blur)
            high = self.committed(message.time + self.blur)
        if low > high:
            return None
        return Exchange(message, low, high, f"{node} answers {message.api}")
