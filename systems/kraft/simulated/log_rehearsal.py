"""Cuts an invented log of the core several times, and looks at what is left (D2, D3, D7, D11).

The core knows of a log its ends, its epochs, its bytes, its closed segments, its producers and the
headers of its last batches. A cut must take all of that back, also what an earlier cut has left.
Logs of the simulator are too short for the older headers to go, and few of them are cut twice by
one process. So a long log is invented once in a run: it grows, is cut inside of a batch, grows
again, loses its first segments, and is cut again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from kraftwreck.nodes.replication.events import LogOpened, SegmentClosed, Settings
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.log_view import TAIL, LogView
from kraftwreck.nodes.replication.producers import KEPT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.sequence_numbers import last_of

KEY: Final[PartitionKey] = (bytes(16), 0)
BATCHES: Final = TAIL + TAIL // 2
UNCOMMITTED: Final = 3 * TAIL
"""Records at the end of the log that are above the high watermark: most of the known headers."""
SEGMENT: Final = 32
"""Batches in a segment."""
PRODUCERS: Final = 3
EPOCH: Final = 50
"""Batches in a leader epoch."""
RECORDS: Final = 3
"""In a batch."""


class LogRehearsal:
    """Invents a log when the first one is opened in ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._waits = True
        world.on_caused.append(self._on_caused)

    def _on_caused(self, host: Host, event: Any) -> None:
        if self._waits and type(event) is LogOpened:
            self._waits = False
            for rule, wrong in wrong_logs():
                self._failures.add(rule, self._world.now, f"to {host.name} {wrong}")


