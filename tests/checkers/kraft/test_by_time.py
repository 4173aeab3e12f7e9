"""Deadlines: L11 old snapshots are deleted, L12 the controller holds its own elections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.nodes.consensus.kraft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from kraftwreck.nodes.protocol import errors
from tests.checkers.breaks import findings

MakeRun = Callable[..., Any]
SECOND = 1_000_000_000
TINY = {"node": {"retention_bytes": 1, "clean_interval_ms": 500, "fetch_timeout_ms": 2000}}


def found(run: Any, invariant: str) -> list[str]:
    return [a.type for a in findings(run) if a.type == invariant]


def made(quorum: Any, end: int) -> None:
    quorum.event("n1", "snapshot", {"end": end, "epoch": 1, "by": "created"})


@pytest.mark.parametrize(("cleaned", "after_s"), [(True, 30.0), (False, 1.0), (False, 30.0)])
def test_l11_an_old_snapshot_is_deleted(
    quorum: Any, make_run: MakeRun, cleaned: bool, after_s: float
) -> None:
    quorum.one_epoch()
    made(quorum, 1)
    made(quorum, 2)
    quorum.time += 0.5
    if cleaned:
        quorum.event("n1", "clean", {"start": 2})
    quorum.time += after_s
    quorum.append("n1", 1)
    run = make_run(None, quorum, knobs=TINY)
    right = cleaned or after_s < 30
    assert found(run, "L11") == ([] if right else ["L11"])


@pytest.mark.parametrize("asker_goes_on", [True, False])
def test_l11_while_one_is_fetched_the_newer_ones_stay_too(
    quorum: Any, capture: Capture, make_run: MakeRun, asker_goes_on: bool
) -> None:
    quorum.one_epoch()
    made(quorum, 1)
    made(quorum, 2)
    begin = int(quorum.time * SECOND)
    asked = FetchSnapshotRequest(None, 2, bytes(16), 100, 1, 1, 1, 0)
    there = FetchSnapshotResponse(0, 0, 1, 1, 1, 1)
    for second in range(30 if asker_goes_on else 2):
        at = begin + second * SECOND
        capture.exchange(at, 2, 1, asked, there, at)
    quorum.time += 30
    quorum.append("n1", 1)
    run = make_run(None, quorum, capture=capture, knobs=TINY)
    assert found(run, "L11") == ([] if asker_goes_on else ["L11"])


def served_once(quorum: Any, capture: Capture, after_ms: int) -> None:
    """n1 serves a piece of a snapshot, and ``after_ms`` later no longer has it."""
    quorum.one_epoch()
    asked = FetchSnapshotRequest(None, 2, bytes(16), 100, 1, 2, 1, 0)
    there = FetchSnapshotResponse(0, 0, 1, 1, 2, 1)
    gone = FetchSnapshotResponse(0, errors.SNAPSHOT_NOT_FOUND, 1, 1, 2, 1)
    begin = int(quorum.time * SECOND) + SECOND
    later = begin + after_ms * 1_000_000
    capture.exchange(begin, 2, 1, asked, there, begin)
    capture.exchange(later, 2, 1, asked, gone, later)


@pytest.mark.parametrize("after_ms", [10, 3000])
def test_l11_a_snapshot_stays_while_it_is_fetched(
    quorum: Any, capture: Capture, make_run: MakeRun, after_ms: int
) -> None:
    served_once(quorum, capture, after_ms)
    run = make_run(None, quorum, capture=capture)
    assert found(run, "L11") == (["L11"] if after_ms == 10 else [])


@pytest.mark.parametrize("hasty", [[1], [2]])
def test_l11_a_shorter_fetch_timeout_shortens_the_retention(
    quorum: Any, capture: Capture, make_run: MakeRun, hasty: list[int]
) -> None:
    """Seed 300742: n1 keeps a snapshot for one second more, the others for five."""
    served_once(quorum, capture, 1_200)
    settings = {"fetch_timeout_ms": 5000}
    knobs = {"node": settings, "hasty": {"fetch_timeout_ms": 1000}, "hasty_nodes": hasty}
    run = make_run(None, quorum, capture=capture, knobs=knobs)
    assert found(run, "L11") == ([] if hasty == [1] else ["L11"])


@pytest.fixture
def cluster(quorum: Any, records: Any) -> Any:
    """n1 is active; brokers 1 and 2 are unfenced and hold t-0, which 2 leads in place of 1."""
    quorum.one_epoch()
    quorum.event("n1", "claim", {"epoch_start": 0})
    for broker in (1, 2):
        epoch = quorum._end("n1")
        quorum.write(records.register(broker, epoch))
        quorum.write(records.fence(broker, epoch, -1))
    return quorum


def pass_time(quorum: Any, records: Any, seconds: int) -> None:
    for _ in range(seconds):
        quorum.time += 1
        quorum.write(records.record("NoOpRecord"))


@pytest.mark.parametrize(
    ("waits_s", "every_s", "able", "right"),
    [(3, 2, True, True), (20, 2, True, False), (20, 300, True, True), (20, 2, False, True)],
)
def test_l12_partitions_go_back_to_their_preferred_leaders(
    cluster: Any, records: Any, make_run: MakeRun,
    waits_s: int, every_s: int, able: bool, right: bool,
) -> None:  # fmt: skip
    isr = [1, 2] if able else [2]
    cluster.write(records.topic(), records.partition([1, 2], isr, leader=2))
    pass_time(cluster, records, waits_s)
    cluster.write(records.change(isr=[2, 1], leader=1))
    knobs = {"node": {"leader_imbalance_check_interval_seconds": every_s}}
    assert found(make_run(None, cluster, knobs=knobs), "L12") == ([] if right else ["L12"])


@pytest.mark.parametrize("told", [True, False])
def test_l12_a_controller_may_die_before_it_reports_its_election(
    cluster: Any, records: Any, make_run: MakeRun, told: bool
) -> None:
    """Seed 302562, a single controller: its next process finds the record, and commits it."""
    cluster.write(records.topic(), records.partition([1, 2], leader=2))
    held = cluster.write(records.change(isr=[2, 1], leader=1))
    if not told:
        cluster.events = [
            msgspec.structs.replace(event, kind="hw", detail={})
            if event.kind == "append" and event.detail["base"] == held
            else event
            for event in cluster.events
        ]
    pass_time(cluster, records, 20)
    knobs = {"node": {"leader_imbalance_check_interval_seconds": 2}}
    assert found(make_run(None, cluster, knobs=knobs), "L12") == []


@pytest.mark.parametrize("every_s", [1, 300])
def test_l12_a_wait_continues_through_unrelated_changes(
    cluster: Any, records: Any, make_run: MakeRun, every_s: int
) -> None:
    cluster.write(records.topic(), records.partition([1, 2], [2, 1], leader=2))
    for _ in range(6):
        pass_time(cluster, records, 2)
        cluster.write(records.change(isr=[1, 2]))
    knobs = {"node": {"leader_imbalance_check_interval_seconds": every_s}}
    wrong = found(make_run(None, cluster, knobs=knobs), "L12")
    assert wrong == (["L12"] if every_s == 1 else [])


@pytest.mark.parametrize(("loose", "right"), [(True, False), (False, True)])
def test_l12_a_partition_that_may_lose_records_gets_a_leader(
    cluster: Any, records: Any, make_run: MakeRun, loose: bool, right: bool
) -> None:
    cluster.write(records.topic(), records.partition([1, 2], [], leader=-1))
    cluster.write(records.config("t", "unclean.leader.election.enable", str(loose).lower()))
    pass_time(cluster, records, 20)
    knobs = {"node": {"unclean_leader_election_interval_ms": 1000}}
    assert found(make_run(None, cluster, knobs=knobs), "L12") == ([] if right else ["L12"])
