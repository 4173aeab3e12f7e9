"""The governor: when storms begin, and which triggered faults strike."""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.harness.governor import (
    ARM,
    FALL_BACK,
    INTERVAL,
    LOOK,
    MOST_ARMED,
    START,
    Counts,
    Governor,
    Leadership,
    aim_by_time,
)
from kraftwreck.histories.fault import Fault, Storm
from kraftwreck.histories.trace import TraceEvent

SECOND = 1_000_000_000
NODES = ("n1", "n2", "n3")


def storm(number: int, **changes: int) -> Storm:
    values = {"length": 3 * SECOND, "operations": 10, "percent": 50, "bound": 8 * SECOND}
    return Storm(number=number, **{**values, **changes})


def fault(
    of: Storm | None,
    at: int = 0,
    trigger: str | None = None,
    targets: tuple[str, ...] = (),
    duration: int = SECOND,
) -> Fault:
    return Fault(
        at=at, kind="kill", shape="one", duration=duration, draw=7, targets=targets,
        trigger=trigger, storm=of,
    )  # fmt: skip


def traced(
    node: str, kind: str = "hw", *, state: str = "leader", epoch: int = 1, leader: int = 1
) -> TraceEvent:
    return TraceEvent(
        node=node, incarnation=1, seq=7, mono=0, wall=0, kind=kind, state=state, epoch=epoch,
        leader=leader, voted=-1, leo=0, hw=0,
    )  # fmt: skip


def governor(schedule: Sequence[Fault], out: set[str] | None = None) -> Governor:
    return Governor(schedule, NODES, lambda: out or set())


def looks(made: Governor, now: int, ok: int, ended: int, *, busy: bool = False) -> list[int]:
    """Return what is due after a look, without the look itself."""
    found = made.look(now, Counts(ended, ok), busy=busy)
    return [number for _, what, number in found if what != LOOK]


def test_a_storm_begins_once_enough_operations_were_acknowledged() -> None:
    made = governor([fault(storm(1)), fault(storm(1), at=SECOND)])
    assert made.look(SECOND, Counts(9, 9), busy=False) == [(SECOND + INTERVAL, LOOK, 0)]
    begun = made.look(2 * SECOND, Counts(10, 10), busy=False)
    assert begun == [(2 * SECOND, START, 0), (3 * SECOND, START, 1), (5 * SECOND, LOOK, 0)]
    assert made.detail_of(fault(storm(1))) == {"storm": {"number": 1, "after": "recovery"}}


def test_a_storm_begins_at_its_bound_though_nothing_recovers() -> None:
    made = governor([fault(storm(1))])
    assert looks(made, 8 * SECOND - 1, 0, 50) == []
    assert looks(made, 8 * SECOND, 0, 50) == [0]
    assert made.detail_of(fault(storm(1))) == {"storm": {"number": 1, "after": "bound"}}


def test_the_next_storm_waits_for_the_faults_of_the_one_before_to_end() -> None:
    made = governor([fault(storm(1)), fault(storm(2))])
    assert looks(made, SECOND, 10, 10) == [0]
    assert looks(made, 4 * SECOND, 100, 100, busy=True) == [], "a node is still on its way up"
    assert looks(made, 5 * SECOND, 200, 200) == [], "the calm begins here"
    assert looks(made, 6 * SECOND, 209, 209) == []
    assert looks(made, 7 * SECOND, 210, 210) == [1]
    assert made.governs
    assert made.look(10 * SECOND, Counts(210, 210), busy=False) == []
    assert not made.governs


def test_a_costly_storm_is_followed_by_a_longer_calm() -> None:
    made = governor([fault(storm(1)), fault(storm(2))])
    assert looks(made, SECOND, 10, 10) == [0]
    assert looks(made, 4 * SECOND, 10, 110) == [], "none of a hundred was acknowledged"
    assert looks(made, 5 * SECOND, 109, 209) == []
    assert looks(made, 6 * SECOND, 110, 210) == [1]


