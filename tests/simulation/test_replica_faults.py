"""Schedules against replication: blind and deaf brokers, bounces and successions of leaders."""

from __future__ import annotations

from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis.families.network import slow
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


def bounces_of(faults: list[Fault]) -> list[list[Fault]]:
    """Return the faults of each bounce, empty if the schedule is not made of bounces."""
    starts = [place for place, fault in enumerate(faults) if fault.shape == "links"]
    if not starts or starts[0]:
        return []
    parts = [faults[a:b] for a, b in zip(starts, [*starts[1:], len(faults)], strict=True)]
    known = (["links", "link", "one"], ["links", "link", "one", "one"])
    return parts if all([fault.shape for fault in part] in known for part in parts) else []


def test_a_bounce_begins_and_ends_while_the_third_broker_is_blind() -> None:
    bounces = [bounce for seed in range(40) for bounce in bounces_of(plan(seed))]
    assert {len(bounce) for bounce in bounces} == {3, 4}
    for cut, link, *blows in bounces:
        assert (cut.shape, link.shape) == ("links", "link")
        assert {cut.targets[0], *link.targets} == set(BROKERS)
        assert [blow.targets for blow in blows] == [(end,) for end in link.targets[: len(blows)]]
        assert cut.at < link.at < blows[0].at < link.at + link.duration
        assert blows[-1].at + blows[-1].duration < cut.at + cut.duration
        if len(blows) == 2:
            assert blows[0].at + blows[0].duration < blows[1].at


def test_in_some_runs_all_links_between_brokers_are_slow_at_once() -> None:
    links = {("b1", "b2"), ("b1", "b3"), ("b2", "b3")}
    slow = [
        faults
        for faults in map(plan, range(40))
        if {fault.targets for fault in faults if fault.at == 1_000_000_000} == links
    ]
    assert slow
    for faults in slow:
        assert any(fault.kind != "network" for fault in faults)


def test_some_runs_have_full_and_slow_disks() -> None:
    shapes = [
        {fault.shape for fault in plan(seed, (*KINDS, "disk")) if fault.kind == "disk"}
        for seed in range(80)
    ]
    assert set().union(*shapes) == {"full", "slow"}
    assert not all(shapes)


def test_without_partitions_no_broker_is_blind() -> None:
    assert not any(blind(plan(seed, ("kill", "pause"))) for seed in range(30))


DEAF = ["link", "one-ways", "link"]
LATE = ["link", "links", "slow", "slow", "slow"]


def rounds_of(shapes: list[str]) -> list[list[Fault]]:
    """Return the rounds whose faults have these shapes, in order of time."""
    found = []
    for faults in map(plan, range(80)):
        for place in range(len(faults) - len(shapes) + 1):
            part = faults[place : place + len(shapes)]
            if [fault.shape for fault in part] == shapes:
                found.append(part)
    return found


def deaf_rounds() -> list[list[Fault]]:
    """Return the rounds in which a leader is deaf to the controllers, of three faults each."""
    return rounds_of(DEAF)


def test_a_follower_comes_back_when_its_session_ends_and_its_leader_hears_late_of_that() -> None:
    rounds = [
        sorted(part, key=lambda fault: LATE.index(fault.shape))
        for part in (*rounds_of(["link", "slow", "slow", "slow", "links"]), *rounds_of(LATE))
    ]
    assert rounds
    for away, blind, *late in rounds:
        leader, follower = away.targets
        assert blind.targets == tuple(end for each in CONTROLLERS for end in (follower, each))
        assert [fault.targets for fault in late] == [(leader, each) for each in CONTROLLERS]
        assert away.at < blind.at < away.at + away.duration < blind.at + blind.duration
        for fault in late:
            assert fault.at < blind.at < blind.at + blind.duration < fault.at + fault.duration
            assert slow(fault.draw)["delay"] in (200_000, 400_000)


def test_a_follower_comes_back_and_leaves_again_while_its_leader_is_deaf() -> None:
    rounds = deaf_rounds()
    assert rounds
    for away, deaf, again in rounds:
        leader, follower = away.targets
        assert [away.shape, deaf.shape, again.shape] == ["link", "one-ways", "link"]
        assert deaf.targets == ("n1", leader, "n2", leader, "n3", leader)
        assert again.targets == (leader, follower)
        assert deaf.at < away.at + away.duration < again.at
        assert again.at + again.duration == deaf.at + deaf.duration


def test_in_some_runs_brokers_hear_nothing_of_each_other_for_a_short_time() -> None:
    links = {("b1", "b2"), ("b1", "b3"), ("b2", "b3")}
    dark = [
        faults
        for faults in map(plan, range(80))
        if faults and {fault.shape for fault in faults} == {"link"}
    ]
    assert dark
    for faults in dark:
        for place in range(0, len(faults), 3):
            part = faults[place : place + 3]
            assert {fault.targets for fault in part} == links
            assert len({(fault.at, fault.duration) for fault in part}) == 1
            assert part[0].duration <= 1_500_000_000


SUCCESSION = ["link", "link", "one", "one"]


def successions() -> list[list[Fault]]:
    """Return the rounds in which two leaders fall, of four faults each."""
    found = []
    for faults in map(plan, range(80)):
        parts = [faults[place : place + 4] for place in range(0, len(faults), 4)]
        if all([fault.shape for fault in part] == SUCCESSION for part in parts):
            found += parts
    return found


def test_the_second_leader_lacks_records_and_the_third_one_does_not_follow_it() -> None:
    assert successions()
    for lacks, parted, falls, again in successions():
        leads, successor = lacks.targets
        assert {*lacks.targets, *parted.targets} == set(BROKERS)
        assert parted.targets[0] == successor
        assert (falls.targets, again.targets) == ((leads,), (successor,))
        assert lacks.at < falls.at < lacks.at + lacks.duration
        assert abs(parted.at + parted.duration - again.at) < 200_000_000


def test_in_some_runs_brokers_run_out_of_room_alone_or_beside_other_faults() -> None:
    alone, beside = 0, 0
    for faults in (plan(seed, (*KINDS, "disk")) for seed in range(40)):
        full = [fault for fault in faults if (fault.kind, fault.shape) == ("disk", "full")]
        if len(full) > 3:
            alone, beside = alone + (full == faults), beside + (full != faults)
            assert {target for fault in full for target in fault.targets} <= set(BROKERS)
    assert alone >= 2
    assert beside >= 4
    assert alone + beside <= 28