class _Model:
    """A log as it must be: all batches that were appended and not cut, also the deleted ones."""

    def __init__(self) -> None:
        self.view = LogView(LogOpened(KEY, 0, 0, (), (), 0))
        self.batches: list[Batch] = []
        self.segments: list[SegmentClosed] = []
        self.start = 0
        self._made = 0

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self.batches[-1].next_offset if self.batches else 0

    def grow(self, batches: int) -> None:
        """Append batches; after each :data:`SEGMENT` of them a segment is closed."""
        view = self.view
        for _ in range(batches):
            batch = self._batch()
            view.append(batch, max(self.end - UNCOMMITTED, self.start))
            self.batches.append(batch)
            since = self.segments[-1].end_offset if self.segments else 0
            within = [each for each in self.batches[-SEGMENT:] if each.base_offset >= since]
            if len(within) == SEGMENT:
                size = sum(each.size for each in within)
                closed = SegmentClosed(KEY, since, self.end, size, batch.max_timestamp)
                self.segments.append(closed)
                view.segments.append(closed)

    def _batch(self) -> Batch:
        """Return the next batch: of one producer after another, of another size each."""
        self._made += 1
        number = self._made
        producer = number % PRODUCERS
        before = [each for each in self.batches[-6 * KEPT :] if each.producer_id == producer]
        sequence = last_of(before[-1]) + 1 if before else 0
        epoch = number // EPOCH
        return Batch(
            self.end, RECORDS - 1, epoch, producer, 0, sequence, number, RECORDS, 70 + number % 7,
            number, 0,
        )  # fmt: skip

    def cut(self, offset: int) -> None:
        """Cut the log, back to the start of the batch that ``offset`` is inside of."""
        self.view.truncate(offset)
        self.batches = [each for each in self.batches if each.next_offset <= offset]
        self.segments = [each for each in self.segments if each.end_offset < self.end]

    def delete(self, offset: int) -> None:
        """Delete the records below ``offset``."""
        self.view.delete_up_to(offset)
        self.start = offset

    # --- what must be known ---------------------------------------------------------------------

    def epochs(self) -> list[tuple[int, int]]:
        """Return (epoch, first offset) of each epoch in the log."""
        found: dict[int, int] = {}
        for batch in self.batches:
            if batch.next_offset > self.start:
                found.setdefault(batch.leader_epoch, max(batch.base_offset, self.start))
        return sorted(found.items())

    def bytes_from(self, offset: int) -> int:
        """Return the bytes of the batches from that with ``offset`` on."""
        return sum(each.size for each in self.batches if each.next_offset > offset)

    def size(self) -> int:
        """Return the bytes of the segments that are not deleted."""
        gone = [each.end_offset for each in self.segments if each.end_offset <= self.start]
        return self.bytes_from(max(gone, default=0))

    def producers(self) -> dict[int, list[int]]:
        """Return the offsets of the last batches of each producer."""
        found: dict[int, list[int]] = {}
        for batch in self.batches:
            found.setdefault(batch.producer_id, []).append(batch.base_offset)
        return {producer: offsets[-KEPT:] for producer, offsets in found.items()}

    def retained(self) -> Iterator[tuple[int, int]]:
        """Yield (where the log would begin, where it must) by limits of size and of time, one at a
        time: those at which the next segment goes, and the ones below.

        A batch is as old as the number of those after it.
        """
        left = [each for each in self.segments if each.end_offset > self.start]
        size, forever = self.size(), Settings(retention_ms=-1, retention_bytes=-1)
        for count, each in enumerate(left[:3], start=1):
            size -= each.size
            before = self.start if count == 1 else left[count - 2].end_offset
            age = self._made - each.max_timestamp
            for settings, end in (
                (replace(forever, retention_bytes=size), each.end_offset),
                (replace(forever, retention_bytes=size + 1), before),
                (replace(forever, retention_ms=age - 1), each.end_offset),
                (replace(forever, retention_ms=age), before),
            ):
                for committed in (self.end, each.end_offset - 1):
                    right = end if committed == self.end else before
                    yield self.view.retained_from(settings, committed, self._made), right

    def faults(self) -> Iterator[tuple[str, str]]:
        """Yield the rules that the core breaks, and how."""
        view = self.view
        if (view.start, view.end) != (self.start, self.end):
            yield "D2", f"is from {view.start} to {view.end}, not from {self.start} to {self.end}"
            return
        if view.epochs.entries != self.epochs():
            yield "D7", f"has the epochs {view.epochs.entries}, not {self.epochs()}"
        state = view.producers.state().items()
        known = {producer: [kept.base_offset for kept in each[1]] for producer, each in state}
        if known != self.producers():
            yield "D3", f"has the last batches {known} of producers, not {self.producers()}"
        if view.size != self.size():
            yield "D11", f"has {view.size} bytes, not {self.size()}"
        ends = [each.end_offset for each in view.segments]
        right = [each.end_offset for each in self.segments if each.end_offset > self.start]
        if ends != right:
            yield "D11", f"has closed segments that end at {ends}, not at {right}"
        for begins, right_start in self.retained():
            if begins != right_start:
                yield "D11", f"would keep records from {begins} on, not from {right_start}"
        for batch in self.batches[-2 * KEPT :: KEPT]:
            found = view.bytes_between(batch.base_offset, self.end, 1 << 20)
            if found != (wanted := self.bytes_from(batch.base_offset)):
                yield "L13", f"has {found} bytes from {batch.base_offset} on, not {wanted}"
            whole = view.whole_batches(batch.base_offset, batch.next_offset + 1)
            if whole != batch.next_offset:
                yield "D2", f"has a batch that ends at {whole}, not at {batch.next_offset}"


def wrong_logs() -> Iterator[tuple[str, str]]:
    """Yield what the core would not know of a log that is cut again and again."""
    model = _Model()
    model.grow(BATCHES)
    before = model.end
    middle = before - UNCOMMITTED // 4
    for offset, grows in (
        (middle - 1, KEPT),
        (middle - 2 * RECORDS, EPOCH),
        (middle + RECORDS, 2 * SEGMENT),
        (model.segments[-1].end_offset, KEPT),
    ):
        for stage in ("cut", "grown", "deleted"):
            if stage == "cut":
                model.cut(offset)
            elif stage == "grown":
                model.grow(grows)
            elif model.start == 0:
                model.delete(model.segments[1].end_offset + 1)
            for rule, wrong in model.faults():
                yield rule, f"a log {stage} at {offset} {wrong}"
                return
