"""Placement of the replicas of new partitions: C15 ReplicaPlacement.

The rules are those of Kafka's striped placement (``StripedReplicaPlacer``), as far as they decide
the result. The replicas of a partition are on different brokers and on as many racks as possible.
In each rack fenced brokers come last. Leaders rotate.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.checkers.kraft.controller_model.refusals import candidates
from kraftwreck.checkers.kraft.controller_model.state import State


def fault(state: State, placed: Sequence[Sequence[int]]) -> str | None:
    """Return what is wrong with the placement of the partitions of one request."""
    brokers = state.brokers()
    if not brokers:
        return None
    may = candidates(state)
    racks: dict[str, list[int]] = {}
    for broker_id in may:
        racks.setdefault(brokers[broker_id].rack or "", []).append(broker_id)
    alive = [r for r, members in racks.items() if any(not brokers[b].fenced for b in members)]
    for number, replicas in enumerate(placed):
        told = f"partition {number} on {list(replicas)}"
        if len(set(replicas)) != len(replicas):
            return f"{told}: two replicas on one broker"
        strangers = sorted(set(replicas) - set(may))
        if strangers:
            return f"{told}: brokers {strangers} may not get replicas"
        if brokers[replicas[0]].fenced:
            return f"{told}: the preferred leader is fenced"
        used = {brokers[replica].rack or "" for replica in replicas}
        # Fenced brokers come last: a rack with fenced brokers only may get no replica.
        if len(used) < min(len(replicas), len(alive)):
            return f"{told}: only racks {sorted(used)} of {sorted(alive)} are used"
        for rack in used:
            taken = [replica for replica in replicas if replica in racks[rack]]
            idle = [b for b in racks[rack] if not brokers[b].fenced and b not in taken]
            if idle and any(brokers[replica].fenced for replica in taken):
                return f"{told}: a fenced broker is preferred to {idle}"
    return _leaders(state, placed, racks)


def _leaders(
    state: State, placed: Sequence[Sequence[int]], racks: dict[str, list[int]]
) -> str | None:
    """Leaders rotate over the racks, and in a cluster of one rack over its brokers."""
    brokers = state.brokers()
    leaders = [replicas[0] for replicas in placed]
    if len(racks) == 1:
        [only] = racks.values()
        unfenced = [broker for broker in only if not brokers[broker].fenced]
        first = leaders[: len(unfenced)]
        if len(set(first)) < len(first):
            return f"leaders {first} although brokers {unfenced} could rotate"
        return None
    if any(brokers[broker].fenced for each in racks.values() for broker in each):
        return None
    first = leaders[: len(racks)]
    if len({brokers[leader].rack for leader in first}) < len(first):
        return f"leaders {first} although racks {sorted(racks)} could rotate"
    return None
