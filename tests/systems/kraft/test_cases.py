"""Cases of KRaft: their settings, their description, and the roles of the nodes that fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraftwreck.campaigns.case import Case, replaced
from kraftwreck.campaigns.case_file import SavedCase, write_case
from kraftwreck.campaigns.case_run import CaseRun, roles_of, run_case
from kraftwreck.campaigns.case_text import describe
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.verdict import Anomaly
from kraftwreck.systems.kraft.simulated.knobs import Knobs

SECOND = 1_000_000_000

QUIET = Case(
    workload="leader",
    nodes=3,
    time_limit_s=4.0,
    rate=4.0,
    concurrency=2,
    seed=3,
    knobs=Knobs(brokers=1, node={"linger_ms": 0}),
    schedule=(
        Fault(at=SECOND, kind="kill", shape="one", duration=SECOND, draw=1),
        Fault(at=2 * SECOND, kind="pause", shape="leader", duration=SECOND, draw=2),
    ),
)
DYNAMIC = replaced(
    QUIET, knobs=Knobs(dynamic=True, first_voters=3, brokers=1, node={"linger_ms": 0})
)


def test_defaults_are_not_written(tmp_path: Path) -> None:
    write_case(tmp_path / "case.json", SavedCase(case=DYNAMIC))
    assert json.loads((tmp_path / "case.json").read_text())["knobs"] == {
        "dynamic": True,
        "first_voters": 3,
        "brokers": 1,
        "node": {"linger_ms": 0},
    }


def test_a_case_is_described_in_plain_words() -> None:
    lines = list(describe(DYNAMIC))
    assert lines[0] == "3 controllers of a dynamic quorum and 1 broker, seed 3"
    assert lines[2] == (
        "settings that differ from the defaults: node.linger_ms=0, dynamic=True,"
        " first_voters=3, brokers=1"
    )


@pytest.fixture(scope="module")
def quiet() -> CaseRun:
    return run_case(QUIET)


def roles(run: CaseRun, explanation: str, *nodes: str) -> tuple[str, ...]:
    """Return the roles of an anomaly that shows the last trace event of ``nodes``."""
    last = {event.node: event for event in run.result.events}
    shown = [
        {name: getattr(last[node], name) for name in ("node", "state", "incarnation", "seq")}
        for node in nodes
    ]
    return roles_of(Anomaly(type="I1", explanation=explanation, events=shown), run.result)


def test_roles_are_those_of_the_nodes_that_are_shown(quiet: CaseRun) -> None:
    states = {event.node: event.state for event in quiet.result.events}
    leader = next(node for node in ("n1", "n2", "n3") if states[node] == "leader")
    other = next(node for node in ("n1", "n2", "n3") if node != leader)
    assert roles(quiet, "two of them", leader, other) == ("follower", "leader")
    assert roles(quiet, "it", leader) == ("leader",)
    assert roles(quiet, "it", "b1") == ("broker",)


def test_nodes_that_are_only_named_are_controllers_or_brokers(quiet: CaseRun) -> None:
    assert roles(quiet, "n2 did what b1 must not") == ("broker", "controller")
    assert roles(quiet, "broker 1001 did") == ()
    assert roles(quiet, "n1 leads, n2 and n3 follow, b1 observes") == (), "that is everybody"


def test_a_node_outside_of_the_voters_is_an_observer() -> None:
    case = replaced(QUIET, nodes=4, knobs=Knobs(dynamic=True, first_voters=3), schedule=())
    run = run_case(case)
    assert roles(run, "it", "n4") == ("observer",)
