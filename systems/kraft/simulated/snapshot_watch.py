"""Watches the files of snapshots, and the logs beside them.

I19: a fetched snapshot was made by some node, and is fetched piece by piece from one leader of one
epoch. One that was made while the log grew has the content of its image when it began; the first
ones are made again, while invented changes are made (:mod:`snapshot_rehearsal`). I20: the
file is whole. I21: a log that does not begin at 0 begins at or below the end of a snapshot.
"""

from __future__ import annotations

import contextlib
import hashlib

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import CleanLog, FinishSnapshot, InstallSnapshot
from kraftwreck.nodes.consensus.kraft.messages import FetchSnapshotRequest
from kraftwreck.nodes.log.snapshots import (
    SnapshotCorruptError,
    data_records,
    snapshot_name,
    verify,
)
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.records import decode_record
from kraftwreck.simulation.disk_index import SnapshotId
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated import snapshot_rehearsal
from kraftwreck.systems.kraft.simulated.binding import disk_of


class SnapshotWatch:
    """Compares the snapshots on all disks with each other and with the logs."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._contents: dict[SnapshotId, set[bytes]] = {}
        self._new: dict[int, tuple[SnapshotId, bytes]] = {}
        self._begun: set[tuple[int, int, bytes, int, SnapshotId]] = set()  # Downloads.
        self._rehearsals = snapshot_rehearsal.MOST
        world.on_disk.append(self._on_disk)
        world.on_wipe.append(self._wiped)

    # --- files ------------------------------------------------------------------------

    def _on_disk(self, host: Host, effect: object) -> None:
        """Compare ``effect`` with the log and with other snapshots before it reaches the disk."""
        kind = type(effect)
        if kind is FinishSnapshot:
            assert isinstance(effect, FinishSnapshot)
            self._settle(host)
            name = effect.end_offset, effect.epoch
            content = bytes(disk_of(host).parts.get(name, b""))
            if _digest(content) not in self._contents.get(name, ()):
                self._new[host.id] = name, content
        elif kind is InstallSnapshot:
            assert isinstance(effect, InstallSnapshot)
            self._check_installed(host, (effect.end_offset, effect.epoch))
        elif kind is CleanLog:
            assert isinstance(effect, CleanLog)
            start = effect.start_offset
            if start > 0 and not any(end >= start for end, _ in disk_of(host).snapshots):
                self._fail(
                    "I21", f"{host.name} cleaned its log up to {start} without a snapshot of it"
                )

    def _settle(self, host: Host) -> None:
        """Treat the snapshot that the node finished last as made by it, not fetched."""
        new = self._new.pop(host.id, None)
        if new is not None:
            name, content = new
            self._contents.setdefault(name, set()).add(_digest(content))
            self._verify(host, name, content)

    def _verify(self, host: Host, name: SnapshotId, content: bytes) -> None:
        try:
            verify(content, snapshot_name(*name))
        except SnapshotCorruptError as error:
            self._fail("I20", f"{host.name} has a snapshot that cannot be read: {error}")

    def _found(self, name: SnapshotId, content: bytes) -> None:
        """Note a whole snapshot that a start found: a failed disk may have completed it."""
        known = self._contents.setdefault(name, set())
        if _digest(content) not in known:
            with contextlib.suppress(SnapshotCorruptError):
                verify(content, snapshot_name(*name))
                known.add(_digest(content))

    def _check_installed(self, host: Host, name: SnapshotId) -> None:
        new = self._new.pop(host.id, None)
        if new is not None and new[0] == name:
            self._fail(
                "I19", f"{host.name} has fetched a snapshot {name} whose bytes no node has made"
            )

    def _wiped(self, host: Host) -> None:
        self._new.pop(host.id, None)

    # --- messages ---------------------------------------------------------------------

    def asked(self, host: Host, request: FetchSnapshotRequest) -> None:
        """Judge a request for a piece: a node that asks for a later one asked for the first."""
        name = request.snapshot_end, request.snapshot_epoch
        epoch = request.current_leader_epoch
        download = host.id, request.replica_id, request.directory, epoch, name
        if request.position == 0:
            self._begun.add(download)
        elif download not in self._begun:
            self._fail(
                "I19",
                f"replica {request.replica_id} asked {host.name} in epoch {epoch} for snapshot"
                f" {name} from byte {request.position} on, without the bytes before",
            )

    # --- traces -----------------------------------------------------------------------

    def restarted(self, host: Host) -> None:
        """Judge the log and snapshots of a node that has started again."""
        self._settle(host)
        disk = disk_of(host)
        for name, content in disk.snapshots.items():
            self._found(name, content)
        latest = disk.latest
        if disk.start > 0 and (latest is None or not disk.start <= latest[0] <= disk.end_offset):
            self._fail(
                "I21",
                f"the log of {host.name} holds offsets {disk.start} to {disk.end_offset}, but its"
                f" latest snapshot is {latest}",
            )

    def made(self, host: Host, event: TraceEvent) -> None:
        """Judge a report of a snapshot that the node made."""
        name = event.detail["end"], event.detail["epoch"]
        self._settle(host)
        if name not in disk_of(host).snapshots:
            self._fail("I20", f"{event.node} reported the missing snapshot {name}", event)
            return
        node = host.node
        if isinstance(node, Node) and node.image.stable_offset >= name[0]:
            # The image has changed while the snapshot was made, a piece at a time.
            self._judge_content(host, name, event)
        if self._rehearsals:
            self._rehearse(host, name, event)

    def _rehearse(self, host: Host, name: SnapshotId, event: TraceEvent) -> None:
        records = _records(disk_of(host).snapshots[name])
        if len(snapshot_rehearsal.removals(records)) < snapshot_rehearsal.LEAST:
            return
        self._rehearsals -= 1
        before, made = snapshot_rehearsal.made_again(records, self._world.now)
        if made != before:
            self._fail(
                "I19",
                f"a snapshot of the image of {event.node} at {name}, which changes between two"
                f" pieces, has digest {made} in place of {before}",
                event,
            )
        before, made = snapshot_rehearsal.made_by_bytes(
            [*records, *snapshot_rehearsal.FOREIGN], self._world.now
        )
        if made != before:
            self._fail(
                "I19",
                f"a snapshot of the image of {event.node} at {name} in pieces of few bytes has"
                f" digest {made} in place of {before}",
                event,
            )

    def _judge_content(self, host: Host, name: SnapshotId, event: TraceEvent) -> None:
        records = _records(disk_of(host).snapshots[name])
        image = MetadataImage(indexed=False)
        image.commit(len(records), 0, records)
        if image.digest() != event.detail["digest"]:
            self._fail(
                "I19",
                f"{event.node} has made a snapshot {name} of an image with digest"
                f" {event.detail['digest']}; its {len(records)} records give {image.digest()}",
                event,
            )

    def _fail(self, kind: str, explanation: str, *events: TraceEvent) -> None:
        self._failures.add(kind, self._world.now, explanation, *events)


def _records(content: bytes) -> list[snapshot_rehearsal.Record]:
    found = map(decode_record, data_records(content))
    return [(kind, fields) for kind, _, fields in found]


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
