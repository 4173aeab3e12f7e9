"""Messages that no quorum can have sent: refused and traced, with nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import Abandon, Reply
from kraftwreck.nodes.consensus.epochs import MAX_EPOCH, PERIOD_US, START_LEAP
from kraftwreck.nodes.consensus.kraft import requests
from kraftwreck.nodes.consensus.kraft.fetches import MAX_PARKED
from kraftwreck.nodes.consensus.kraft.leader import MAX_OBSERVERS
from kraftwreck.nodes.consensus.kraft.messages import (
    NO_DIRECTORY,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    Request,
    Response,
    VoteRequest,
)
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.responses import handle_response
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.log.crc import crc32c
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.records import KRAFT_VOTERS, encode_control

Make = Callable[..., Any]
LIES: dict[str, Callable[[int, int], Request]] = {
    "vote": lambda me, epoch: VoteRequest(
        "cluster", me, epoch, 2 if me != 2 else 3, b"d" * 16, NO_DIRECTORY, 0, 0, False
    ),
    "pre-vote": lambda me, epoch: VoteRequest(
        "cluster", me, epoch, 2 if me != 2 else 3, b"d" * 16, NO_DIRECTORY, 0, 0, True
    ),
    "begin": lambda me, epoch: BeginQuorumEpochRequest(
        "cluster", me, NO_DIRECTORY, 2 if me != 2 else 3, epoch
    ),
    "end": lambda me, epoch: EndQuorumEpochRequest("cluster", 2 if me != 2 else 3, epoch, ()),
}


def settled(cluster_of: Make) -> Any:
    cluster = cluster_of(3)
    cluster.elect()
    cluster.run(500)
    return cluster


def follower_of(cluster: Any) -> Any:
    return next(r for r in cluster.replicas.values() if not r.is_leader)


def asked(cluster: Any, replica: Any, message: Request) -> list[Any]:
    """Let ``replica`` handle a request that comes from outside; return its effects."""
    replica.now = cluster.now
    handle_request(replica, -5, message)
    effects: list[Any] = replica.effects
    replica.effects = []
    return effects


def refused(effects: list[Any]) -> str:
    kinds = {type(effect).__name__ for effect in effects}
    assert kinds == {"Trace", "Reply"}, effects
    (reply,) = (effect for effect in effects if isinstance(effect, Reply))
    assert reply.message.error == errors.INVALID_REQUEST
    (trace,) = (effect for effect in effects if not isinstance(effect, Reply))
    assert trace.kind == "contradiction"
    return str(trace.detail["reason"])


@pytest.mark.parametrize("epoch", [2**31 - 1, 2**31 - 2, 2**30])
@pytest.mark.parametrize("lie", LIES)
def test_epoch_out_of_reach_is_refused(cluster_of: Make, lie: str, epoch: int) -> None:
    cluster = settled(cluster_of)
    leader = cluster.leader()
    for replica in cluster.replicas.values():
        before = replica.epoch
        assert "out of reach" in refused(asked(cluster, replica, LIES[lie](replica.node_id, epoch)))
        assert replica.epoch == before
    last = cluster.append(leader, b"x")
    assert cluster.run(1000, lambda: leader.high_watermark == last + 1)


@pytest.mark.parametrize("lie", LIES)
def test_quorum_recovers_from_the_largest_epoch_that_is_believed(
    cluster_of: Make, lie: str
) -> None:
    cluster = settled(cluster_of)
    leader = cluster.leader()
    most = leader.epoch_limit.at(cluster.now)
    victim = leader.node_id if "vote" in lie else follower_of(cluster).node_id

    def told(replica: Any) -> None:
        handle_request(replica, -5, LIES[lie](victim, most))
        replica.effects = [e for e in replica.effects if getattr(e, "token", 0) != -5]

    cluster.handle(victim, told)
    assert cluster.replicas[victim].epoch == most
    assert cluster.run(20_000, lambda: _serves(cluster) and cluster.leader().epoch > most)
    assert {r.epoch for r in cluster.replicas.values()} == {cluster.leader().epoch}


def _serves(cluster: Any) -> bool:
    leader = cluster.leader()
    return leader is not None and leader.high_watermark == leader.log.end_offset > 0


def test_node_that_missed_many_epochs_catches_up_in_time(cluster_of: Make) -> None:
    cluster = settled(cluster_of)
    replica = follower_of(cluster)
    far = replica.epoch + START_LEAP + 1000
    replica.now = cluster.now = cluster.now + 1100 * PERIOD_US
    handle_request(replica, -5, LIES["vote"](replica.node_id, far))
    assert replica.epoch == far


def test_there_is_an_epoch_left_for_an_election(cluster_of: Make) -> None:
    replica = follower_of(settled(cluster_of))
    assert replica.epoch_limit.at(MAX_EPOCH * PERIOD_US * 2) < MAX_EPOCH


def test_second_leader_of_an_epoch_is_refused(cluster_of: Make) -> None:
    cluster = settled(cluster_of)
    leader = cluster.leader()
    for me in (r for r in cluster.replicas.values() if r is not leader):
        other = next(i for i in cluster.ids if i not in (leader.node_id, me.node_id))
        for claim in (
            BeginQuorumEpochRequest("cluster", me.node_id, NO_DIRECTORY, other, leader.epoch),
            EndQuorumEpochRequest("cluster", other, leader.epoch, ()),
        ):
            assert "two leaders in epoch" in refused(asked(cluster, me, claim))
            assert me.leader_id == leader.node_id


def test_leader_refuses_another_leader_of_its_epoch(cluster_of: Make) -> None:
    cluster = settled(cluster_of)
    leader = cluster.leader()
    other = follower_of(cluster).node_id
    claim = BeginQuorumEpochRequest("cluster", -1, NO_DIRECTORY, other, leader.epoch)
    assert "two leaders in epoch" in refused(asked(cluster, leader, claim))
    assert leader.is_leader


def test_claim_that_this_node_leads_is_refused(cluster_of: Make) -> None:
    cluster = settled(cluster_of)
    replica = follower_of(cluster)
    claim = BeginQuorumEpochRequest("cluster", -1, NO_DIRECTORY, replica.node_id, replica.epoch + 1)
    assert "never won" in refused(asked(cluster, replica, claim))


# --- answers ------------------------------------------------------------------------------------


def answered(cluster: Any, message: Response) -> tuple[Any, list[Any]]:
    """Let a follower receive an answer of its leader; return the follower and its effects."""
    replica = follower_of(cluster)
    replica.now = cluster.now
    replica.links.clear()
    correlation = replica.links.open(replica.leader_id, replica.now)
    assert correlation is not None
    handle_response(replica, replica.leader_id, correlation, message)
    effects, replica.effects = replica.effects, []
    return replica, effects


def fetched(cluster: Any, **fields: Any) -> FetchResponse:
    """Return the leader's answer to a Fetch of a follower, except for ``fields``."""
    leader = cluster.leader()
    nothing = dict.fromkeys(("diverging_epoch", "diverging_end"), -1)
    nothing |= dict.fromkeys(("snapshot_end", "snapshot_epoch"), -1)
    values: dict[str, Any] = {
        "error": 0,
        "partition_error": 0,
        "leader_id": leader.node_id,
        "leader_epoch": leader.epoch,
        "high_watermark": leader.high_watermark,
        "log_start_offset": 0,
        "records": b"",
        **nothing,
    }
    return FetchResponse(**values | fields)


