"""Watches when nodes take snapshots of the metadata log (F12).

A snapshot is due once ``metadata.log.max.record.bytes.between.snapshots`` were committed since the
last one, or any record and ``metadata.log.max.snapshot.interval.ms`` have passed. Without it the
log grows without bound, and with more of them disk and processor have no rest. Both count from the
begin of a snapshot, whether it was made or loaded, and the time is that of the node's clock.

Inside of a metadata transaction none is due (KIP-868). Few snapshots meet one, so that is
rehearsed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.checkers.kraft.limits import (
    DRIFT_US,
    SNAPSHOT_BYTES,
    SNAPSHOT_INTERVAL_MS,
    STEPS_US,
)
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.loader import Loader
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.records import encode_record
from kraftwreck.nodes.replication.events import is_from_shell
from kraftwreck.simulation.disk_index import SnapshotId
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World

BYTES: Final = "snapshot_bytes"
INTERVAL: Final = "snapshot_interval_ms"
NO_SNAPSHOT: Final = (0, 0)


@dataclass(slots=True)
class _Process:
    """The snapshots of one process; times are virtual µs.

    ``latest`` is the newest snapshot that was begun or loaded, at ``since``. It is known once the
    process has ``stepped``. ``own``: the process began it itself. The batches up to ``counted``
    have ``size`` bytes after the snapshot. ``due`` is since when the next one is missing, None if
    it is not. ``early`` has the snapshots that were begun too early, with the reason.
    """

    since: int
    stepped: bool = False
    latest: SnapshotId = NO_SNAPSHOT
    own: bool = False
    counted: int = 0
    size: int = 0
    due: int | None = None
    early: dict[SnapshotId, str] = field(default_factory=dict)


class CadenceWatch:
    """Judges the snapshots of each process of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._processes: dict[int, _Process] = {}
        world.afterwards(self._rehearse)
        self._limits = {host.id: self._settings_of(host) for host in world.hosts}
        world.on_trace.append(self._on_trace)
        world.on_step.append(self._on_step)

    def _settings_of(self, host: Host) -> tuple[int, int]:
        """Return the most bytes between snapshots, and the longest time (µs) between them."""
        settings = self._world.knobs.settings_of(host.id)
        return settings.get(BYTES, SNAPSHOT_BYTES), 1000 * settings.get(
            INTERVAL, SNAPSHOT_INTERVAL_MS
        )

    def _rehearse(self) -> None:
        for wrong in wrong_in_a_transaction():
            self._failures.add("F12", self._world.now, f"a node {wrong}")
            return

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        kind = event.kind
        if kind == "start":
            self._processes[host.id] = _Process(self._world.now)
            return
        known = self._processes.get(host.id)
        if known is None:
            return
        if kind == "load":
            known.since, known.own, known.due = self._world.now, False, None
        elif kind == "snapshot":
            # Only snapshots that were finished count: those of other nodes replace the others.
            reason = known.early.pop((event.detail["end"], event.detail["epoch"]), None)
            if reason is not None:
                self._failures.add("F12", self._world.now, reason, event)

    @rule(
        "F12",
        "SnapshotsInTime",
        "A node begins a snapshot within a second once the committed bytes or the time since the "
        "last one have reached their limit, if records were committed since. It begins none "
        "earlier.",
        simulated=True,
    )
    def _on_step(self, host: Host, event: Any) -> None:
        known, node = self._processes.get(host.id), host.node
        if known is None or not isinstance(node, Node) or is_from_shell(event):
            return
        latest = _latest(node)
        if not known.stepped:
            known.stepped, known.latest, known.since = True, latest, self._world.now
        elif latest > known.latest:
            self._judge_early(host, known, node, latest)
            known.latest, known.since, known.due = latest, self._world.now, None
            known.own, known.size, known.counted = True, 0, latest[0]
        end = node.image.stable_offset + 1
        if end <= known.latest[0] or not _may_begin(node):
            known.due = None
            return
        if end > known.counted:
            start = max(known.counted, known.latest[0])
            known.size += _size(node, start, end)
            known.counted = end
        self._judge_late(host, known, end)

    def _judge_early(self, host: Host, known: _Process, node: Node, latest: SnapshotId) -> None:
        """Judge the begin of the snapshot ``latest`` after one that the process began, too."""
        if not known.own:
            return
        most, interval = self._limits[host.id]
        waited = host.clock.elapsed(known.since, self._world.now)
        if 0 < interval <= waited + DRIFT_US:
            return
        size = _size(node, known.latest[0], latest[0])
        if size < most:
            known.early[latest] = (
                f"{host.name} begins a snapshot up to {latest[0]} only {waited / 1e6:.3f} s and"
                f" {size} bytes after the one up to {known.latest[0]}; due are"
                f" {interval // 1000} ms or {most} bytes"
            )

    def _judge_late(self, host: Host, known: _Process, end: int) -> None:
        now = self._world.now
        most, interval = self._limits[host.id]
        if known.size < most and not 0 < interval <= host.clock.elapsed(known.since, now):
            return
        if known.due is None:
            known.due = now
        elif host.waited(known.due, now, STEPS_US) > 0:
            known.due, known.since, known.size = None, now, 0  # Once.
            self._failures.add(
                "F12",
                now,
                f"{host.name} has committed records up to {end}, but has begun no snapshot"
                f" since the one up to {known.latest[0]}; due are {interval // 1000} ms or"
                f" {most} bytes",
            )


def _latest(node: Node) -> SnapshotId:
    """Return the newest snapshot that ``node`` has or makes."""
    made = node.replica.snapshots
    return max(made[-1].id if made else NO_SNAPSHOT, node.loader.generating or NO_SNAPSHOT)


def _may_begin(node: Node) -> bool:
    """Whether the image is complete, and no other snapshot is being made or loaded."""
    loader = node.loader
    if loader.loading is not None or loader.generating is not None or node.image.in_transaction:
        return False
    return node.replica.high_watermark >= 0


def _size(node: Node, start: int, end: int) -> int:
    """Return the bytes of the committed batches from ``start`` to ``end``."""
    return sum(len(batch) for batch, _ in node.replica.log.batches_between(start, end))


def wrong_in_a_transaction() -> Iterator[str]:
    """Yield when a snapshot would be due, or missing, around a metadata transaction."""
    loader = Loader(MetadataImage(indexed=False), snapshot_bytes=1)
    topics = [("TopicRecord", {"name": name, "topic_id": name.encode() * 16}) for name in "abc"]
    steps: tuple[tuple[str, dict[str, Any], bool], ...] = (
        (*topics[0], True),
        ("BeginTransactionRecord", {"name": "t"}, False),
        (*topics[1], False),
        ("EndTransactionRecord", {}, True),
        (*topics[2], True),
    )
    for offset, (kind, fields, is_due) in enumerate(steps):
        record = encode_record(kind, 0, fields)
        loader.committed(encode_batch(offset, 1, 0, [(None, record)], control=False))
        while loader.work():
            pass
        due = loader.due(0)
        if due != ((offset + 1, 1) if is_due else None):
            yield f"would begin the snapshot {due} after a {kind} at {offset}"
