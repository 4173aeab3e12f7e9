"""Elections that the active controller holds by itself: L12 ElectionsByTime.

Every ``leader.imbalance.check.interval.seconds`` partitions return to their preferred leaders.
Every ``unclean.leader.election.interval.ms`` the controller elects leaders for partitions without
one, if they may lose records. A partition must not wait for several intervals of one controller's
time. In the simulator, which knows the speed of disks, the limit is little more than one interval.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from kraftwreck.checkers.kraft.controller_model.config_values import is_true
from kraftwreck.checkers.kraft.controller_model.exchanges import Commits
from kraftwreck.checkers.kraft.controller_model.metadata_model import (
    NO_LEADER,
    Partition,
    PartitionKey,
)
from kraftwreck.checkers.kraft.controller_model.refusals import is_online
from kraftwreck.checkers.kraft.controller_model.state import State, StateHistory, Versions
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import GAPS, Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.invariants.sessions import append_ns, reigns
from kraftwreck.checkers.kraft.limits import (
    ELECTIONS,
    ELECTIONS_NS,
    IMBALANCE_CHECK_SECONDS,
    LONGEST_INTERVAL_NS,
    SECOND,
    SIMULATED_ELECTIONS_NS,
    UNCLEAN_ELECTION_MS,
)
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.checkers.recorded.clocks import slowest
from kraftwreck.checkers.suspicion import in_virtual_time

REBALANCE = "leader_imbalance_check_interval_seconds"
_FOREVER = 1 << 62
UNCLEAN = "unclean_leader_election_interval_ms"


@rule(
    "L12",
    "ElectionsByTime",
    "Partitions that an election by the controller would help wait for only a few of them.",
    "T4 T6",
    nothing="the intervals are minutes long, or no such election was needed",
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge L12."""
    preferred = evidence.setting(REBALANCE, IMBALANCE_CHECK_SECONDS) * SECOND
    unclean = evidence.setting(UNCLEAN, UNCLEAN_ELECTION_MS) * 1_000_000
    if min(preferred, unclean) > LONGEST_INTERVAL_NS:
        return
    if evidence.trace.gaps:
        report.unseen("L12", GAPS)
        return
    history = Controller.of(evidence).history
    if not Controller.of(evidence).is_whole(report, "L12"):
        return
    commits, drift = Commits.of(evidence), slowest(evidence.run.test)
    simulated = in_virtual_time(evidence.run.test)
    troubled = any(fault.kind == "disk" for fault in evidence.run.faults)
    exact = append_ns(evidence) + SIMULATED_ELECTIONS_NS if simulated and not troubled else 0
    reigned = [(reign.begun, reign.last) for reign in reigns(evidence)]
    for key, first, last, kind in _wanting(history):
        interval = preferred if kind == "preferred" else unclean
        if interval > LONGEST_INTERVAL_NS:
            continue
        since, until = commits.when(first), commits.written(last)
        if since is None:
            continue
        report.held("L12")
        bound = int(interval * drift) + (exact or int(interval * drift) + ELECTIONS_NS)
        for begun, ended in reigned:
            waited = min(until, ended) - max(since, begun)
            if waited > bound:
                name = State(history, first).name(key[0])
                report.broken(
                    "L12",
                    f"{name}-{key[1]} waits for its {kind} election from offset {first} on for "
                    f"{waited / 1e9:.1f} s of one controller's time; the interval is "
                    f"{interval / 1e9:g} s.",
                    limit=ELECTIONS,
                )
                return


def _wanting(history: StateHistory) -> Iterator[tuple[PartitionKey, int, int, str]]:
    """Yield (partition, first state, state that ended it, kind) of each wait for an election.

    A partition is examined after each change of itself, of a broker that could lead it, or of a
    setting. Its wait continues through changes that do not end it.
    """
    others: list[Versions[Any]] = [*history.brokers.values(), *history.configs.values()]
    turns = sorted({change[0] for versions in others for change in versions.changes()})
    for key, versions in history.partitions.items():
        changes = [*versions.changes(), (_FOREVER, None, None)]
        since, kind = -1, ""
        for (end, _, partition), (following, _, _) in pairwise(changes):
            at_ease = partition is None or partition.leader == partition.replicas[0]
            within = turns[bisect_right(turns, end) : bisect_left(turns, following)]
            for turn in [end] if at_ease else [end, *within]:
                wants = ""
                if not at_ease and partition is not None:
                    wants = _kind(State(history, turn), key[0], partition)
                if kind and wants != kind:
                    yield key, since, turn, kind
                if wants != kind:
                    since, kind = turn, wants
        if kind:
            yield key, since, _FOREVER, kind


def _kind(state: State, topic_id: bytes, partition: Partition) -> str:
    first = partition.replicas[0]
    if partition.leader != NO_LEADER:
        able = first in partition.isr and is_online(state, partition, first)
        return "preferred" if able else ""
    name = state.name(topic_id)
    if name is None or not is_true(state.setting(name, "unclean.leader.election.enable")):
        return ""
    return "unclean" if any(is_online(state, partition, b) for b in partition.replicas) else ""
