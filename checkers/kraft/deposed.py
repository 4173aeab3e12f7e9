"""Leaders that continue after a newer one was elected.

One leader per epoch does not exclude two leaders at once in different epochs, of which the old
one serves stale metadata (KAFKA-15489). Check-quorum bounds that time. Once a majority follows a
newer epoch, the old leader gets no valid fetch and must resign within 1.5 fetch timeouts of its
own clock (KRAFT section 2.9). A paused process cannot resign, so pauses do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.kraft.limits import (
    FETCH_TIMEOUT_MS,
    IN_FLIGHT_NS,
    MS,
    RESIGNATION_NS,
    SIMULATED_RESIGNATION_NS,
)
from kraftwreck.checkers.kraft.quorum_model.model import QuorumModel
from kraftwreck.checkers.kraft.recorded.settings import setting
from kraftwreck.checkers.recorded.clocks import after, node_clocks, pauses, slowest
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.suspicion import in_virtual_time
from kraftwreck.histories.operation import OK
from kraftwreck.histories.trace import TraceEvent


@dataclass(slots=True)
class Claim:
    """``leader`` (a node id) answered a client that it leads ``epoch``."""

    leader: int
    epoch: int
    call: Call


@dataclass(slots=True)
class Stale:
    """``node`` still led ``epoch`` although ``newer`` was elected ``late_ns`` before."""

    explanation: str
    operations: list[int]
    events: list[TraceEvent]


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


def stale_leaders(
    run: RunData, facts: QuorumModel, told: list[Claim]
) -> tuple[list[Stale], list[Stale]]:
    """Return the stale leaders that traces show, and those that answered clients."""
    names = {i + 1: name for i, name in enumerate(run.nodes)}
    clocks = node_clocks(run.test)
    paused = pauses(run.faults)
    slack, timeout = slack_ns(run.test), timeout_ns(run.test)
    in_flight = IN_FLIGHT_NS + lateness_ns(run.test)

    def moment(event: TraceEvent) -> int | None:
        clock = clocks.get(event.node)
        return None if clock is None else clock.time(event.mono) * 1000

    def latest(node: str, since: int) -> int:
        """Return when a leader must have stopped if no majority fetched since ``since``."""
        return after(clocks.get(node), since + slack, timeout)

    reigns = _reigns(facts, told, names, moment)

    def deposed(node: str, epoch: int) -> tuple[int, str, int] | None:
        later = [(at, who, e) for e, (at, who) in reigns.items() if e > epoch and who != node]
        return min(later) if later else None

    by_trace = []
    for (node, epoch), event in facts.last_led.items():
        fall, at = deposed(node, epoch), moment(event)
        if fall is None or at is None:
            continue
        if at > _deadline(fall[0], partial(latest, node), in_flight, paused.get(node, [])):
            text = _text(node, epoch, fall, at)
            newer = [e.event for e in facts.chain.elections if e.epoch == fall[2]]
            by_trace.append(Stale(f"{text} (seen in its trace).", [], [*newer, event]))
    by_client = []
    for claim in told:
        node = names.get(claim.leader, "")
        fall = deposed(node, claim.epoch)
        done = claim.call.completed
        if not node or fall is None or done is None:
            continue
        if claim.call.invoked <= latest(node, fall[0]):
            continue
        if any(start < done and end > fall[0] for start, end in paused.get(node, ())):
            continue
        text = _text(node, claim.epoch, fall, claim.call.invoked)
        by_client.append(Stale(f"{text} and claims so to a client.", claim.call.indices, []))
    return by_trace, by_client


def _deadline(
    fall: int, latest: Callable[[int], int], in_flight: int, paused: list[tuple[int, int]]
) -> int:
    """Return when (ns) a leader deposed at ``fall`` must have stopped, given its pauses."""
    deadline = latest(fall)
    for begin, end in sorted(paused):
        if end <= fall or begin >= deadline:
            continue
        if begin <= fall + in_flight:
            # Fetches of its own epoch may have waited for it to resume, and count then.
            deadline = max(deadline, latest(end))
        else:
            deadline = max(deadline, end + RESIGNATION_NS)
    return deadline


def _reigns(
    facts: QuorumModel,
    told: list[Claim],
    names: dict[int, str],
    moment: Any,
) -> dict[int, tuple[int, str]]:
    """Return per epoch the time (ns) at which it certainly had a leader, and the leader."""
    reigns: dict[int, tuple[int, str]] = {}
    for election in facts.chain.elections:
        at = moment(election.event)
        if at is not None:
            reigns.setdefault(election.epoch, (at, election.node))
    for claim in told:
        done, name = claim.call.completed, names.get(claim.leader)
        if done is not None and name is not None:
            known = reigns.get(claim.epoch)
            if known is None or done < known[0]:
                reigns[claim.epoch] = (done, name)
    return reigns


def _text(node: str, epoch: int, fall: tuple[int, str, int], at: int) -> str:
    late = (at - fall[0]) / 1e9
    return (
        f"{node} still leads epoch {epoch} {late:.1f} s after {fall[1]} was elected in epoch "
        f"{fall[2]}"
    )
