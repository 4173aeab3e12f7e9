"""Watches that a node knows the voters at every offset from its latest snapshot on (I31).

Which voters were in force before the last change matters only once that change is truncated, or for
a snapshot that ends before it. Both are rare, so the whole history is judged when the log is
cleaned and when the voters change. A copy is cut before each change. Compiled ones cannot be
copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import NamedTuple

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.voters import VoterHistory, VoterSet
from kraftwreck.nodes.log.batch import decode_batch
from kraftwreck.nodes.log.snapshots import read_header
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.records import KRAFT_VERSION, KRAFT_VOTERS, decode_control
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import disk_of
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED


class Change(NamedTuple):
    """The voters or kraft.version of a control record at ``offset``, or both of them in the header
    of a snapshot that ends there; None: not in it."""

    offset: int
    voters: VoterSet | None
    level: int | None


class HistoryWatch:
    """Compares the history of voters on each host of ``world`` with its snapshot and log."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        world.on_trace.append(self._on_trace)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind not in ("clean", "voters") or not isinstance(host.node, Node):
            return
        replica = host.node.replica
        if replica.snapshots:
            latest = replica.snapshots[-1].id
            content = disk_of(host).snapshots.get(latest)
            if content is None:
                return
            header = read_header(content)
            voters = VoterSet.from_record({"voters": header.voters}) if header.voters else None
            first = Change(latest[0], voters, header.kraft_version)
        else:
            first = Change(replica.log.start_offset, None, None)
        for text in forgotten(replica.history, first, changes(replica, first.offset)):
            self._failures.add("I31", self._world.now, f"{host.name} {text}", event)


def changes(replica: Replica, start: int) -> Iterator[Change]:
    """Yield the changes in the node's own log from offset ``start`` on."""
    for batch, header in replica.log.batches_between(start, replica.log.end_offset):
        if not header.is_control:
            continue
        for offset, key, value in decode_batch(batch)[1]:
            kind, fields = decode_control(key, value)
            if kind == KRAFT_VOTERS:
                yield Change(offset, VoterSet.from_record(fields), None)
            elif kind == KRAFT_VERSION:
                yield Change(offset, None, fields["kraft_version"])


def forgotten(history: VoterHistory, first: Change, later: Iterable[Change]) -> list[str]:
    """Return where ``history`` contradicts the ``first`` state and the ``later`` changes of it:
    right before each of these, and at its end."""
    wrong = []
    voters, level = first.voters, first.level

    def compare(found: VoterSet, found_level: int, where: str) -> None:
        if voters is not None and found != voters:
            wrong.append(
                f"would use the voters {_told(found)} {where}; its log has {_told(voters)}."
            )
        if level is not None and found_level != level:
            wrong.append(f"would use kraft.version {found_level} {where}; its log has {level}.")

    for change in later:
        compare(*history.at(change.offset), f"below offset {change.offset}")
        if INTERPRETED:
            cut = deepcopy(history)
            cut.truncate(change.offset)
            compare(cut.latest, cut.level, f"after a cut at offset {change.offset}")
        voters = change.voters or voters
        level = level if change.level is None else change.level
    compare(history.latest, history.level, "at the end")
    return wrong


def _told(voters: VoterSet) -> list[str]:
    """Return voters with their disks and endpoints, for people."""
    known = [voters.get(voter_id) for voter_id in voters.ids]
    return [f"{v.voter_id} {v.directory.hex()} at {v.endpoint}" for v in known if v is not None]
