"""The default schedule: storms in which all families take turns."""

from __future__ import annotations

import msgspec
import pytest

from kraftwreck.harness.triggers import parse
from kraftwreck.histories.fault import Fault, Storm
from kraftwreck.nemesis import generator, storms
from kraftwreck.nemesis.registry import families

SECOND = 1_000_000_000
NODES = ("n1", "n2", "n3", "n4", "n5")
FEW = ("partition", "kill", "pause")
MANY = ("partition", "kill", "pause", "power", "network", "clock", "disk", "storage")


def by_storm(faults: list[Fault]) -> dict[int, list[Fault]]:
    found: dict[int, list[Fault]] = {}
    for fault in faults:
        assert fault.storm is not None
        found.setdefault(fault.storm.number, []).append(fault)
    return found


def test_the_seed_decides_everything() -> None:
    assert storms.plan(FEW, 3, 60, NODES) == storms.plan(FEW, 3, 60, NODES)
    assert storms.plan(FEW, 3, 60, NODES) != storms.plan(FEW, 4, 60, NODES)


def test_no_families_no_faults() -> None:
    assert storms.plan((), 3, 60, NODES) == []
    assert storms.plan(("roles",), 3, 60, NODES) == [], "there are no brokers"


@pytest.mark.parametrize(("kinds", "strikes"), [(FEW, 2), ((*FEW, "power"), 2), (MANY, 1)])
def test_every_family_strikes_often_enough_within_the_storms_of_a_minute(
    kinds: tuple[str, ...], strikes: int
) -> None:
    for seed in range(50):
        first = [f for n, mine in by_storm(storms.plan(kinds, seed, 60, NODES)).items() if n <= 7
                 for f in mine]  # fmt: skip
        for kind in kinds:
            assert sum(fault.kind == kind for fault in first) >= strikes, (seed, kind)


def test_all_families_strike_in_a_short_run() -> None:
    first = by_storm(storms.plan(FEW, 1, 8, NODES))[1]
    assert {fault.kind for fault in first} == set(FEW)


def test_families_strike_equally_often() -> None:
    planned = storms.plan(FEW, 5, 600, NODES)
    counts = [sum(fault.kind == kind for fault in planned) for kind in FEW]
    assert max(counts) - min(counts) <= max(counts) // 5


def test_faults_end_with_their_storm_and_a_storm_has_a_family_once() -> None:
    for seed in range(30):
        for mine in by_storm(storms.plan(MANY, seed, 60, NODES)).values():
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
        for fault in storms.plan(MANY, seed, 60, NODES)
        if fault.trigger is not None
    }
    assert triggers
    assert not triggers & {"candidate", "prospective", "grant"}


def test_the_interval_scales_storms_and_calm() -> None:
    near, far = (storms.plan(FEW, 1, 60, NODES, interval_s=s)[0].storm for s in (4.0, 16.0))
    assert near is not None
    assert far is not None
    assert far.length == pytest.approx(4 * near.length, rel=0.01)
    assert far.bound == pytest.approx(4 * near.bound, rel=0.01)
    assert far.operations > 3 * near.operations


def test_a_swarm_is_governed_in_storms() -> None:
    for style in ("mixed", "triggered", "depositions", "relay"):
        swarm = generator.plan(FEW, 3, 60, NODES, style=style)
        governed = storms.govern(swarm, 3, rate=20)
        assert governed
        assert len(governed) <= len(swarm)
        for mine in by_storm(governed).values():
            assert len(mine) <= storms.MOST_OF_A_STORM
            for fault in mine:
                assert fault.storm is not None
                assert 0 <= fault.at < fault.storm.length


def test_triggers_that_cannot_fire_fall_back_to_times() -> None:
    """No family here deposes a leader, so most of the triggers see no election."""
    for seed in range(200):
        planned = generator.plan(("clock",), seed, 60, NODES, style="triggered")
        assert planned
        rare = {"candidate", "grant", "elected", "truncate", "claim", "download", "voters"}
        assert not all(f.trigger and parse(f.trigger)[0] in rare for f in planned), seed


def test_a_storm_survives_json() -> None:
    planned = storms.plan(FEW, 3, 60, NODES)
    assert msgspec.json.decode(msgspec.json.encode(planned), type=list[Fault]) == planned
    assert isinstance(planned[0].storm, Storm)
