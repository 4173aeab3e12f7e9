"""How much a verdict rests on is measured, and a run below its floor is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import pytest

from kraftwreck.checkers.floor import NONE, Floor, FloorError, parse_floor
from kraftwreck.checkers.strength import below, check, sentence, strength
from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.verdict import Verdict

SECOND = 1_000_000_000
DECLARED = {"acknowledged": 10, "share": 0.15, "led": 0.25, "elections": 0, "faults": 1}


def fault(
    number: int,
    kind: str,
    targets: list[str],
    phase: Literal["start", "stop"] = "start",
    **more: Any,
) -> FaultEvent:
    return FaultEvent(
        id=number, phase=phase, kind=kind, shape="one", targets=targets, time=0, done=1, **more
    )


def operations(history: Any, ok: int, failed: int) -> None:
    for number in range(ok + failed):
        history.did(0, "write", number, kind="ok" if number < ok else "fail")


def test_a_run_with_few_acknowledged_operations_is_unknown(
    history: Any, traces: Any, make_run: Callable[..., Any]
) -> None:
    traces.one_epoch()
    operations(history, 8, 801)
    found = check(make_run(history, traces, time_limit_s=2.0, floor=DECLARED))
    assert found.valid == "unknown"
    assert found.error is not None
    assert found.error.startswith("too little happened: 8 of 809 operations acknowledged (1%)")
    assert found.stats["acknowledged"] == 8
    assert found.stats["operations"] == 809


def test_an_invalid_run_stays_invalid_below_the_floor(
    history: Any, traces: Any, make_run: Callable[..., Any]
) -> None:
    found = check(make_run(history, traces, time_limit_s=2.0, floor=DECLARED))
    assert found.valid == "unknown"
    broken = type(found)(valid=False)
    assert Verdict.of({"strength": found, "epochs": broken}).valid is False


def test_final_operations_do_not_count(
    history: Any, traces: Any, make_run: Callable[..., Any]
) -> None:
    history.did(0, "read", final=True)
    assert strength(make_run(history, traces)).operations == 0


def test_a_run_without_a_recorded_floor_is_measured_and_valid(
    history: Any, traces: Any, make_run: Callable[..., Any]
) -> None:
    traces.one_epoch()
    found = check(make_run(history, traces, time_limit_s=2.0))
    assert found.valid is True
    assert found.stats["operations"] == 0


def test_the_time_with_a_leader_ends_as_it_resigns_or_dies(
    history: Any, traces: Any, make_run: Callable[..., Any]
) -> None:
    traces.time = 1.0
    traces.event("n1", "elected", state="leader", epoch=1, leader=1)
    traces.time = 3.0
    traces.event("n1", "resign", state="resigned")
    traces.time = 5.0
    traces.event("n2", "elected", state="leader", epoch=2, leader=2)
    traces.time = 6.0
    traces.event("n2", "hw")
    traces.time = 9.0
    traces.start("n2", state="unattached")
    measured = strength(make_run(history, traces, time_limit_s=10.0))
    assert measured.led_s == pytest.approx(3.0, abs=0.01), "1 to 3 s, 5 to 6 s"
    assert measured.elections == 2
    assert measured.seconds == 10.0


def test_two_leaders_at_once_count_once_and_the_last_one_leads_to_the_end(
    history: Any, traces: Any, make_run: Callable[..., Any]
) -> None:
    traces.time = 2.0
    traces.event("n1", "elected", state="leader", epoch=1, leader=1)
    traces.time = 4.0
    traces.event("n2", "elected", state="leader", epoch=2, leader=2)
    traces.time = 30.0
    traces.event("n3", "elected", state="leader", epoch=3, leader=3)
    measured = strength(make_run(history, traces, time_limit_s=60.0, healed=10 * SECOND))
    assert measured.led_s == pytest.approx(8.0, abs=0.01)
    assert measured.elections == 2, "the third came after the faults were healed"


def test_a_system_without_leaders_has_no_time_with_a_leader(
    history: Any, make_run: Callable[..., Any]
) -> None:
    operations(history, 12, 0)
    run = make_run(history, None, time_limit_s=2.0, floor=DECLARED)
    found = check(run)
    assert found.valid is True
    assert not {"led_s", "led", "elections"} & found.stats.keys()
    assert "leader" not in sentence(found.stats)


def test_where_a_trace_is_missing_leaders_are_not_counted(
    history: Any, traces: Any, make_run: Callable[..., Any]
) -> None:
    traces.one_epoch()
    assert strength(make_run(history, traces, time_limit_s=2.0)).elections == 1
    run = make_run(history, traces, time_limit_s=2.0, uncollected=["n2"])
    assert strength(run).elections is None


def test_faults_count_by_family_where_they_changed_anything(
    history: Any, traces: Any, make_run: Callable[..., Any]
) -> None:
    run = make_run(history, traces)
    run.test["faults"] = ["kill", "pause"]
    run.__dict__["faults"] = [
        fault(0, "kill", ["n1", "n2"], detail={"skipped": {"n1": "down already"}}),
        fault(1, "kill", ["n1"], detail={"skipped": {"n1": "down already"}}),
        fault(2, "kill", ["n1"], error="no such process"),
        fault(3, "kill", []),
    ]
    assert strength(run).faults == {"kill": 1, "pause": 0}


def test_a_fault_that_missed_all_its_targets_does_not_count(
    history: Any, traces: Any, make_run: Callable[..., Any]
) -> None:
    run = make_run(history, traces)
    run.test["faults"] = ["restart"]
    nothing = {"missed": {"n1": "no packet was dropped"}}
    run.__dict__["faults"] = [
        fault(0, "restart", ["n1"]),
        fault(0, "restart", ["n1"], phase="stop", detail=nothing),
        fault(1, "restart", ["n1", "n2"]),
        fault(1, "restart", ["n1", "n2"], phase="stop", detail=nothing),
        fault(2, "restart", ["n1"]),
    ]
    assert strength(run).faults == {"restart": 2}


def test_faults_that_were_requested_and_never_struck_are_too_little(
    history: Any, traces: Any, make_run: Callable[..., Any]
) -> None:
    traces.one_epoch()
    operations(history, 20, 0)
    run = make_run(history, traces, time_limit_s=0.02, floor=DECLARED)
    run.test["faults"] = ["restart", "wire"]
    assert check(run).error == (
        "too little happened: 0 faults of restart, wire took effect, the floor is 1"
    )
    run.__dict__["faults"] = [fault(0, "wire", ["n1"], error="n1: TypeError: no key")]
    assert str(check(run).error).endswith("; the first error of a fault: n1: TypeError: no key")
    run.__dict__["faults"].append(fault(1, "wire", ["n1"]))
    assert check(run).error is None


def test_a_floor_is_read_from_text() -> None:
    assert parse_floor("none", Floor()) == NONE
    assert parse_floor("default", Floor(share=0.5)) == Floor(share=0.5)
    assert parse_floor("share=0.3,elections=5", Floor()) == Floor(share=0.3, elections=5)


@pytest.mark.parametrize("text", ["", "shares=1", "share=x", "share=2", "led=-1", "elections=1.5"])
def test_a_floor_that_cannot_be_read_is_one_line(text: str) -> None:
    with pytest.raises(FloorError, match="--floor") as raised:
        parse_floor(text, Floor())
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("measured", "missed"),
    [
        ({"operations": 20, "acknowledged": 10}, False),
        ({"operations": 20, "acknowledged": 9}, True),
        ({"operations": 100, "acknowledged": 15}, False),
        ({"operations": 100, "acknowledged": 14}, True),
        ({"operations": 20, "acknowledged": 20, "led_s": 25.0}, False),
        ({"operations": 20, "acknowledged": 20, "led_s": 24.0}, True),
        ({"operations": 20, "acknowledged": 20, "faults": {"kill": 1}}, False),
        ({"operations": 20, "acknowledged": 20, "faults": {"kill": 0}}, True),
    ],
)
def test_the_floor_of_a_workload_that_declares_none_of_its_own(
    measured: dict[str, Any], missed: bool
) -> None:
    stats = {"seconds": 100.0, **measured}
    assert bool(below(stats, msgspec.to_builtins(Floor()))) is missed
