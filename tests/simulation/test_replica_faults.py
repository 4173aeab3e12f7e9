"""Schedules against replication: blind brokers, and bounces that one of them misses."""

from __future__ import annotations

from kraftwreck.histories.fault import Fault
from kraftwreck.systems.kraft.faults import replica_faults

BROKERS = ("b1", "b2", "b3")
CONTROLLERS = ("n1", "n2", "n3")
KINDS = ("partition", "kill", "power", "pause", "network")


def plan(seed: int, kinds: tuple[str, ...] = KINDS) -> list[Fault]:
    return replica_faults.plan(kinds, seed, 30.0, BROKERS, CONTROLLERS)


def blind(faults: list[Fault]) -> list[Fault]:
    return [fault for fault in faults if fault.shape == "links"]


def test_a_blind_broker_is_cut_off_from_all_controllers_and_from_no_broker() -> None:
    found = [fault for seed in range(30) for fault in blind(plan(seed))]
    assert found
    for fault in found:
        assert set(fault.targets[::2]) < set(BROKERS)
        assert fault.targets[1::2] == CONTROLLERS


def test_a_bounce_begins_and_ends_while_the_third_broker_is_blind() -> None:
    bounces = [
        faults
        for faults in map(plan, range(30))
        if [fault.shape for fault in faults] == ["links", "link", "one"] * len(blind(faults))
    ]
    assert bounces
    for faults in bounces:
        for cut, link, blow in zip(faults[::3], faults[1::3], faults[2::3], strict=True):
            assert (cut.shape, link.shape) == ("links", "link")
            assert {cut.targets[0], *link.targets} == set(BROKERS)
            assert blow.targets == link.targets[:1]
            assert cut.at < link.at < blow.at < link.at + link.duration
            assert blow.at + blow.duration < cut.at + cut.duration


def test_without_partitions_no_broker_is_blind() -> None:
    assert not any(blind(plan(seed, ("kill", "pause"))) for seed in range(30))
