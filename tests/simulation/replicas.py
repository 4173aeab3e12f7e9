"""Brokers without nodes, each with a replica of one partition: a test says what they have."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.events import Assignment, Settings
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.in_sync import Remote
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import record_logs
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog

KEY: PartitionKey = (bytes(16), 0)
BROKERS = (4, 5, 6)


def batch(base: int, end: int, epoch: int = 1, **changed: int) -> Batch:
    """A batch with the records from ``base`` to before ``end``; its checksum says where it is."""
    values = {
        "base_offset": base,
        "last_offset_delta": end - base - 1,
        "leader_epoch": epoch,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "max_timestamp": 0,
        "count": end - base,
        "size": 10,
        "crc": base,
        "attributes": 0,
    }
    return Batch(**(values | changed))


def epochs_of(batches: tuple[Batch, ...]) -> list[tuple[int, int]]:
    starts: dict[int, int] = {}
    for each in batches:
        starts.setdefault(each.leader_epoch, each.base_offset)
    return sorted(starts.items())


class Brokers:
    """Brokers 4, 5 and 6, whose replicas the rules in ``modules`` see."""

    def __init__(self, patch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        self.failures = Failures()
        self.image: Any = SimpleNamespace(last_offset=0, partitions={}, features={})
        self.hosts: dict[int, Any] = {number: self._host(number) for number in BROKERS}
        self.world: Any = SimpleNamespace(
            now=0, hosts=list(self.hosts.values()), on_disk=[], on_caused=[], on_wipe=[],
            on_emit=[], on_trace=[], on_step=[], on_work=[],
        )  # fmt: skip
        for module in (record_logs, *modules):
            patch.setattr(module, "replicas_on", lambda host: host.replicas)
            patch.setattr(module, "disk_of_records", lambda host: host.disk, raising=False)
            patch.setattr(module, "Node", SimpleNamespace, raising=False)
        self.logs: Any = None
        """Those of the rule: :meth:`has` writes them."""

    def _host(self, number: int) -> Any:
        disk = SimpleNamespace(losses=0, trouble=None, logs=SimpleNamespace(full=set()))
        return SimpleNamespace(
            id=number, name=f"b{number}", life=1, disk=disk, working=False, replicas={},
            node=SimpleNamespace(image=SimpleNamespace(stable=self.image)),
            waited=lambda since, now, slack: now - since - slack,
        )  # fmt: skip

    def has(
        self, number: int, *batches: Batch, start: int = 0, hw: int = 0, epoch: int = 1,
        leads: bool = False, isr: tuple[int, ...] = BROKERS, settings: Settings | None = None,
        epoch_start: int = 0, partition_epoch: int = 0,
    ) -> Any:  # fmt: skip
        """Give a broker this replica, on its disk too, and return it.

        A leader knows where the others end.
        """
        log = RecordLog(start, list(batches))
        self.logs._logs[number, KEY] = log
        remotes = {each: Remote(0, self._end(each)) for each in BROKERS if each != number}
        view = SimpleNamespace(
            start=start, end=log.end, epochs=SimpleNamespace(entries=epochs_of(batches))
        )
        replica = SimpleNamespace(
            key=KEY, log=view, hw=hw, leading=leads, recovering=False, epoch_start=epoch_start,
            in_sync=SimpleNamespace(isr=isr, pending=None, remotes=remotes),
            assignment=Assignment(BROKERS, isr, 4, epoch, partition_epoch),
            settings=settings or Settings(), vouched=log.end,
            with_=SimpleNamespace(now=0, lag_us=0, peers={}),
        )  # fmt: skip
        self.hosts[number].replicas = {KEY: replica}
        return replica

    def _end(self, number: int) -> int:
        log = self.logs.of(number, KEY)
        return 0 if log is None else log.end

    def emit(self, number: int) -> list[str]:
        """Let the rules look at a broker; return the rules that are broken so far."""
        for look in self.world.on_emit:
            look(self.hosts[number])
        return self.broken

    @property
    def broken(self) -> list[str]:
        return [failure.type for failure in self.failures.items]
