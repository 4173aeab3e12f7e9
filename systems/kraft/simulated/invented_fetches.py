"""Asks leaders about fetches that nobody has sent (I28).

A leader compares the end of a fetcher's log, an offset and the epoch of the last record, with its
own log. Ends that matter are rare: right where the log was cleaned, in an epoch that the leader
never had. So they are invented when a node is elected and when a leader has cleaned its log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.kraft.fetches import Verdict, validate
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import disk_of

MOST: Final = 24
"""How often leaders are asked in a run."""
EPOCHS: Final = 3
"""The last epochs of a log whose boundaries are tried, beside that of its start."""


@dataclass(slots=True, frozen=True)
class Known:
    """A log from ``start`` to ``end`` by the headers of its batches.

    ``spans`` has the first offset of each epoch in the log and its end. ``below`` is the epoch of
    the record before the start, by the snapshot that ends there, None without one.
    """

    start: int
    end: int
    spans: dict[int, tuple[int, int]]
    below: int | None

    def epoch_before(self, offset: int) -> int | None:
        """Return the epoch of the record right below ``offset``, None if it is not known."""
        if offset == self.start:
            return self.below
        for epoch, (first, end) in self.spans.items():
            if first < offset <= end:
                return epoch
        return None

    def ends(self) -> Iterator[tuple[int, int]]:
        """Yield (offset, epoch) at which the log of a fetcher may end."""
        last = dict(list(self.spans.items())[-EPOCHS:])
        offsets = {self.start, self.end, self.end + 1, *(end for _, end in last.values())}
        known = {*last, *list(self.spans)[:1], *(() if self.below is None else (self.below,))}
        epochs = {epoch + step for epoch in known for step in (-1, 0, 1)}
        for offset, epoch in product(sorted(offsets), sorted(epochs)):
            # An epoch has one leader, so no log has a record of it below its first one.
            first = self.spans.get(epoch, (self.start, 0))[0]
            if offset > 0 and epoch >= 0 and (offset > first or first == self.start):
                yield offset, epoch


class InventedFetches:
    """Judges the leaders of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._left = MOST
        world.on_trace.append(self._on_trace)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind not in ("elected", "clean") or not isinstance(host.node, Node):
            return
        replica = host.node.replica
        if self._left == 0 or not isinstance(replica.state, Leader):
            return
        self._left -= 1
        below = dict(disk_of(host).snapshots.keys())
        for wrong in judge(replica, known(replica, below)):
            self._failures.add("I28", self._world.now, f"{host.name} {wrong}", event)


def known(replica: Replica, snapshots: dict[int, int]) -> Known:
    """Return the log of ``replica``; ``snapshots`` has the epochs of those on its disk by end."""
    log = replica.log
    spans: dict[int, tuple[int, int]] = {}
    for _, header in log.batches_between(log.start_offset, log.end_offset):
        first = spans.get(header.epoch, (header.base_offset, 0))[0]
        spans[header.epoch] = first, header.last_offset + 1
    return Known(log.start_offset, log.end_offset, spans, snapshots.get(log.start_offset))


def judge(replica: Replica, log: Known) -> Iterator[str]:
    """Yield the wrong answers to invented fetches; ``log`` is what the replica has."""
    least = replica.snapshots[0].epoch if replica.snapshots else 0
    for offset, epoch in log.ends():
        verdict = validate(replica, offset, epoch)
        wrong = _fault(log, offset, epoch, verdict, least)
        if wrong:
            yield (
                f"would answer that a log which ends at {offset} with epoch {epoch} {wrong}; its"
                f" own log is from {log.start} to {log.end}, with the epochs {log.spans} after"
                f" {log.below}"
            )
            return


def _fault(log: Known, offset: int, epoch: int, verdict: Verdict, least: int) -> str:
    """Return what is wrong with ``verdict``. A log that ends in an epoch before ``least`` may be
    replaced by a snapshot."""
    own = log.epoch_before(offset)
    if verdict.is_valid:
        if not log.start <= offset <= log.end or own not in (epoch, None):
            return f"is a prefix of its own, which has epoch {own} there"
        return ""
    if own == epoch and offset > log.start and epoch >= least:
        return "is no prefix of its own"
    if verdict.diverging is None:
        return ""
    back, end = verdict.diverging
    if back > epoch or (back == epoch and end >= offset):
        return f"diverges at {end} of epoch {back}, which is no step back"
    if back in log.spans and end != log.spans[back][1]:
        return f"diverges after an epoch {back} that ends at {end}"
    return ""
