"""Answers of the quorum compared with the positions of their senders: I33, L10 and C22."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    NO_DIRECTORY,
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    UpdateRaftVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.protocol import errors
from tests.checkers.breaks import findings

DISKS = {1: b"\x11" * 16, 2: b"\x22" * 16, 3: b"\x33" * 16, 4: b"\x44" * 16}
FENCED, UNKNOWN = errors.FENCED_LEADER_EPOCH, errors.UNKNOWN_LEADER_EPOCH
NOT_LEADER = errors.NOT_LEADER_OR_FOLLOWER
MakeRun = Callable[..., Any]


def found(run: Any, *ids: str) -> list[str]:
    return [a.type for a in findings(run) if a.type in (ids or ("I33", "L10", "C22"))]


def now(quorum: Any) -> int:
    return int(quorum.time * 1e9)


def ask(capture: Capture, quorum: Any, asker: int, replier: int, request: Any, said: Any) -> None:
    """One exchange that takes no time, after all that was traced."""
    quorum.time += 0.1
    at = now(quorum)
    capture.exchange(at, asker, replier, request, said, at)


def fetch(epoch: int) -> FetchRequest:
    return FetchRequest(None, 2, NO_DIRECTORY, 500, 1 << 20, epoch, 2, epoch, 2)


def fetched(error: int, leader: int, epoch: int) -> FetchResponse:
    return FetchResponse(0, error, leader, epoch, 2, 0, -1, -1, -1, -1, b"")


def vote(epoch: int, last: tuple[int, int], *, pre: bool = False) -> VoteRequest:
    return VoteRequest(None, 2, epoch, 3, NO_DIRECTORY, NO_DIRECTORY, *last, pre)


# --- I33 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replier", "epoch", "error", "leader", "right"),
    [
        (1, 1, errors.NONE, 1, True),
        (1, 0, FENCED, 1, True),
        (1, 2, UNKNOWN, 1, True),
        (2, 1, NOT_LEADER, 1, True),
        (1, 0, errors.NONE, 1, False),
        (1, 1, FENCED, 1, False),
        (1, 2, FENCED, 1, False),
        (2, 1, errors.NONE, 1, False),
        (2, 1, NOT_LEADER, 3, False),
    ],
)
def test_i33_a_fetch_is_answered_by_epoch_and_state(
    quorum: Any, capture: Capture, make_run: MakeRun,
    replier: int, epoch: int, error: int, leader: int, right: bool,
) -> None:  # fmt: skip
    quorum.one_epoch()
    ask(capture, quorum, 3, replier, fetch(epoch), fetched(error, leader, 1))
    run = make_run(None, quorum, capture=capture)
    assert found(run, "I33") == ([] if right else ["I33"])


def test_i33_parked_fetch_is_failed_on_resignation(
    quorum: Any, capture: Capture, make_run: MakeRun
) -> None:
    quorum.one_epoch()
    sent = now(quorum)
    quorum.event("n1", "state", {"from": "leader"}, state="unattached", epoch=2, leader=-1)
    said = fetched(NOT_LEADER, -1, 2)
    capture.exchange(now(quorum), 2, 1, fetch(1), said, sent)
    assert found(make_run(None, quorum, capture=capture), "I33") == []


@pytest.mark.parametrize(
    ("request_epoch", "last", "granted", "right"),
    [
        (2, (1, 2), True, True),
        (2, (1, 1), False, True),
        (2, (1, 2), False, False),  # As new as its own: no reason to refuse.
        (2, (1, 3), False, False),
    ],
)
def test_i33_a_vote_that_is_due_is_given(
    quorum: Any, capture: Capture, make_run: MakeRun,
    request_epoch: int, last: tuple[int, int], granted: bool, right: bool,
) -> None:  # fmt: skip
    quorum.one_epoch()
    sent = now(quorum)
    quorum.event(
        "n2", "state", {"from": "follower"}, state="unattached", epoch=2, leader=-1, voted=-1
    )
    if granted:
        quorum.grant("n2", "n3", 2)
    said = VoteResponse(0, 0, -1, 2, granted)
    capture.exchange(now(quorum), 3, 2, vote(request_epoch, last), said, sent)
    assert found(make_run(None, quorum, capture=capture), "I33") == ([] if right else ["I33"])


def test_i33_requests_of_older_epochs_are_refused(
    quorum: Any, capture: Capture, make_run: MakeRun
) -> None:
    quorum.one_epoch()
    old = BeginQuorumEpochRequest(None, 2, NO_DIRECTORY, 3, 0)
    ask(capture, quorum, 3, 2, old, BeginQuorumEpochResponse(0, FENCED, 1, 1))
    assert found(make_run(None, quorum, capture=capture), "I33") == []
    ask(capture, quorum, 3, 2, old, BeginQuorumEpochResponse(0, 0, 1, 1))
    assert found(make_run(None, quorum, capture=capture), "I33") == ["I33"]


# --- L10 --------------------------------------------------------------------------------------


def give_up(quorum: Any, after: float = 2.0, **detail: Any) -> None:
    quorum.time += after
    quorum.event("n1", "state", {"from": "leader"}, state="resigned")
    quorum.event("n1", "resign", {"reason": "check-quorum", **detail})


def test_l10_a_leader_may_resign_without_fetches(
    quorum: Any, capture: Capture, make_run: MakeRun
) -> None:
    quorum.one_epoch()
    ask(capture, quorum, 2, 1, fetch(1), fetched(0, 1, 1))
    give_up(quorum, 5.0)
    assert found(make_run(None, quorum, capture=capture), "L10") == []


def test_l10_a_leader_resigns_although_voters_fetch(
    quorum: Any, capture: Capture, make_run: MakeRun
) -> None:
    quorum.one_epoch()
    ask(capture, quorum, 2, 1, fetch(1), fetched(0, 1, 1))
    give_up(quorum, 0.5)
    assert found(make_run(None, quorum, capture=capture), "L10") == ["L10"]


@pytest.mark.parametrize(("error", "verdict"), [(0, ["L10"]), (98, [])])
def test_l10_snapshot_fetches_count_for_the_majority(
    quorum: Any, capture: Capture, make_run: MakeRun, error: int, verdict: list[str]
) -> None:
    quorum.one_epoch()
    asked = FetchSnapshotRequest(None, 2, NO_DIRECTORY, 1, 1, 5, 1, 0)
    ask(capture, quorum, 2, 1, asked, FetchSnapshotResponse(0, error, 1, 1, 5, 1, 9))
    give_up(quorum, 0.5)
    assert found(make_run(None, quorum, capture=capture), "L10") == verdict


def test_l10_refused_fetches_are_no_sign_of_life(
    quorum: Any, capture: Capture, make_run: MakeRun
) -> None:
    quorum.one_epoch()
    ask(capture, quorum, 2, 1, fetch(2), fetched(UNKNOWN, 1, 1))
    give_up(quorum, 0.5)
    assert found(make_run(None, quorum, capture=capture), "L10") == []


def test_l10_a_single_voter_never_resigns(quorum: Any, make_run: MakeRun) -> None:
    quorum.event("n1", "state", {"from": "unattached"}, state="prospective")
    quorum.event("n1", "state", {"from": "prospective"}, state="candidate", epoch=1, voted=1)
    quorum.win("n1", 1, [1], voters=[1])
    give_up(quorum)
    assert found(make_run(None, quorum), "L10") == ["L10"]


# --- C22 --------------------------------------------------------------------------------------


def count(quorum: Any, *ids: int, offset: int = 2) -> None:
    """n1 counts by these voters from now on."""
    voters = [[i, DISKS[i].hex()] for i in ids]
    detail = {"voters": voters, "offset": offset, "kraft_version": 1}
    quorum.event("n1", "voters", detail)


def removal(
    voter: int, directory: bytes | None = None, cluster_id: str | None = None
) -> dict[str, Any]:
    return {"cluster_id": cluster_id, "voter_id": voter,
            "voter_directory_id": DISKS[voter] if directory is None else directory}  # fmt: skip


def remove(capture: Capture, quorum: Any, voter: int, error: int, *left: int, **more: Any) -> None:
    """An operator asks n1 to remove ``voter``; then it counts by ``left``."""
    sent = now(quorum)
    if left:
        count(quorum, *left)
    quorum.time += 0.1
    body = {"error_code": error}
    capture.api(now(quorum), -1, 1, "RemoveRaftVoter", removal(voter, **more), body, sent)


@pytest.mark.parametrize(
    ("voter", "error", "left", "right"),
    [
        (3, errors.NONE, (1, 2), True),
        (3, errors.NONE, (1, 3), False),
        (3, errors.NONE, (1, 2, 4), False),
        (3, errors.NONE, (1,), False),
        (3, errors.NONE, (1, 2, 3), False),
        (3, errors.NONE, (), False),
        (3, errors.VOTER_NOT_FOUND, (), False),
        (3, errors.INVALID_REQUEST, (), False),
        (3, errors.UNSUPPORTED_VERSION, (), False),
        (3, NOT_LEADER, (), False),
        (3, errors.REQUEST_TIMED_OUT, (), True),
    ],
)
def test_c22_just_the_voter_that_is_named_is_removed(
    quorum: Any, capture: Capture, make_run: MakeRun,
    voter: int, error: int, left: tuple[int, ...], right: bool,
) -> None:  # fmt: skip
    quorum.one_epoch()
    count(quorum, 1, 2, 3)
    remove(capture, quorum, voter, error, *left)
    run = make_run(None, quorum, capture=capture)
    assert found(run, "C22") == ([] if right else ["C22"])


@pytest.mark.parametrize(
    ("meant", "error", "right"),
    [
        ("another", errors.INCONSISTENT_CLUSTER_ID, True),
        ("another", errors.VOTER_NOT_FOUND, False),
        ("another", errors.NONE, False),
        ("c", errors.INCONSISTENT_CLUSTER_ID, False),
        (None, errors.INCONSISTENT_CLUSTER_ID, False),
    ],
)
def test_c22_a_request_for_another_cluster_is_refused(
    quorum: Any, capture: Capture, make_run: MakeRun, meant: str | None, error: int, right: bool
) -> None:
    quorum.one_epoch()
    count(quorum, 1, 2)
    at = now(quorum)
    capture.api(at, -1, 1, "Metadata", {"topics": []}, {"cluster_id": "c"}, at - 1)
    remove(capture, quorum, 3, error, cluster_id=meant)
    assert found(make_run(None, quorum, capture=capture), "C22") == ([] if right else ["C22"])


def test_c22_the_only_voter_is_not_removed(
    quorum: Any, capture: Capture, make_run: MakeRun
) -> None:
    quorum.one_epoch()
    count(quorum, 1)
    remove(capture, quorum, 1, errors.INVALID_REQUEST)
    assert found(make_run(None, quorum, capture=capture), "C22") == []
    sent = now(quorum)
    count(quorum)
    quorum.time += 0.1
    capture.api(now(quorum), -1, 1, "RemoveRaftVoter", removal(1), {"error_code": 0}, sent)
    assert found(make_run(None, quorum, capture=capture), "C22") == ["C22"]


def test_c22_another_disk_is_another(quorum: Any, capture: Capture, make_run: MakeRun) -> None:
    quorum.one_epoch()
    count(quorum, 1, 2, 3)
    remove(capture, quorum, 3, errors.VOTER_NOT_FOUND, directory=b"\x44" * 16)
    assert found(make_run(None, quorum, capture=capture), "C22") == []


@pytest.mark.parametrize(
    ("error", "there", "right"),
    [
        (errors.DUPLICATE_VOTER, True, True),
        (errors.DUPLICATE_VOTER, False, False),
        (errors.VOTER_NOT_FOUND, True, False),
        (errors.INVALID_REQUEST, False, False),
    ],
)
def test_c22_a_voter_is_not_added_again(
    quorum: Any, capture: Capture, make_run: MakeRun, error: int, there: bool, right: bool
) -> None:
    quorum.one_epoch()
    count(quorum, *((1, 2, 3) if there else (1, 2)))
    endpoint = ("CONTROLLER", Endpoint("n3", 9093))
    request = AddRaftVoterRequest(None, 1000, 3, DISKS[3], (endpoint,))
    ask(capture, quorum, 3, 1, request, VoterChangeResponse(error))
    assert found(make_run(None, quorum, capture=capture), "C22") == ([] if right else ["C22"])


@pytest.mark.parametrize(
    ("before", "after", "right"),
    [
        ((1, 2), (1, 2, 3), True),
        ((1, 2), (1, 3), False),
        ((1, 2), (1, 2), False),
        ((1, 2, 3), (1, 2, 3), False),
        ((1,), (1, 2, 3), False),
    ],
)
def test_c22_just_the_voter_that_is_named_is_added(
    quorum: Any, capture: Capture, make_run: MakeRun,
    before: tuple[int, ...], after: tuple[int, ...], right: bool,
) -> None:  # fmt: skip
    """Two replicas cannot change at once, such as the old disk of a node and its new one."""
    quorum.one_epoch()
    count(quorum, *before)
    sent = now(quorum)
    count(quorum, *after)
    quorum.time += 0.1
    endpoint = {"name": "CONTROLLER", "host": "n3", "port": 9093}
    asked = {"cluster_id": None, "voter_id": 3, "voter_directory_id": DISKS[3],
             "listeners": [endpoint]}  # fmt: skip
    body = {"error_code": errors.NONE}
    capture.api(now(quorum), -1, 1, "AddRaftVoter", asked, body, sent)
    assert found(make_run(None, quorum, capture=capture), "C22") == ([] if right else ["C22"])


def described(hw: int, ends: dict[int, int], epoch: int = 1, leader: int = 1) -> dict[str, Any]:
    voters = [
        {"replica_id": i, "replica_directory_id": DISKS[i], "log_end_offset": end}
        for i, end in ends.items()
    ]
    part = {
        "partition_index": 0, "error_code": 0, "leader_id": leader, "leader_epoch": epoch,
        "high_watermark": hw, "current_voters": voters, "observers": [],
    }  # fmt: skip
    return {"error_code": 0, "topics": [{"topic_name": "__cluster_metadata", "partitions": [part]}]}


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (described(2, {1: 2, 2: 2, 3: 0}), True),
        (described(2, {1: 2, 2: 0, 3: 0}), False),
        (described(3, {1: 3, 2: 3, 3: 3}), False),
        (described(2, {1: 2, 2: 2}), False),
        (described(2, {1: 2, 2: 2, 3: 2}, epoch=2), False),
        (described(2, {1: 2, 2: 2, 3: 2}, leader=2), False),
    ],
)
def test_c22_the_quorum_is_described_as_it_is(
    quorum: Any, capture: Capture, make_run: MakeRun, answer: dict[str, Any], right: bool
) -> None:
    quorum.one_epoch()
    count(quorum, 1, 2, 3)
    quorum.time += 0.1
    at = now(quorum)
    capture.api(at, -1, 1, "DescribeQuorum", {"topics": []}, answer, at)
    assert found(make_run(None, quorum, capture=capture), "C22") == ([] if right else ["C22"])


@pytest.mark.parametrize(("offset", "right"), [(2, True), (1, False)])
def test_c22_an_old_fetch_takes_an_end_back_but_not_the_high_watermark(
    quorum: Any, capture: Capture, make_run: MakeRun, offset: int, right: bool
) -> None:
    """A Fetch from before a partition comes after a newer one, which had made a majority."""
    quorum.one_epoch()
    count(quorum, 1, 2, 3)
    for begin in (offset, 0):
        request = FetchRequest(None, 2, NO_DIRECTORY, 500, 1 << 20, 1, begin, 1, -1)
        ask(capture, quorum, 2, 1, request, fetched(0, 1, 1))
    quorum.time += 0.1
    at = now(quorum)
    answer = described(2, {1: 2, 2: 0, 3: 0})
    capture.api(at, -1, 1, "DescribeQuorum", {"topics": []}, answer, at)
    assert found(make_run(None, quorum, capture=capture), "C22") == ([] if right else ["C22"])


@pytest.mark.parametrize("heard", [(2, 3), (2,)])
def test_c22_kraft_version_is_raised_once_all_directories_are_known(
    quorum: Any, capture: Capture, make_run: MakeRun, heard: tuple[int, ...]
) -> None:
    quorum.one_epoch()
    voters = [[i, "0" * 32] for i in (1, 2, 3)]
    quorum.event("n1", "voters", {"voters": voters, "offset": -1, "kraft_version": 0})
    for node in heard:
        endpoint = ("CONTROLLER", Endpoint(f"n{node}", 9093))
        request = UpdateRaftVoterRequest(None, 1, node, DISKS[node], (endpoint,), 0, 1)
        ask(capture, quorum, node, 1, request, VoterChangeResponse(errors.NONE, 0, 1, 1))
    quorum.time += 0.1
    sent = now(quorum)
    quorum.time += 0.1
    update = {"feature": "kraft.version", "max_version_level": 1, "upgrade_type": 1}
    body = {"timeout_ms": 1000, "feature_updates": [update], "validate_only": False}
    answer = {"error_code": errors.INVALID_UPDATE_VERSION}
    capture.api(now(quorum), -1, 1, "UpdateFeatures", body, answer, sent)
    run = make_run(None, quorum, capture=capture)
    assert found(run, "C22") == (["C22"] if len(heard) == 2 else [])
