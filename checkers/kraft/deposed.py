"""Answers to clients by leaders that continue after a newer one was elected.

One leader per epoch does not exclude two leaders at once in different epochs, of which the old
one serves stale metadata (KAFKA-15489). Check-quorum bounds that time. Once a majority follows a
newer epoch, the old leader gets no valid fetch and must resign within 1.5 fetch timeouts of its
own clock (KRAFT section 2.9). A paused process cannot resign, so pauses do not count. I18 judges
the same by traces and messages, where there are any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.kraft.limits import (
    FETCH_TIMEOUT_MS,
    MS,
    RESIGNATION_NS,
    SIMULATED_RESIGNATION_NS,
)
from kraftwreck.checkers.kraft.quorum_model.model import QuorumModel
from kraftwreck.checkers.kraft.recorded.settings import setting
from kraftwreck.checkers.recorded.clocks import NodeClock, after, node_clocks, pauses, slowest
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.suspicion import in_virtual_time
from kraftwreck.histories.operation import OK


@dataclass(slots=True)
class Claim:
    """``leader`` (a node id) answered a client that it leads ``epoch``."""

    leader: int
    epoch: int
    call: Call


@dataclass(slots=True)
class Stale:
    """A claim of a leader long after a newer one was elected."""

    explanation: str
    operations: list[int]


def claims(calls: Iterable[Call]) -> list[Claim]:
    """Return the claims of leadership in answers to clients."""
    found = []
    for call in calls:
        value = call.value
        if call.f != "leader" or call.type != OK or not isinstance(value, dict):
            continue
        leader, epoch = value.get("leader"), value.get("epoch")
        asked = value.get("node", leader)
        if isinstance(leader, int) and isinstance(epoch, int) and leader == asked and leader >= 0:
            found.append(Claim(leader, epoch, call))
    return found


def timeout_ns(test: dict[str, Any]) -> int:
    """Return how long a leader stays without a majority, by its own clock: 1.5 fetch timeouts."""
    return int(setting(test, "fetch_timeout_ms", FETCH_TIMEOUT_MS) * 1.5) * MS


def slack_ns(test: dict[str, Any]) -> int:
    """Return other delays of a resignation, such as messages under way."""
    slack = SIMULATED_RESIGNATION_NS if in_virtual_time(test) else RESIGNATION_NS
    return slack + lateness_ns(test)


def lateness_ns(test: dict[str, Any]) -> int:
    """Return the additional delay that network faults may give a message."""
    model = test.get("fault_model")
    late = model.get("late_us", 0) if isinstance(model, dict) else 0
    return int(late) * 1000


def bound_ns(test: dict[str, Any]) -> int:
    """Return the longest time that any deposed leader may continue, whatever its clock."""
    return int(timeout_ns(test) * slowest(test)) + slack_ns(test)


def stale_leaders(run: RunData, facts: QuorumModel, told: list[Claim]) -> list[Stale]:
    """Return the claims to clients of leaders that must have stopped by then."""
    names = {i + 1: name for i, name in enumerate(run.nodes)}
    clocks = node_clocks(run.test)
    paused = pauses(run.faults)
    slack, timeout = slack_ns(run.test), timeout_ns(run.test)
    reigns = _reigns(facts, told, names, clocks)
    found = []
    for claim in told:
        node, done = names.get(claim.leader, ""), claim.call.completed
        later = [(at, who, e) for e, (at, who) in reigns.items() if e > claim.epoch and who != node]
        if not node or not later or done is None:
            continue
        at, successor, epoch = min(later)
        if claim.call.invoked <= after(clocks.get(node), at + slack, timeout):
            continue
        if any(start < done and end > at for start, end in paused.get(node, ())):
            continue
        found.append(
            Stale(
                f"{node} still leads epoch {claim.epoch} {(claim.call.invoked - at) / 1e9:.1f} s "
                f"after {successor} was elected in epoch {epoch} and claims so to a client.",
                claim.call.indices,
            )
        )
    return found


def _reigns(
    facts: QuorumModel,
    told: list[Claim],
    names: dict[int, str],
    clocks: dict[str, NodeClock],
) -> dict[int, tuple[int, str]]:
    """Return per epoch the time (ns) at which it certainly had a leader, and the leader."""
    reigns: dict[int, tuple[int, str]] = {}
    for election in facts.chain.elections:
        clock = clocks.get(election.node)
        if clock is not None:
            at = clock.time(election.event.mono) * 1000
            reigns.setdefault(election.epoch, (at, election.node))
    for claim in told:
        done, name = claim.call.completed, names.get(claim.leader)
        if done is not None and name is not None:
            known = reigns.get(claim.epoch)
            if known is None or done < known[0]:
                reigns[claim.epoch] = (done, name)
    return reigns