def batch(cluster: Any, base: int = 0, epoch: int = 0, control: Any = None) -> bytes:
    leader = cluster.leader()
    end = leader.log.end_offset + base
    records = [control or (None, b"x")]
    return encode_batch(end, leader.epoch + epoch, 0, records, control=control is not None)


def miscounted(cluster: Any) -> bytes:
    sound = bytearray(batch(cluster))
    sound[60] = 7
    sound[17:21] = crc32c(bytes(sound[21:])).to_bytes(4, "big")
    return bytes(sound)


BAD_ANSWERS: dict[str, Callable[[Any], FetchResponse]] = {
    "high watermark": lambda c: fetched(c, high_watermark=0),
    "log diverges": lambda c: fetched(c, diverging_epoch=1, diverging_end=0),
    "offers snapshot": lambda c: fetched(c, snapshot_end=0, snapshot_epoch=1),
    "a batch begins": lambda c: fetched(c, records=batch(c, base=3)),
    "epoch goes back": lambda c: fetched(c, records=batch(c, epoch=-1)),
    "7 records": lambda c: fetched(c, records=miscounted(c)),
    "says it has": lambda c: fetched(c, records=b"\0" * 100),
    "unknown control": lambda c: fetched(c, records=batch(c, control=(b"\0\0\0\x63", b"\0\0"))),
    "no voter is left": lambda c: fetched(
        c, records=batch(c, control=encode_control(KRAFT_VOTERS, {"version": 0, "voters": []}))
    ),
    "never won": lambda c: fetched(
        c, leader_id=follower_of(c).node_id, leader_epoch=c.leader().epoch + 1
    ),
    "out of reach": lambda c: fetched(c, leader_epoch=2**31 - 1),
    "request invalid": lambda c: fetched(c, partition_error=errors.INVALID_REQUEST),
    "two leaders": lambda c: fetched(
        c,
        leader_id=6 - c.leader().node_id - follower_of(c).node_id,
        partition_error=errors.NOT_LEADER_OR_FOLLOWER,
    ),
    "refuses this node": lambda c: fetched(c, error=errors.CLUSTER_AUTHORIZATION_FAILED),
}


