"""The default schedule: storms in which all families take turns."""

from __future__ import annotations

import heapq

import msgspec
import pytest

from kraftwreck.harness.governor import ARM, LOOK, START, Counts, Governor
from kraftwreck.harness.triggers import parse
from kraftwreck.histories.fault import Fault, Storm
from kraftwreck.nemesis import generator, storms
from kraftwreck.nemesis.registry import families
from kraftwreck.nemesis.scope import Scope

SECOND = 1_000_000_000
NODES = ("n1", "n2", "n3", "n4", "n5")
FIVE = Scope.of("kraft", NODES)
FEW = ("partition", "kill", "pause")
MANY = ("partition", "kill", "pause", "power", "network", "clock", "disk", "storage")


def by_storm(faults: list[Fault]) -> dict[int, list[Fault]]:
    found: dict[int, list[Fault]] = {}
    for fault in faults:
        assert fault.storm is not None
        found.setdefault(fault.storm.number, []).append(fault)
    return found


def test_the_seed_decides_everything() -> None:
    assert storms.plan(FEW, 3, 60, FIVE) == storms.plan(FEW, 3, 60, FIVE)
    assert storms.plan(FEW, 3, 60, FIVE) != storms.plan(FEW, 4, 60, FIVE)


def test_no_families_no_faults() -> None:
    assert storms.plan((), 3, 60, FIVE) == []


@pytest.mark.parametrize(("kinds", "strikes"), [(FEW, 2), ((*FEW, "power"), 2), (MANY, 1)])
def test_every_family_strikes_often_enough_within_the_storms_of_a_minute(
    kinds: tuple[str, ...], strikes: int
) -> None:
    for seed in range(50):
        first = [f for n, mine in by_storm(storms.plan(kinds, seed, 60, FIVE)).items() if n <= 7
                 for f in mine]  # fmt: skip
        for kind in kinds:
            assert sum(fault.kind == kind for fault in first) >= strikes, (seed, kind)


def test_a_fault_that_begins_a_storm_at_the_leader_lasts_until_the_storm_ends() -> None:
    """Shorter ones are over before the others have elected a leader."""
    lengths = {
        fault.duration == fault.storm.length
        for seed in range(50)
        for fault in storms.plan(FEW, seed, 60, FIVE)
        if fault.storm is not None and fault.shape == "leader" and not fault.at
        and fault.trigger is None
    }  # fmt: skip
    assert True in lengths


def worst(faults: list[Fault], duration_s: float) -> list[Fault]:
    """Play the faults in virtual time for a cluster that never recovers; return those that begin.

    The governor then starts each storm at its bound. Triggers never fire, so their faults fall
    back. Every fault takes a second to end.
    """
    governor = Governor(faults, NODES, lambda: ())
    end = round(duration_s * SECOND)
    moments: list[tuple[int, int, int]] = [(0, LOOK, 0)]
    begun: list[Fault] = []
    ends: list[int] = []
    while moments and moments[0][0] < end:
        now, what, number = heapq.heappop(moments)
        if what == LOOK:
            busy = any(each > now for each in ends)
            for moment in governor.look(now, Counts(0, 0), busy=busy):
                heapq.heappush(moments, moment)
        elif what == ARM:
            governor.arm(number)
        elif what == START or governor.fall_back(number) is not None:
            begun.append(faults[number])
            ends.append(governor.end(faults[number], now) + SECOND)
    return begun


ALL = tuple(kind for kind in families() if not kind.startswith("roles"))


CERTAIN = 3
"""The storms of a minute even if the cluster never recovers: more families do not fit into it."""