def test_without_a_leader_only_the_bound_lets_a_storm_begin() -> None:
    made = governor([fault(storm(1))])
    made.see(traced("n1", "resign", state="resigned"))
    assert looks(made, 2 * SECOND, 100, 100) == []
    made.see(traced("n2", "elected", epoch=2, leader=2))
    assert looks(made, 2 * SECOND, 100, 100) == [0]


def test_a_triggered_fault_strikes_once_for_one_transition() -> None:
    one = storm(1)
    made = governor([fault(one, trigger="hw#1"), fault(one, trigger="hw#1")])
    begun = made.look(8 * SECOND, Counts(0, 0), busy=False)
    assert (8 * SECOND, ARM, 0) in begun
    assert (10 * SECOND, FALL_BACK, 0) in begun, "a second of the storm is left"
    made.arm(0)
    made.arm(1)
    first = made.see(traced("n1"))
    assert first is not None
    assert first.number == 0
    second = made.see(traced("n1"))
    assert second is not None
    assert second.number == 1
    assert made.see(traced("n1")) is None
    assert made.fall_back(0) is None, "it has struck"


def test_no_triggered_fault_strikes_while_there_is_no_leader() -> None:
    out: set[str] = set()
    made = governor([fault(storm(1), trigger="candidate")], out)
    made.look(8 * SECOND, Counts(0, 0), busy=False)
    made.arm(0)
    candidate = traced("n2", "state", state="candidate", epoch=2, leader=-1)
    assert made.see(candidate) is None
    assert made.armed == 1
    assert made.fall_back(0) is not None
    assert made.armed == 0


def test_a_leader_that_a_fault_keeps_down_does_not_lead() -> None:
    out = {"n1"}
    made = Governor([fault(storm(1), trigger="replicate")], NODES, lambda: out)
    made.look(8 * SECOND, Counts(0, 0), busy=False)
    made.arm(0)
    assert made.see(traced("n2", "append", state="follower")) is None
    out.clear()
    assert made.see(traced("n2", "append", state="follower")) is not None


def test_few_faults_are_armed_at_once() -> None:
    one = storm(1)
    made = governor([fault(one, trigger="elected") for _ in range(MOST_ARMED + 2)])
    made.look(8 * SECOND, Counts(0, 0), busy=False)
    for number in range(MOST_ARMED + 2):
        made.arm(number)
    assert made.armed == MOST_ARMED
    assert made.fall_back(MOST_ARMED) is not None, "the others strike by time"


def test_a_fault_ends_with_its_storm() -> None:
    long = fault(storm(1), duration=10 * SECOND)
    made = governor([long])
    made.look(8 * SECOND, Counts(0, 0), busy=False)
    assert made.end(long, 9 * SECOND) == 11 * SECOND
    assert made.end(long, 12 * SECOND) == 12 * SECOND, "it started late"
    assert made.end(fault(None, duration=10 * SECOND), 9 * SECOND) == 19 * SECOND


def test_a_trigger_that_did_not_fire_is_aimed_at_the_leader() -> None:
    at = fault(None, trigger="claim", targets=("@",))
    assert aim_by_time(at, "n2", NODES).targets == ("n2",)
    assert aim_by_time(at, None, NODES).targets == ()
    both = aim_by_time(fault(None, trigger="claim", targets=("@", "@leader")), "n2", NODES)
    assert both.targets[1] == "n2"
    assert both.targets[0] in ("n1", "n3")
    assert aim_by_time(fault(None, targets=("n3",)), "n2", NODES).targets == ("n3",)


def test_leaders_are_known_by_their_own_events_and_those_of_followers() -> None:
    seen = Leadership(NODES)
    assert seen.leads(()), "a system may show no leader at all"
    seen.see(traced("n3", state="follower", epoch=4, leader=2))
    assert seen.leader == "n2"
    seen.see(traced("n2", "resign", state="resigned", epoch=4, leader=-1))
    assert not seen.leads(())
    seen.see(traced("n3", state="follower", epoch=4, leader=2))
    assert not seen.leads(()), "a follower that has not heard of it yet"
    seen.see(traced("n1", "elected", epoch=5, leader=1))
    seen.see(traced("n2", "hw", epoch=4, leader=2))
    assert seen.leader == "n1", "an older epoch says nothing"