@pytest.mark.parametrize("reason", BAD_ANSWERS)
def test_answer_that_cannot_be_true_is_refused(cluster_of: Make, reason: str) -> None:
    cluster = settled(cluster_of)
    replica, effects = answered(cluster, BAD_ANSWERS[reason](cluster))
    (trace,) = effects
    assert trace.kind == "contradiction"
    assert reason in trace.detail["reason"]
    assert replica.leader_id == cluster.leader().node_id
    assert not replica.links.is_ready(replica.leader_id, replica.now), "it waits a little"
    last = cluster.append(cluster.leader(), b"y")
    assert cluster.run(3000, lambda: replica.high_watermark == last + 1)


# --- what a defect may do -------------------------------------------------------------------------


class DefectError(Exception):
    """Put in by these tests."""


@pytest.mark.interpreted
def test_handler_that_fails_before_it_changes_anything_is_contained(
    cluster_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = settled(cluster_of)

    def fail(*_: object) -> None:
        raise DefectError("why")

    monkeypatch.setattr(requests, "_vote", fail)
    replica = follower_of(cluster)
    trace, abandon = asked(cluster, replica, LIES["vote"](replica.node_id, replica.epoch))
    assert (trace.kind, trace.detail["reason"]) == ("defect", "DefectError: why")
    assert abandon == Abandon(-5)


@pytest.mark.interpreted
def test_handler_that_fails_after_a_change_ends_the_node(
    cluster_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = settled(cluster_of)

    def fail(replica: Any, *_: object) -> None:
        replica.become_unattached(replica.epoch + 1)
        raise DefectError("why")

    monkeypatch.setattr(requests, "_vote", fail)
    replica = follower_of(cluster)
    with pytest.raises(DefectError):
        handle_request(replica, -5, LIES["vote"](replica.node_id, replica.epoch))


# --- bounds ---------------------------------------------------------------------------------------


def fetch(cluster: Any, number: int, replica_id: int = 100) -> FetchRequest:
    leader = cluster.leader()
    directory = number.to_bytes(16, "big")
    end, epoch = leader.log.end_offset, leader.epoch
    high = leader.high_watermark
    return FetchRequest(
        "cluster", replica_id, directory, 2**31 - 1, 2**31 - 1, epoch, end, epoch, high
    )


def test_no_fetch_comes_from_the_leader_itself(cluster_of: Make) -> None:
    """It would count for the high watermark before the leader's own flush."""
    cluster = settled(cluster_of)
    leader = cluster.leader()
    before = leader.state.voters[leader.node_id].end_offset
    effects = asked(cluster, leader, fetch(cluster, 1, leader.node_id))
    (reply,) = (each for each in effects if isinstance(each, Reply))
    assert reply.message.partition_error == errors.INVALID_REQUEST
    assert leader.state.voters[leader.node_id].end_offset == before


def test_fetches_that_wait_are_bounded(cluster_of: Make) -> None:
    cluster = settled(cluster_of)
    leader = cluster.leader()
    answers = []
    for number in range(MAX_PARKED + 10):
        leader.now = cluster.now
        handle_request(leader, -1 - number, fetch(cluster, 1))
        answers += [e.token for e in leader.effects if isinstance(e, Reply) and e.token < 0]
        leader.effects.clear()
    assert answers == list(range(-1, -11, -1)), "the first ones are answered early"


def test_observers_are_bounded_and_the_latest_stay(cluster_of: Make) -> None:
    cluster = settled(cluster_of)
    leader = cluster.leader()
    for number in range(MAX_OBSERVERS + 10):
        leader.now = cluster.now + number
        handle_request(leader, number, fetch(cluster, number))
    leader.effects.clear()
    known = {int.from_bytes(directory, "big") for _, directory in leader.state.observers}
    assert known == set(range(10, MAX_OBSERVERS + 10))
