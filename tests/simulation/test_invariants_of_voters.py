"""Each invariant of changing voters, their votes and their calls is shown to fail, and to hold."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import (
    ApiReply,
    Reply,
    ResponseReceived,
    Send,
    Stopped,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    RemoveRaftVoterRequest,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.server import clean_shutdown
from kraftwreck.simulation.disk import ROOT, Disk
from kraftwreck.simulation.host import ClientCall
from kraftwreck.simulation.network import Rpc
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.binding import disk_of
from kraftwreck.systems.kraft.simulated.storm_watch import MOST_AGAIN
from tests.simulation.watched import Watched


@pytest.fixture
def run() -> Watched:
    return Watched()


# --- voters -----------------------------------------------------------------------------------


def elect(run: Watched, number: int, *granting: int, epoch: int = 5, start: int = 3) -> None:
    detail = {"granting": list(granting), "voters": [1, 2, 3], "epoch_start": start}
    run.trace(number, "elected", "leader", epoch=epoch, detail=detail)


def lead(run: Watched, level: int = 1) -> None:
    """n1 leads epoch 5, which starts at offset 3, with the vote of n2."""
    run.voters(1, "123", level=level)
    vote(run, 2, 1)
    elect(run, 1, 1, 2)
    assert run.found == []


def ask(run: Watched, voter: int, *, add: bool) -> None:
    """Send the leader n1 a request to add or remove a voter."""
    directory = bytes([voter]) * 16
    remove = RemoveRaftVoterRequest(None, voter, directory)
    for told in run.world.on_request:
        told(run.host(1), AddRaftVoterRequest(None, 1, voter, directory, ()) if add else remove)


def change(run: Watched, ids: str, offset: int, hw: int, *, asked: bool = True) -> None:
    """Append other voters at the leader n1, as requested."""
    for voter in map(int, "123" if asked else ""):
        ask(run, voter, add=True)
        ask(run, voter, add=False)
    voters = [[int(i), (bytes([int(i)]) * 16).hex()] for i in ids]
    detail = {"voters": voters, "offset": offset, "kraft_version": 1}
    run.trace(1, "voters", "leader", epoch=5, hw=hw, detail=detail)


def test_i26_one_voter_at_a_time_each_committed_before_the_next(run: Watched) -> None:
    lead(run)
    change(run, "12", 5, 5)
    change(run, "123", 7, 6)
    assert run.found == []
    change(run, "12", 8, 7)
    assert run.found == ["I26"], "the record at 7 is not below the high watermark 7"
    change(run, "3", 9, 9)
    assert run.found == ["I26", "I26"], "two voters are gone, one has come"


def test_i26_nothing_is_changed_before_the_epoch_has_committed(run: Watched) -> None:
    lead(run)
    change(run, "12", 5, -1)
    assert run.found == ["I26"]


@pytest.mark.parametrize(
    ("asked", "right"), [((3, False), True), ((3, True), False), ((2, False), False), (None, False)]
)
def test_i26_a_voter_is_removed_only_on_request(
    run: Watched, asked: tuple[int, bool] | None, right: bool
) -> None:
    lead(run)
    if asked is not None:
        ask(run, asked[0], add=asked[1])
    change(run, "12", 5, 5, asked=False)
    assert run.found == ([] if right else ["I26"])


@pytest.mark.parametrize(("added", "right"), [(True, True), (False, False)])
def test_i26_a_voter_is_added_only_on_request(run: Watched, added: bool, right: bool) -> None:
    lead(run)
    ask(run, 3, add=False)
    change(run, "12", 5, 5, asked=False)
    ask(run, 3, add=added)
    change(run, "123", 7, 7, asked=False)
    assert run.found == ([] if right else ["I26"])


def test_i26_a_follower_that_cuts_its_log_goes_back_to_other_voters(run: Watched) -> None:
    run.voters(2, "123", offset=8)
    run.voters(2, "12", offset=4)
    run.voters(2, "3", offset=9)
    assert run.found == []


def test_i26_adding_directory_ids_changes_no_voter(run: Watched) -> None:
    lead(run, level=0)
    change(run, "123", 5, 5)
    assert run.found == []


def vote(run: Watched, voter: int, candidate: int) -> None:
    """``voter`` grants its vote of epoch 5, durably."""
    run.disk(voter, WriteQuorumState(5, -1, candidate, bytes([candidate]) * 16, ()))
    detail = {"epoch": 5, "candidate": candidate, "pre": False, "last_epoch": 0, "last_offset": 0}
    theirs = {"candidate_last_epoch": 9, "candidate_last_offset": 9}
    run.tell(voter, "grant", {**detail, **theirs}, epoch=5)
    request = VoteRequest(
        None, voter, 5, candidate, bytes([candidate]) * 16, bytes(16), 9, 9, False
    )
    reply = Reply(1, VoteResponse(0, 0, -1, 5, True))
    rpc = Rpc(candidate, 1, voter, 1, voter, 1, request, 0)
    for told in run.world.wires.on_reply:
        told(run.host(voter), rpc, reply)


@pytest.mark.parametrize(
    ("fetched", "silent", "older", "restarted", "found"),
    [
        (1, 0, 0, False, []),
        (2, 0, 0, False, ["I17"]),
        (2, 1.9, 0, False, ["I17"]),
        (2, 2.1, 0, False, []),
        # Seed 495466: they were answers to what it had asked before it followed.
        (2, 0, 1, False, []),
        (2, 0, 1, True, ["I17"]),  # What its process before has asked it never hears.
    ],
)
def test_i17_a_follower_that_has_recently_fetched_grants_no_pre_vote(
    run: Watched, fetched: int, silent: float, older: int, restarted: bool, found: list[str]
) -> None:
    host = run.host(2)
    asked = FetchRequest(None, 2, bytes(16), 500, 1 << 20, 1, 0, 0, -1)
    for sent in run.world.wires.on_send:
        sent(host, Send(1, older, asked))
    if restarted:
        run.trace(2, "start")
    run.trace(2, "state")
    for _ in range(fetched):
        answer = FetchResponse(0, 0, 1, 1, -1, 0, -1, -1, -1, -1, b"")
        for told in run.world.on_response:
            told(host, ResponseReceived(1, 1, answer))
    run.world.run(int(silent * 1_000_000))
    request = VoteRequest(None, 2, 1, 3, bytes(16), bytes(16), 9, 9, True)
    rpc = Rpc(3, 1, 2, 1, 2, 1, request, 0)
    for replied in run.world.wires.on_reply:
        replied(host, rpc, Reply(1, VoteResponse(0, 0, -1, 1, True)))
    assert run.found == found


def test_i27_votes_of_a_wiped_voter_do_not_count(run: Watched) -> None:
    run.voters(1, "123")
    run.world.wipe("n2", Disk(b"b" * 16))
    vote(run, 2, 1)
    elect(run, 1, 1, 2)
    assert run.found == ["I27"]


def test_i27_a_vote_for_a_lost_disk_is_not_counted_with_another(run: Watched) -> None:
    vote(run, 2, 1)
    run.world.wipe("n1", Disk(b"b" * 16))
    elect(run, 1, 1, 2)
    assert run.found == ["I27"]


def test_i27_and_i5_hold_for_votes_that_were_given(run: Watched) -> None:
    run.voters(1, "123")
    vote(run, 2, 1)
    elect(run, 1, 1, 2)
    assert run.found == []
    run.voters(3, "123")
    elect(run, 3, 3, epoch=6)
    assert run.found == ["I5"]


def test_i2_a_new_disk_may_vote_again_an_old_one_may_not(run: Watched) -> None:
    vote(run, 2, 1)
    run.world.wipe("n2", Disk(b"b" * 16))
    vote(run, 2, 3)
    assert "I2" not in run.found
    vote(run, 2, 1)
    assert "I2" in run.found


# --- storms -----------------------------------------------------------------------------------


def answered(run: Watched, message: Any, times: int, asked: int = 0) -> None:
    """n1 hears ``message`` from n2 so many times at once, each for what it ``asked`` then."""
    for number in range(times):
        question = VoteRequest(None, 2, 5, 1, bytes(16), bytes(16), 9, 9, True)
        rpc = Rpc(1, 0, 2, 0, 2, number, question, asked)
        for given in run.world.wires.on_reply:
            given(run.host(2), rpc, Reply(0, message))
        for told in run.world.on_response:
            told(run.host(1), ResponseReceived(2, number, message))


@pytest.mark.interpreted
@pytest.mark.parametrize("error", [True, False])
def test_l8_failed_requests_wait_for_a_back_off(run: Watched, error: bool) -> None:
    refusal = BeginQuorumEpochResponse(0, errors.FENCED_LEADER_EPOCH, 1, 1) if error else None
    answered(run, refusal, 199)
    assert run.found == []
    answered(run, refusal, 1)
    assert run.found == ["L8"]


def test_l8_answers_that_bring_something_may_come_fast(run: Watched) -> None:
    fetched = FetchResponse(0, 0, 1, 1, 5, 0, -1, -1, -1, -1, b"")
    answered(run, fetched, 600)
    assert run.found == []


def test_l8_a_successful_request_is_not_repeated(run: Watched) -> None:
    refused = VoteResponse(0, 0, -1, 1, False)
    for _ in range(3):  # Each time it stands for election anew.
        run.trace(1, "state", "candidate")
        answered(run, refused, MOST_AGAIN - 1)
    assert run.found == []
    answered(run, refused, 1)
    assert run.found == ["L8"]


def test_l8_a_leader_announces_itself_now_and_then(run: Watched) -> None:
    for second in range(10):
        run.world.run(second * 1_000_000)
        answered(run, BeginQuorumEpochResponse(0, 0, 1, 1), 2)
    assert run.found == []
    answered(run, BeginQuorumEpochResponse(0, 0, 1, 1), 3)
    assert run.found == ["L8"]


# --- a leader that nobody hears ---------------------------------------------------------------


def fetches(run: Watched, at_s: float, follower: int) -> None:
    """Send a request of ``follower`` to n1, leader of epoch 1."""
    run.world.run(int(at_s * 1_000_000))
    request = FetchRequest(None, follower, bytes([follower]) * 16, 500, 1 << 20, 1, 5, 1, -1)
    for told in run.world.on_request:
        told(run.host(1), request)


@pytest.mark.parametrize(("until_s", "right"), [(4.5, True), (6.0, False)])
def test_i18_in_which_portions_a_leader_counts_is_its_own_affair(
    run: Watched, until_s: float, right: bool
) -> None:
    run.voters(1, "1234")
    run.trace(1, "state", "leader")
    fetches(run, 0.0, 4)
    fetches(run, 0.05, 2)  # May have diverged, and not have counted.
    fetches(run, 1.6, 3)
    run.world.run(int(until_s * 1_000_000))
    run.trace(1, "api", "leader")
    assert run.found == ([] if right else ["I18"])


def test_i18_one_of_four_is_no_majority(run: Watched) -> None:
    run.voters(1, "1234")
    run.trace(1, "state", "leader")
    fetches(run, 0.0, 4)
    for second in range(1, 12):
        fetches(run, second, 3)
    run.trace(1, "api", "leader")
    assert run.found == ["I18"]


# --- answers that never come ------------------------------------------------------------------


@pytest.mark.parametrize("age_s", [3, 8])
def test_f2_a_running_process_answers(run: Watched, age_s: int) -> None:
    call = ClientCall(
        0, 1, 1, 1, ApiMessage("CreateTopics", 7, {"timeout_ms": 1000}), "CONTROLLER", sent=0
    )
    run.host(1).tokens[1] = call
    run.world.run(age_s * 1_000_000)
    run.watch.finish()
    assert run.found == (["F2"] if age_s == 8 else [])


@pytest.mark.parametrize("held_up_s", [7, 0])
def test_f2_a_delayed_request_counts_from_its_arrival(run: Watched, held_up_s: int) -> None:
    request = BeginQuorumEpochRequest(None, 1, bytes(16), 2, 1)
    arrived = held_up_s * 1_000_000
    run.host(1).tokens[1] = Rpc(2, 1, 1, 1, 1, 1, request, sent=0, arrived=arrived)
    run.world.run(8_000_000)
    run.watch.finish()
    assert run.found == ([] if held_up_s else ["F2"])


@pytest.mark.parametrize(("left", "told", "right"), [(7, 7, True), (7, -1, False), (-1, 7, False)])
@pytest.mark.parametrize("own", [True, False])
def test_f8_a_broker_names_the_epoch_of_its_last_process(
    run: Watched, left: int, told: int, right: bool, own: bool
) -> None:
    run.host(3).left = Stopped(left)
    run.trace(3, "start")
    run.host(3).left = Stopped(99)  # The process has ended since.
    body = {"broker_id": 3 if own else 9, "previous_broker_epoch": told}
    rpc = Rpc(3, run.host(3).life, 1, 0, 1, 1, ApiMessage("BrokerRegistration", 4, body), 0)
    for heard in run.world.wires.on_reply:
        heard(run.host(1), rpc, ApiReply(1, {"error_code": 0, "broker_epoch": 5}))
    assert run.found == ([] if right or not own else ["F8"])


@pytest.mark.parametrize("durably", [True, False])
def test_f8_no_loss_of_power_brings_the_mark_of_a_clean_stop_back(
    run: Watched, durably: bool
) -> None:
    files = disk_of(run.host(3)).files
    clean_shutdown.write(ROOT, 7, files)
    files.unlink(ROOT / clean_shutdown.NAME)
    if durably:
        files.fsync_directory(ROOT)
    run.trace(3, "start")
    assert run.found == ([] if durably else ["F8"])


def test_f3_brokers_come_into_service(run: Watched) -> None:
    run.host(3).listener = "PLAINTEXT"
    assert run.watch.service.missing() == ["n3 (silent)"]
    for state in ("starting", "recovery"):
        run.trace(3, "broker", detail={"state": state, "broker_epoch": 5})
    run.watch.service.judge(45)
    assert run.found == ["F3"]
    run.trace(3, "broker", detail={"state": "running", "broker_epoch": 5})
    assert run.watch.service.missing() == []
    run.watch.service.judge(45)
    assert run.found == ["F3"]
    run.host(3).life += 1
    assert run.watch.service.missing() == ["n3 (silent)"], "a new process is not there yet"


@pytest.mark.parametrize(
    ("broker_id", "body", "said"),
    [
        (3, {"error_code": 102, "is_fenced": True}, "refused, 102"),
        (3, {"error_code": 0, "is_fenced": True}, "fenced"),
        (3, {"error_code": 0, "is_fenced": False}, None),
        (1001, {"error_code": 102, "is_fenced": True}, None),  # A client's, passed on.
    ],
)
def test_f3_a_running_broker_serves_only_if_its_controller_agrees(
    run: Watched, broker_id: int, body: dict[str, Any], said: str | None
) -> None:
    run.host(3).listener = "PLAINTEXT"
    run.trace(3, "broker", detail={"state": "running", "broker_epoch": 5})
    message = ApiMessage("BrokerHeartbeat", 1, {"broker_id": broker_id})
    for heard in run.world.wires.on_reply:
        heard(run.host(1), Rpc(3, 1, 1, 1, 1, 1, message, sent=0), ApiReply(1, body))
    assert run.watch.service.missing() == ([] if said is None else [f"n3 (running, but {said})"])


def test_f2_a_broker_may_look_for_a_controller_as_long_as_its_client_waits(run: Watched) -> None:
    call = ClientCall(0, 1, 1, 1, ApiMessage("AlterConfigs", 2, {}), "PLAINTEXT", sent=0)
    run.host(1).listener = "PLAINTEXT"
    run.host(1).tokens[1] = call
    run.world.run(20_000_000)
    run.watch.finish()
    assert run.found == []
    run.world.run(40_000_000)
    run.watch.finish()
    assert run.found == ["F2"]


def test_l8_a_slow_node_may_answer_many_elections_at_once(run: Watched) -> None:
    run.trace(1, "state", "candidate")
    answered(run, VoteResponse(0, 0, -1, 1, False), 3 * MOST_AGAIN, asked=-1)
    assert run.found == []
