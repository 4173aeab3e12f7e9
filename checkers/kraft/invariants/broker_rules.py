"""Registrations: C1 BrokerEpochUnique, C2 BrokerEpochFencing and C3 FencedNotInIsr by records."""

from __future__ import annotations

from kraftwreck.checkers.kraft.controller_model.metadata_model import Broker, Change, MetadataModel
from kraftwreck.checkers.kraft.controller_model.replay import Step
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.recorded.disk_log import StoredBatch

_NAMING_AN_EPOCH = frozenset(
    {
        "BrokerRegistrationChangeRecord",
        "FenceBrokerRecord",
        "UnfenceBrokerRecord",
        "UnregisterBrokerRecord",
    }
)
LARGEST_BATCH = 9_000
"""From this many records on, an operation may continue in the next batch (Kafka: 10,000)."""

HOLE = (-1, -1, -1, False)


class BrokerRules:
    """Rules for registrations.

    ``states`` are all changes of service: (offset of the batch, broker id, broker epoch, whether it
    is unfenced), with :data:`HOLE` where a part of the log is missing. ``kept`` holds new
    incarnations that stay in an ISR or ELR after their registration. By (broker id, epoch) it gives
    the epoch of the incarnation before (None: there was none) and the partition.
    """

    def __init__(self, report: Report) -> None:
        self.states: list[tuple[int, int, int, bool]] = []
        self.fenced: list[tuple[int, int, int]] = []
        """Brokers that were fenced without other changes: (offset of the batch, id, epoch)."""
        self.kept: dict[tuple[int, int], tuple[int | None, str]] = {}
        self._fresh: list[tuple[int, int, int | None]] = []
        self._report = report
        self._latest: dict[int, int] = {}
        self._left: set[int] = set()
        """Brokers that the current batch fences or sends into controlled shutdown."""

    def begin(self, model: MetadataModel) -> None:
        """Continue the replay from ``model``."""
        self.states.append(HOLE)
        for broker_id, broker in model.brokers.items():
            self._latest[broker_id] = max(broker.epoch, self._latest.get(broker_id, -1))

    def refused(self, offset: int, name: str, why: str) -> bool:
        """C2: no record of a stale epoch is written."""
        if name not in _NAMING_AN_EPOCH:
            return False
        self._report.broken("C2", f"{name} at offset {offset}: {why}.")
        return True

    def step(self, step: Step, change: Change) -> None:
        """Judge a changed registration."""
        _, broker_id, old, new = change
        served = old is not None and old.active
        if served and new is not None and new.fenced and old.incarnation == new.incarnation:
            self.fenced.append((step.batch.base, broker_id, new.epoch))
        if step.name == "RegisterBrokerRecord":
            self._registered(step, broker_id, old, new)
        else:
            self._report.held("C2")
        epoch, unfenced = (-1, False) if new is None else (new.epoch, not new.fenced)
        self.states.append((step.batch.base, broker_id, epoch, unfenced))
        if new is None or not new.active:
            if old is None or old.active or new is None or old.incarnation != new.incarnation:
                self._left.add(broker_id)
        else:
            self._left.discard(broker_id)

    def _registered(self, step: Step, broker_id: int, old: Broker | None, new: Broker) -> None:
        """C1: the epoch of a new incarnation is the offset it registered at."""
        report = self._report
        report.held("C1")
        told = f"Broker {broker_id} registers at offset {step.offset} with epoch {new.epoch}"
        if old is not None and old.incarnation == new.incarnation:
            if old.epoch != new.epoch:
                report.broken("C1", f"{told}; the same incarnation had epoch {old.epoch}.")
            elif (old.fenced, old.stopping) != (new.fenced, new.stopping):
                report.broken("C1", f"{told} again, which changes whether it is in service.")
            return
        if not new.fenced or new.stopping:
            report.broken("C1", f"{told} and is not fenced at first.")
        latest = self._latest.get(broker_id, -1)
        if new.epoch <= latest:
            report.broken("C1", f"{told}, which is not above its last epoch {latest}.")
        elif not step.batch.base <= new.epoch <= step.offset:
            report.broken(
                "C1", f"{told}, which is not the offset {step.batch.base} its batch begins at."
            )
        self._latest[broker_id] = max(latest, new.epoch)
        self._fresh.append((broker_id, new.epoch, None if old is None else old.epoch))

    def batch_end(self, batch: StoredBatch, count: int, model: MetadataModel) -> None:
        """C3: a fenced broker has left every ISR and leads nothing."""
        left, self._left = self._left, set()
        fresh, self._fresh = self._fresh, []
        if count >= LARGEST_BATCH:
            return
        for broker_id in sorted(left):
            self._report.held("C3")
            for key, partition in model.partitions.items():
                if broker_id not in partition.isr and partition.leader != broker_id:
                    continue
                alone = partition.isr == (broker_id,) and not model.elr_enabled()
                if alone and partition.leader != broker_id:
                    continue
                what = "leads" if partition.leader == broker_id else "is in the ISR of"
                self._report.broken(
                    "C3",
                    f"After the batch at offset {batch.base}, which takes broker {broker_id} out "
                    f"of service, it still {what} {model.label(key)} (ISR {list(partition.isr)}).",
                )
        if model.elr_enabled():
            for broker_id, epoch, before in fresh:
                for key, partition in model.partitions.items():
                    if broker_id in partition.isr or broker_id in partition.elr:
                        self.kept[broker_id, epoch] = before, model.label(key)
