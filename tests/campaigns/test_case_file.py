"""Cases are written briefly, read strictly, and described in plain words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.campaigns.case import Case, explicit, operations_of
from kraftwreck.campaigns.case_file import Expected, SavedCase, read_case, write_case
from kraftwreck.campaigns.case_text import describe
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.fault import Fault, FaultEvent, Storm
from kraftwreck.histories.operation import Op
from kraftwreck.systems.kraft.simulated.knobs import Knobs

SECOND = 1_000_000_000
CASE = Case(
    workload="register",
    nodes=3,
    time_limit_s=5.0,
    rate=4.0,
    concurrency=2,
    seed=9,
    knobs=Knobs(power_loss=50, node={"linger_ms": 0}),
    schedule=(
        Fault(at=SECOND, kind="kill", shape="one", duration=300_000_000, draw=0, targets=("n1",)),
        Fault(
            at=0,
            kind="partition",
            shape="to-leader",
            duration=4 * SECOND,
            draw=5,
            targets=("@",),
            trigger="elected#2",
        ),
    ),
    operations=((0, 0), (1, 3)),
)
SAVED = SavedCase(
    case=CASE,
    failure=Expected(checker="simulator", type="I4", roles=("leader",), explanation="n1 did"),
    digest="ab",
    mutant="R08",
    before=CASE.size,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "case.json"


def changed(path: Path, change: dict[str, Any]) -> None:
    write_case(path, SAVED)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


def test_written_data_reads_back(path: Path) -> None:
    write_case(path, SAVED)
    assert read_case(path) == SAVED


def test_a_case_without_a_failure_is_valid(path: Path) -> None:
    write_case(path, SavedCase(case=CASE, about="an election in the dark"))
    assert read_case(path).failure is None


def test_defaults_are_not_written(path: Path) -> None:
    write_case(path, SAVED)
    plain = json.loads(path.read_text())
    assert plain["knobs"] == {"power_loss": 50, "node": {"linger_ms": 0}}
    assert "trigger" not in plain["schedule"][0]
    assert len(path.read_text()) < 1500


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"knobs": {"latency_mean": 3}}, "knobs: unknown field 'latency_mean'"),
        ({"knobs": {"node": {"lingerms": 3}}}, "knobs.node: unknown field 'lingerms'"),
        ({"knobs": {"latency_min": "x"}}, "knobs: .*latency_min"),
        ({"knob": {}}, "unknown field `knob`"),
        ({"kraftwreck_case": 2}, "kraftwreck_case: version 2 is not supported"),
        ({"schedule": [{"at": 1}]}, r"schedule\[0\].*kind"),
        ({"failure": {"checker": "x", "kind": "y"}}, "failure"),
        ({"nodes": "three"}, "nodes"),
    ],
)
def test_unknown_input_is_named(path: Path, change: dict[str, Any], says: str) -> None:
    changed(path, change)
    with pytest.raises(OptionError, match=says) as raised:
        read_case(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("kind", "meteor", "unknown kind 'meteor'"),
        ("shape", "octagon", "kill has no shape 'octagon'"),
        ("trigger", "eclipse#1", "unknown trigger 'eclipse'"),
        ("when", 3, "unknown field 'when'"),
    ],
)
def test_a_fault_that_is_gone_is_named(path: Path, field: str, value: object, says: str) -> None:
    write_case(path, SAVED)
    plain = json.loads(path.read_text())
    plain["schedule"][0][field] = value
    path.write_text(json.dumps(plain))
    with pytest.raises(OptionError, match=rf"schedule\[0\]: {says}"):
        read_case(path)


def test_an_unreadable_case_file_is_refused(path: Path) -> None:
    with pytest.raises(OptionError, match="pass a case file"):
        read_case(path)
    path.write_bytes(b"\xff\x00")
    with pytest.raises(OptionError, match="not a case"):
        read_case(path)


def test_the_same_failure_has_the_same_checker_type_and_roles() -> None:
    one = Expected(checker="simulator", type="I1", roles=("leader",), explanation="n1 and n2")
    assert one.same(Expected(checker="simulator", type="I1", roles=("leader",)))
    assert not one.same(Expected(checker="epochs", type="I1", roles=("leader",)))
    assert not one.same(Expected(checker="simulator", type="I2", roles=("leader",)))
    assert not one.same(Expected(checker="simulator", type="I1", roles=("follower", "leader")))


def test_a_case_is_described_in_plain_words() -> None:
    nodes, *lines = describe(CASE)
    assert nodes.endswith(", seed 9")
    assert lines == [
        "5 s of the workload register: 2 operations by 2 clients",
        "settings that differ from the defaults: power_loss=50, node.linger_ms=0",
        "2 faults:",
        "  after 0 s, at elected no. 2  the triggering node: partition to-leader, for 4 s",
        "  1 s                          n1: killed, started again 300 ms later",
    ]


def test_every_choice_of_a_run_is_written_down() -> None:
    """Targets that were drawn are named, faults that never came are gone, operations listed."""
    drawn = Fault(at=SECOND, kind="kill", shape="leader", duration=SECOND, draw=3)
    never = Fault(at=2 * SECOND, kind="kill", shape="one", duration=1, draw=4, trigger="clean#9")
    case = Case.of(CASE.options(), CASE.knobs, [never, drawn])
    event = FaultEvent(
        id=1, phase="start", kind="kill", shape="leader", targets=["n2"], time=1, done=2
    )
    op = Op(index=0, process=1, type="invoke", f="read", time=0)
    made = explicit(case, [op], [event])
    assert [f.targets for f in made.schedule] == [("n2",)]
    assert made.operations == ((1, 0),)


def test_a_fault_of_a_storm_is_described_and_read_again(tmp_path: Path) -> None:
    storm = Storm(number=2, length=3 * SECOND, operations=20, percent=55, bound=9 * SECOND)
    fault = Fault(at=SECOND, kind="kill", shape="one", duration=1, draw=4, storm=storm)
    case = Case.of(CASE.options(), CASE.knobs, [fault])
    assert list(describe(case))[-1].startswith("  storm 2, 1 s")
    write_case(tmp_path / "case.json", SavedCase(case=case))
    assert read_case(tmp_path / "case.json").case == case


def test_operations_are_counted_by_thread_over_all_its_processes() -> None:
    ops = [
        Op(index=0, process=0, type="invoke", f="read", time=0),
        Op(index=1, process=1, type="invoke", f="read", time=0),
        Op(index=2, process=0, type="info", f="read", time=0),
        Op(index=3, process=2, type="invoke", f="read", time=0),
        Op(index=4, process=4, type="invoke", f="read", time=0, final=True),
    ]
    assert operations_of(ops, 2) == ((0, 0), (1, 0), (0, 1))
