"""Brokers' reports of themselves: C23, I24 by applied metadata, and C18 by leadership."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.invariants import broker_life, timely_elections
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import GAPS, NOT_WHOLE, Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.recorded.capture import Capture
from tests.checkers.breaks import broken
from tests.checkers.kraft.stand_ins import evidence

MakeRun = Callable[..., Any]
SECOND = 1_000_000_000
NOT_CONTROLLER = 41


@pytest.fixture
def cluster(quorum: Any, records: Any) -> Any:
    """n1 leads epoch 1 and is active; n3 is a broker, and is registered, but fenced."""
    quorum.one_epoch()
    quorum.event("n1", "claim", {"epoch_start": 0})
    quorum.epoch = quorum._end("n1")
    quorum.write(records.register(3, quorum.epoch))
    return quorum


def says(cluster: Any, state: str, **more: Any) -> None:
    detail = {"state": state, "broker_epoch": cluster.epoch, **more}
    cluster.event("n3", "broker", detail)


@pytest.mark.parametrize("unfenced", [True, False])
def test_c23_a_broker_is_in_service_once_it_is_unfenced(
    cluster: Any, records: Any, make_run: MakeRun, unfenced: bool
) -> None:
    cluster.write(records.fence(3, cluster.epoch, -1) if unfenced else records.topic())
    says(cluster, "running")
    assert broken(make_run(None, cluster)) == (set() if unfenced else {"C23"})


@pytest.mark.parametrize("applied", [True, False])
def test_c23_a_broker_recovers_once_it_has_applied_its_registration(
    cluster: Any, make_run: MakeRun, applied: bool
) -> None:
    cluster.epoch += 0 if applied else 1
    says(cluster, "recovery")
    assert broken(make_run(None, cluster)) == (set() if applied else {"C23"})


@pytest.mark.parametrize(
    ("fenced", "more", "right"),
    [(True, {}, True), (False, {}, False), (False, {"reason": "asked before"}, True)],
    ids=["fenced", "in service", "for a reason of its own"],
)
def test_c23_a_broker_ends_its_shutdown_once_it_is_fenced(
    cluster: Any, records: Any, make_run: MakeRun, fenced: bool, more: Any, right: bool
) -> None:
    cluster.write(records.fence(3, cluster.epoch, -1))
    cluster.time += 5
    if fenced:
        cluster.write(records.fence(3, cluster.epoch, 1))
    says(cluster, "stopped", **more)
    assert broken(make_run(None, cluster)) == (set() if right else {"C23"})


@pytest.mark.parametrize(
    ("then", "right"),
    [((), False), ((1,), True), ((1, -1), True)],
    ids=["not yet", "let go", "unfenced again, by a late heartbeat"],
)
def test_c23_a_broker_that_hands_over_waits_until_it_is_let_go(
    cluster: Any, records: Any, make_run: MakeRun, then: tuple[int, ...], right: bool
) -> None:
    cluster.write(records.fence(3, cluster.epoch, -1))
    cluster.write(records.stopping(3, cluster.epoch))
    for fenced in then:
        cluster.write(records.fence(3, cluster.epoch, fenced))
    says(cluster, "stopped")
    assert broken(make_run(None, cluster)) == (set() if right else {"C23"})


def beats(cluster: Any, capture: Capture, epoch: int, offset: int) -> None:
    """Broker 3 sends n1 a heartbeat of ``epoch`` that reports ``offset``."""
    body = {"broker_id": 3, "broker_epoch": epoch, "current_metadata_offset": offset,
            "want_fence": True, "want_shut_down": False}  # fmt: skip
    now = int(cluster.time * SECOND)
    capture.api(now, 3, 1, "BrokerHeartbeat", body, {"error_code": 7}, now)


@pytest.mark.parametrize("ahead", [0, 1])
def test_i24_a_broker_reports_an_offset_it_has_applied(
    cluster: Any, capture: Capture, make_run: MakeRun, ahead: int
) -> None:
    says(cluster, "starting")
    beats(cluster, capture, cluster.epoch, cluster.epoch + ahead)
    # Offset epoch + 1 is committed somewhere a moment later.
    cluster.append("n1", 1)
    cluster.copy("n1", "n2")
    cluster.commit("n1", "n2")
    assert broken(make_run(None, cluster, capture=capture)) == ({"I24"} if ahead else set())


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("lags", [0, 1])
def test_i24_a_broker_reports_no_offset_from_before(
    cluster: Any, capture: Capture, make_run: MakeRun, behind: int, lags: int
) -> None:
    """Its own trace shows whether its image lags behind the commits that it has delivered."""
    says(cluster, "starting")
    if lags:
        cluster.event("n3", "apply", {"end": cluster.epoch})
    cluster.time += 0.001
    beats(cluster, capture, cluster.epoch, cluster.epoch - behind)
    run = make_run(None, cluster, capture=capture)
    assert broken(run) == (set() if behind == lags else {"I24"})


def test_i24_a_new_incarnation_may_begin_at_a_lower_offset(
    cluster: Any, capture: Capture, make_run: MakeRun
) -> None:
    says(cluster, "starting")
    cluster.event("n3", "start", {"incarnation": 2, "directory": "00"}, incarnation=2, seq=0, hw=-1)
    cluster.time = cluster.events[-1].mono / 1_000_000 - 0.0005
    beats(cluster, capture, cluster.epoch, cluster.epoch)
    assert "I24" not in broken(make_run(None, cluster, capture=capture))


def test_i24_a_clients_heartbeat_that_a_broker_passes_on_is_none_of_the_brokers(
    cluster: Any, capture: Capture, make_run: MakeRun
) -> None:
    says(cluster, "starting")
    beats(cluster, capture, 0, cluster.epoch + 1)
    cluster.append("n1", 1)
    cluster.copy("n1", "n2")
    cluster.commit("n1", "n2")
    assert broken(make_run(None, cluster, capture=capture)) == set()


def test_c23_a_new_incarnation_may_begin_at_a_lower_offset(cluster: Any, make_run: MakeRun) -> None:
    cluster.copy("n1", "n2", "n3")
    cluster.commit("n1", "n2", "n3")
    says(cluster, "recovery")
    cluster.event("n3", "start", {"incarnation": 2, "directory": "00"}, incarnation=2, seq=0, hw=-1)
    assert "C23" not in broken(make_run(None, cluster))


def test_a_snapshot_reported_late_does_not_lower_the_applied_offset(
    cluster: Any, make_run: MakeRun
) -> None:
    from kraftwreck.checkers.kraft.controller_model.exchanges import (
        Commits,  # after the invariants, which need each other
    )

    cluster.event("n1", "commit", {"base": 7, "last": 8, "epoch": 1, "crc": 0})
    cluster.event("n1", "load", {"end": 5, "epoch": 1})
    evidence = Evidence(make_run(None, cluster))
    assert Commits(evidence).taken("n1", 1 << 62)[0] == 9


@pytest.mark.parametrize("yields", [True, False])
@pytest.mark.parametrize("injected", [True, False])
def test_c24_a_controller_resigns_after_an_unforeseen_failure(
    quorum: Any, make_run: MakeRun, yields: bool, injected: bool
) -> None:
    quorum.one_epoch()
    if yields:
        quorum.event("n1", "state", {"from": "leader"}, state="resigned", leader=-1)
    error = "RuntimeError('a defect that was put in')" if injected else "KeyError('x')"
    quorum.event("n1", "controller-error", {"api": "x", "error": error, "epoch": 1})
    wanted = set() if yields else {"C24"}
    run = make_run(None, quorum, images=[])
    assert broken(run) == wanted | (set() if injected else {"controller-error"})


@pytest.mark.parametrize(
    ("claimed", "resigns", "right"),
    [(True, False, False), (False, False, True), (True, True, True)],
    ids=["active all the while", "elected, and has not claimed", "loses its lead meanwhile"],
)
def test_c18_the_active_controller_does_not_say_that_it_is_none(
    quorum: Any, capture: Capture, make_run: MakeRun, claimed: bool, resigns: bool, right: bool
) -> None:
    quorum.one_epoch()
    if claimed:
        quorum.event("n1", "claim", {"epoch_start": 0})
    quorum.time += 1
    since = int(quorum.time * SECOND)
    if resigns:
        quorum.event("n1", "state", {"from": "leader"}, state="resigned", leader=-1)
    quorum.time += 1
    topics = {"topics": [{"name": "t", "error_code": NOT_CONTROLLER}]}
    body = {"topics": [], "validate_only": False}
    capture.api(int(quorum.time * SECOND), -1, 1, "CreateTopics", body, topics, since)
    assert ("C18" in broken(make_run(None, quorum, capture=capture))) is not right


@pytest.mark.interpreted  # The evidence is a stand-in.
def test_gaps_of_traces_are_the_reason_why_nothing_is_judged() -> None:
    report = Report()
    known = evidence(trace={"gaps": ["n1"]}, setting=lambda *_: 1)
    for judge in (broker_life.check, timely_elections.check):
        judge(known, report)
    assert {report.of(rule)["why"] for rule in ("C23", "I24", "L12")} == {GAPS}


@pytest.mark.parametrize(("lost", "gaps"), [(True, False), (False, True), (True, True)])
def test_what_is_missing_of_the_log_is_named(
    quorum: Any, records: Any, make_run: Any, lost: bool, gaps: bool
) -> None:
    """A committed batch is on no disk, or a node's trace has a gap."""
    quorum.one_epoch()
    quorum.write(records.topic())
    if gaps:
        quorum.events[-1].seq += 1
    known, report = Evidence(make_run(None, quorum)), Report()
    known.log.missing = int(lost)
    assert not Controller.of(known).is_whole(report, "C17")
    assert report.of("C17")["why"] == ", ".join([NOT_WHOLE] * lost + [GAPS] * gaps)