@pytest.mark.parametrize(
    ("kinds", "others", "strikes"),
    [
        (("kill",), 0, 2),
        (("kill", "host"), 0, 2),
        (FEW, 0, 2),
        ((*FEW, "power"), 0, 2),
        ((*FEW, "power", "squeeze"), 0, 1),
        (MANY, 0, 1),
        (ALL, 0, 1),
        (tuple(families())[: CERTAIN * storms.MOST_OF_A_STORM], 2, 1),
    ],
    ids=lambda value: len(value) if isinstance(value, tuple) else value,
)
def test_every_family_strikes_in_a_minute_even_if_the_cluster_never_recovers(
    kinds: tuple[str, ...], others: int, strikes: int
) -> None:
    for seed in range(200):
        begun = worst(storms.plan(kinds, seed, 60, Scope.of("kraft", NODES, others)), 60)
        for kind in kinds:
            assert sum(fault.kind == kind for fault in begun) >= strikes, (seed, kind)


def test_a_crowded_storm_leaves_nodes_for_its_other_faults() -> None:
    """Of families that stop processes it has no more than its share, and none hits most nodes."""
    stops = {"kill", "terminate", "pause", "power", "host", "restart"}
    assert stops < set(ALL)
    for seed in range(50):
        for mine in by_storm(storms.plan(ALL, seed, 60, FIVE)).values():
            stopping = [fault for fault in mine if fault.kind in stops]
            assert len(stopping) <= -(-len(mine) * len(stops) // len(ALL)) + 1
            if len(mine) >= 4:
                assert not {"all", "majority", "together"} & {fault.shape for fault in stopping}


def test_all_families_strike_in_a_short_run() -> None:
    first = by_storm(storms.plan(FEW, 1, 8, FIVE))[1]
    assert {fault.kind for fault in first} == set(FEW)


def test_families_strike_equally_often() -> None:
    planned = storms.plan(FEW, 5, 600, FIVE)
    counts = [sum(fault.kind == kind for fault in planned) for kind in FEW]
    assert max(counts) - min(counts) <= max(counts) // 5


def test_faults_end_with_their_storm_and_a_storm_has_a_family_once() -> None:
    for seed in range(30):
        for mine in by_storm(storms.plan(MANY, seed, 60, FIVE)).values():
            assert len({fault.kind for fault in mine}) == len(mine) <= storms.MOST_OF_A_STORM
            for fault in mine:
                assert fault.storm is not None
                assert fault.at + fault.duration <= fault.storm.length
                assert fault.duration > 0
                assert fault.shape in families()[fault.kind].usable(len(NODES), 0)


def test_triggers_wait_for_transitions_under_a_leader() -> None:
    triggers = {
        parse(fault.trigger)[0]
        for seed in range(30)
        for fault in storms.plan(MANY, seed, 60, FIVE)
        if fault.trigger is not None
    }
    assert triggers
    assert not triggers & {"candidate", "prospective", "grant"}


def test_the_interval_scales_storms_and_calm() -> None:
    near, far = (storms.plan(FEW, 1, 60, FIVE, interval_s=s)[0].storm for s in (4.0, 16.0))
    assert near is not None
    assert far is not None
    assert far.length == pytest.approx(4 * near.length, rel=0.01)
    assert far.bound == pytest.approx(4 * near.bound, rel=0.01)
    assert far.operations > 3 * near.operations


def test_a_swarm_is_governed_in_storms() -> None:
    for style in ("mixed", "triggered", "depositions", "relay"):
        swarm = generator.plan(FEW, 3, 60, FIVE, style=style)
        governed = storms.govern(swarm, 3, rate=20)
        assert governed
        assert len(governed) <= len(swarm)
        for mine in by_storm(governed).values():
            assert len(mine) <= storms.MOST_OF_A_STORM
            for fault in mine:
                assert fault.storm is not None
                assert 0 <= fault.at < fault.storm.length


def test_a_storm_survives_json() -> None:
    planned = storms.plan(FEW, 3, 60, FIVE)
    assert msgspec.json.decode(msgspec.json.encode(planned), type=list[Fault]) == planned
    assert isinstance(planned[0].storm, Storm)
