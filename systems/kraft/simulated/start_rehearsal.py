"""Starts copies of members whose log is not the one that their latest snapshot covers (F31).

A follower that has fetched a snapshot finishes it, and then empties its log, whose records may
never have been committed. If the process dies in between, the next start has to empty the log. In
runs a process seldom dies just there, and the two seldom disagree. So when a member finishes a
snapshot, one starts from its log and from this snapshot under another name. That is the end of the
log, with the epoch of the last record or with a newer one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.consensus.effects import FinishSnapshot, InstallSnapshot, WriteQuorumState
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.recovered import Recovered, SnapshotFile
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.metadata_crashes import LONGEST


class StartRehearsal:
    """Judges the first member of ``world`` that finishes a snapshot and has a log."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._done = False
        world.on_write.append(self._on_write)

    @rule(
        "F31",
        "SnapshotsGoFirst",
        "A start empties a log whose records are not those that the latest snapshot covers, and "
        "keeps any other.",
        simulated=True,
    )
    def _on_write(self, host: Host, effect: object) -> None:
        node, disk = host.node, host.disk
        if self._done or type(effect) is not FinishSnapshot:
            return
        if not isinstance(node, Node) or not isinstance(disk, Disk):
            return
        content = disk.parts.get((effect.end_offset, effect.epoch))
        if not content or disk.damaged or not 0 < len(disk.log) <= LONGEST:
            return
        self._done = True
        for wrong in judge(node.replica.config, list(disk.log), disk.start, bytes(content)):
            self._failures.add("F31", self._world.now, f"{host.name} {wrong}")


def judge(
    config: QuorumConfig, batches: Sequence[bytes], start: int, content: bytes
) -> Iterator[str]:
    """Yield what a start makes of a log and of a snapshot with its end."""
    last = parse_header(batches[-1])
    end = last.last_offset + 1
    for newer in (0, 1):
        epoch = last.epoch + newer
        files = [SnapshotFile(start, 0)] if start else []
        state = WriteQuorumState(epoch, -1, -1, bytes(16), tuple(config.voters), 1)
        snapshot = SnapshotFile(end, epoch, len(content))
        recovered = Recovered(state, batches, start, [*files, snapshot], content)
        replica = Replica(config, recovered, 0, 0)
        installs = InstallSnapshot(end, epoch) in replica.effects
        log = replica.log.start_offset, replica.log.end_offset
        if installs != bool(newer) or log != (end if newer else start, end):
            does = "would empty" if installs else "would keep"
            yield (
                f"{does} a log from {start} to {end} whose last record has epoch {last.epoch}, with"
                f" the snapshot {snapshot.id}"
            )
