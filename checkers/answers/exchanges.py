"""Requests with their answers, and which states of the committed log each may speak of."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from checkers.recorded.clocks import slowest
from histories.message import Message

if TYPE_CHECKING:
    from checkers.invariants.evidence import Evidence  # whose package imports this


class Exchange(NamedTuple):
    """A request and its answer. Whoever is the active controller at its end has answered from
    a state between ``low`` (all that was committed when it was sent) and ``high`` (all that
    was committed when it was answered). ``where`` names the node and the API."""

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
    """Up to where the log was committed, and up to where each node had taken it in, by time.

    A commit counts from the first event that tells of it, or of a later one: who wrote a batch may
    have died before it told anybody.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        # Clocks and the samples of those that run slower are in whole microseconds, so what
        # happens at one instant may seem this far apart.
        self.blur = int(4_000 * slowest(evidence.run.test))
        self._times: list[int] = []
        self._ends: list[int] = []
        told = sorted(evidence.trace.chain.committed.items())
        first = 1 << 62
        for _, entry in reversed(told):
            at = None if entry.event is None else evidence.moment(entry.event)
            if at is None:
                continue  # told by a disk only: when is not known
            first = min(first, at)
            self._times.append(first)
            self._ends.append(entry.last + 1)
        self._times.reverse()
        self._ends.reverse()
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
                    end = max(end, ends[-1])  # told of after the batches that come behind it
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
        """Return when (ns) the batch that ends at ``end`` was first appended, by its leader or who
        told of it first, or else when it was committed: who wrote it may have died before it told
        of it. A far future if neither is known."""
        told, committed = self._written.get(end), self.when(end)
        return min((at for at in (told, committed) if at is not None), default=1 << 62)

    def taken(self, node: str, time: int, life: int | None = None) -> tuple[int, int]:
        """Return (end, incarnation) of what the node had taken in at ``time``, or at the end of its
        incarnation ``life`` where that was over by then."""
        found = self._taken.get(node)
        if found is None:
            return 0, 0
        times, ends, lives = found
        place = bisect_right(times, time)
        if life is not None:
            place = min(place, bisect_right(lives, life))
        return (ends[place - 1], lives[place - 1]) if place else (0, 0)

    def at_start(self, node: str, life: int) -> int:
        """Return the end of what was committed when the node's incarnation ``life`` started; a
        broker registers after that, and serves once it has taken in its registration."""
        times, _, lives = self._taken.get(node, ([], [], []))
        place = bisect_left(lives, life)
        known = place < len(lives) and lives[place] == life
        return self.committed(times[place] - self.blur) if known else 0

    def exchange(self, message: Message) -> Exchange | None:
        """Return the exchange of a captured message, None if it is but half of one."""
        if message.request is None or message.response is None or message.sent < 0:
            return None
        node = self._evidence.name(message.replier)
        low = self.committed(message.sent - self.blur)
        high = self.committed(message.time + self.blur)
        if low > high:
            return None
        return Exchange(message, low, high, f"{node} answers {message.api}")
