"""Requests with their answers, and the states of the committed log that each may describe."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from kraftwreck.checkers.recorded.clocks import slowest
from kraftwreck.histories.message import Message

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
    def request(self) -> dict[str, Any]:
        request: dict[str, Any] = self.message.request
        return request

    @property
    def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.message.response
        return answer


class Commits:
    """How far the log was committed, and how far each node had applied it, by time.

    A commit counts from the first event that reports it or a later commit: the node that wrote a
    batch may have died before it reported the commit.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        # Clocks, and the samples of slow clocks, have a resolution of whole microseconds. So two
        # events of one instant may seem this far apart.
        self.blur = int(4_000 * slowest(evidence.run.test))
        self._times: list[int] = []
        self._ends: list[int] = []
        told = sorted(evidence.trace.chain.committed.items())
        first = 1 << 62
        for _, entry in reversed(told):
            at = None if entry.event is None else evidence.moment(entry.event)
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
            batch = evidence.trace.chain.batches.get(entry.id)
            at = None if batch is None or batch.event is None else evidence.moment(batch.event)
            if at is not None:
                self._written[entry.last + 1] = at
        self._taken: dict[str, tuple[list[int], list[int], list[int]]] = {}
        for event in evidence.run.events:
            if event.kind == "commit":
                end = event.detail["last"] + 1
            elif event.kind == "load":
                end = event.detail["end"]
            elif event.kind == "start":
                end = 0
            else:
                continue
            at = evidence.moment(event)
            if at is not None:
                times, ends, lives = self._taken.setdefault(event.node, ([], [], []))
                if event.kind == "load" and lives and lives[-1] == event.incarnation:
                    end = max(end, ends[-1])  # The event is reported after later batches.
                times.append(at)
                ends.append(end)
                lives.append(event.incarnation)

    @classmethod
    def of(cls, evidence: Evidence) -> Commits:
        """Return the commits of ``evidence``'s run, gathered once."""
        return evidence.run.derived("commits", lambda run: cls(evidence))

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
        found = self._taken.get(node)
        if found is None:
            return 0, 0
        times, ends, lives = found
        place = bisect_right(times, time)
        if life is not None:
            place = min(place, bisect_right(lives, life))
        return (ends[place - 1], lives[place - 1]) if place else (0, 0)

    def at_start(self, node: str, life: int) -> int:
        """Return the end of what was committed when the node's incarnation ``life`` started. A
        broker registers after that, and serves once it has applied its registration."""
        times, _, lives = self._taken.get(node, ([], [], []))
        place = bisect_left(lives, life)
        known = place < len(lives) and lives[place] == life
        return self.committed(times[place] - self.blur) if known else 0

    def exchange(self, message: Message) -> Exchange | None:
        """Return the exchange of a captured message, None if its request or answer is missing."""
        if not message.is_exchange:
            return None
        node = self._evidence.name(message.replier)
        if self._evidence.own_inputs:
            # The node's own clock orders its inputs and its commits without an error.
            low, _ = self.taken(node, message.sent - 1)
            # A broker passes on what the controller knows, which may be news to it.
            broker = self._evidence.is_broker(message)
            high = self._last if broker else self.taken(node, message.time)[0]
        else:
            low = self.committed(message.sent - self.blur)
            high = self.committed(message.time + self.blur)
        if low > high:
            return None
        return Exchange(message, low, high, f"{node} answers {message.api}")
