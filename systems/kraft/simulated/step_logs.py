"""The logs of replicas as they were during the last step of each broker.

A step may answer several requests that waited, and append or delete between two answers. All of
them leave when the step is over, so each answer may be about any state of the log on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog, RecordLogs

Place = tuple[int, PartitionKey]


def first_unless_right(faults: Iterable[str]) -> str:
    """Return the first of ``faults``, what is wrong by each state; "" if one has none."""
    first = ""
    for fault in faults:
        if not fault:
            return ""
        first = first or fault
    return first


class StepLogs:
    """Follows the appends and deletions of each step; ``logs`` has their results."""

    def __init__(self, world: World, logs: RecordLogs) -> None:
        self._appended: dict[Place, int] = {}
        """How many batches the step has appended."""
        self._deleted: dict[Place, tuple[int, list[Batch]]] = {}
        """Where the log began before the step, and what the step has deleted."""
        world.on_step.append(self._on_step)
        logs.on_append.append(self._on_append)
        logs.on_delete.append(self._on_delete)

    def _on_step(self, host: Host, event: object) -> None:
        for known in (self._appended, self._deleted):
            for place in [place for place in known if place[0] == host.id]:
                del known[place]

    def _on_append(self, host: Host, key: PartitionKey, batch: Batch) -> None:
        place = host.id, key
        self._appended[place] = self._appended.get(place, 0) + 1

    def _on_delete(self, host: Host, key: PartitionKey, began: int, removed: list[Batch]) -> None:
        first, earlier = self._deleted.get((host.id, key), (began, []))
        self._deleted[host.id, key] = first, [*earlier, *removed]

    def states(self, host: Host, key: PartitionKey, log: RecordLog) -> Iterator[RecordLog]:
        """Yield ``log``, which is what the step has left, and what it was during the step."""
        yield log
        appended = self._appended.get((host.id, key), 0)
        start, deleted = self._deleted.get((host.id, key), (log.start, []))
        every = [*deleted, *log.batches]
        for left_out in range(appended + 1):
            kept = every[: len(every) - left_out]
            if left_out or start != log.start:
                yield RecordLog(start, kept)
            if left_out and start != log.start:
                yield RecordLog(log.start, [each for each in kept if each.next_offset > log.start])
