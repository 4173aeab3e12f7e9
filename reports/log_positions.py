"""The logs of replicated partitions over a run: five offsets for each replica, and what moved them.

The trace has samples of log start, checkpointed high watermark, flushed offset, high watermark and
log end (``replica-positions``, docs/trace.md). Times are microseconds since the start of the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.reports.node_lanes import Clocks, NodeLane, Span
from kraftwreck.systems.shown import Shown

SAMPLED: Final = "replica-positions"
"""The kind of the trace events with samples."""
_OF_A_REPLICA: Final = "replica-"

Key = tuple[str, int]
"""The id of a topic, and the number of a partition."""


class Sample(NamedTuple):
    """The offsets of a log at ``time``."""

    time: int
    start: int
    checkpoint: int
    flushed: int
    hw: int
    end: int


@dataclass
class Life:
    """The samples of one process, which ended at ``until``."""

    samples: list[Sample]
    until: int


@dataclass
class Lead:
    """A period in which a replica led; ``start`` is the log end at its begin."""

    since: int
    until: int
    epoch: int
    start: int


@dataclass
class Replica:
    """One replica of a partition on ``node``. ``cuts`` are (time, end before, end after)."""

    node: str
    lives: list[Life] = field(default_factory=list)
    leads: list[Lead] = field(default_factory=list)
    cuts: list[tuple[int, int, int]] = field(default_factory=list)
    down: list[Span] = field(default_factory=list)

    @property
    def last(self) -> Sample:
        """The last sample."""
        return self.lives[-1].samples[-1]


@dataclass
class PartitionLogs:
    """One partition: its replicas, and its events as (time, sentence), ordered."""

    name: str
    replicas: list[Replica]
    events: list[tuple[int, str]]
    removed: int = 0
    """Records that truncations and lost disks have removed from replicas."""
    changes: int = 0
    """Changes of leaders and of in-sync replicas."""

    @property
    def end(self) -> int:
        """The largest offset of any replica at any time."""
        return max(s.end for r in self.replicas for life in r.lives for s in life.samples)

    @property
    def start(self) -> int:
        """The smallest log start of any replica at any time."""
        return min(s.start for r in self.replicas for life in r.lives for s in life.samples)


def partition_logs(
    traces: Mapping[str, list[TraceEvent]],
    lanes: Sequence[NodeLane],
    clock: Clocks,
    end: int,
    own: Shown,
) -> list[PartitionLogs]:
    """Return the partitions of a run that ends at ``end``, the most eventful first.

    Removed records count most, then changes of leaders and in-sync replicas, then records. ``own``
    knows the events of the run's system.
    """
    names = [lane.node for lane in lanes]
    topics: dict[str, str] = {}
    found: dict[Key, _Found] = {}
    for lane in lanes:
        rows = traces.get(lane.node, [])
        for life, died in _lives(rows, lane, clock, end):
            _add_life(found, topics, lane, life, _Process(clock, died, own.in_sync, names))
    partitions = []
    for (topic, number), each in found.items():
        replicas = [replica for replica in each.replicas.values() if replica.lives]
        if replicas:
            name = f"{topics.get(topic, topic)}, partition {number}"
            events = sorted(each.events)
            logs = PartitionLogs(name, replicas, events, each.removed, each.changes)
            partitions.append(logs)
    return sorted(partitions, key=lambda p: (-p.removed, -p.changes, -p.end, p.name))


@dataclass
class _Found:
    """A partition as far as its events were read."""

    replicas: dict[str, Replica] = field(default_factory=dict)
    events: list[tuple[int, str]] = field(default_factory=list)
    removed: int = 0
    changes: int = 0

    def replica(self, lane: NodeLane) -> Replica:
        known = self.replicas.get(lane.node)
        if known is None:
            known = self.replicas[lane.node] = Replica(lane.node, down=lane.down)
        return known


@dataclass
class _Process:
    """One process of a node: its times, and what its events say. It ``died`` by the run's end.

    ``names`` are those of all nodes.
    """

    clock: Clocks
    died: int
    in_sync: Callable[[str, Mapping[str, Any]], Sequence[int] | None]
    names: Sequence[str]

    def of(self, event: TraceEvent) -> int:
        at = self.clock.history_time(event.node, event.mono)
        return min(max(at, 0), self.died)

    def members(self, event: TraceEvent) -> str | None:
        """Return the names of the replicas in sync that ``event`` confirms, None if it does not.

        Nodes are numbered from 1 in the order of the run.
        """
        found = self.in_sync(event.kind, event.detail)
        if found is None:
            return None
        known = range(1, len(self.names) + 1)
        return ", ".join(self.names[n - 1] if n in known else f"node {n}" for n in found)


def _lives(
    events: Sequence[TraceEvent], lane: NodeLane, clock: Clocks, end: int
) -> Iterator[tuple[list[TraceEvent], int]]:
    """Yield the events of each process of a node, and when it ended."""
    lives: dict[int, list[TraceEvent]] = {}
    for event in events:
        lives.setdefault(event.incarnation, []).append(event)
    for life in lives.values():
        last = clock.history_time(lane.node, life[-1].mono)
        yield life, min((since for since, _ in lane.down if since >= last), default=end)


def _add_life(
    found: dict[Key, _Found],
    topics: dict[str, str],
    lane: NodeLane,
    events: Sequence[TraceEvent],
    process: _Process,
) -> None:
    """Add the samples and events of one process; events of other forms are skipped."""
    samples: dict[Key, list[Sample]] = {}
    leads: dict[Key, Lead] = {}
    for event in events:
        try:
            if event.kind == SAMPLED:
                _add_sample(samples, topics, process.of(event), event.detail)
            elif event.kind.startswith(_OF_A_REPLICA):
                key = (event.detail["topic_id"], event.detail["partition"])
                _add_event(found.setdefault(key, _Found()), lane, process, event, leads)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    for key, rows in samples.items():
        each = found.setdefault(key, _Found())
        _add_samples(each, each.replica(lane), Life(rows, process.died))


def _add_event(
    found: _Found,
    lane: NodeLane,
    process: _Process,
    event: TraceEvent,
    leads: dict[Key, Lead],
) -> None:
    """Add what happened to one replica; ``leads`` are the leaderships of its process."""
    key = (event.detail["topic_id"], event.detail["partition"])
    at, replica, members = process.of(event), found.replica(lane), process.members(event)
    if members is not None:
        found.changes += 1
        found.events.append((at, f"The in-sync replicas are {members}."))
    elif event.kind == "replica-truncate":
        _add_cut(found, replica, at, event.detail)
    elif event.kind == "replica-role":
        if key in leads:
            leads.pop(key).until = at
        if "start" in event.detail:
            epoch, start = int(event.detail["epoch"]), int(event.detail["start"])
            leads[key] = Lead(at, process.died, epoch, start)
            replica.leads.append(leads[key])
            found.changes += 1
            text = f"{replica.node} leads epoch {epoch} from offset {start} on."
            found.events.append((at, text))


def _add_sample(
    samples: dict[Key, list[Sample]], topics: dict[str, str], at: int, detail: dict[str, Any]
) -> None:
    topics.update({str(topic): str(name) for topic, name in detail.get("topics", {}).items()})
    for topic, number, *offsets in detail["replicas"]:
        samples.setdefault((str(topic), int(number)), []).append(Sample(at, *map(int, offsets)))


def _add_cut(found: _Found, replica: Replica, at: int, detail: Mapping[str, Any]) -> None:
    """Add a truncation, unless there was nothing to remove."""
    before, after = int(detail["from"]), int(detail["to"])
    if after < before:
        replica.cuts.append((at, before, after))
        found.removed += before - after
        found.events.append((at, f"{replica.node} truncates its log from {before} to {after}."))


def _add_samples(found: _Found, replica: Replica, life: Life) -> None:
    """Add a process's samples; a log that is shorter than before lost records while it was down."""
    if replica.lives:
        before, after = replica.last.end, life.samples[0]
        if after.end < before:
            found.removed += before - after.end
            text = f"{replica.node} starts with a log that ends at {after.end}, not at {before}."
            found.events.append((after.time, text))
    replica.lives.append(life)
