"""Requests about records that no history names: brokers' answers are judged as they leave.

A consumer sometimes looks up an offset by time or the end of a leader epoch. Some topics have keys
of their own (negative ones). Most of their records are acknowledged by the leader alone, and some
of their batches have sequence numbers of the client's producer. All are deleted in the end, by
DeleteRecords, by retention or with their topic, which the next client creates again. Checkers of
histories do not know deletions.

Leadership moves without a fault, too: the replicas of a partition get another order, sometimes one
fewer, and the first of them is elected. So a broker leads, follows and leads again in a short time.
Configs of all brokers and of single ones change, too.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from kraftwreck.harness.client import Answer, Call, Pause
from kraftwreck.nodes.metadata.image_values import BROKER
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.workloads.log_client import (
    INIT_PRODUCER_ID,
    NEW_PRODUCER,
    PARTITIONS,
    LogClient,
    Position,
    ask,
    find_leader,
    metadata,
    place_of,
)
from kraftwreck.systems.kraft.workloads.polling import EARLIEST, LARGEST, LATEST, offset_at, poll
from kraftwreck.systems.kraft.workloads.record_batches import SPAN_MS, TIMESTAMP_MS, batch_of
from kraftwreck.systems.kraft.workloads.sending import produce_call

DELETE_RECORDS: Final = 2
EPOCH_ENDS: Final = 3
DELETE_TOPICS: Final = 6
REASSIGN: Final = 1
ELECT_LEADERS: Final = 2
ALTER_CONFIGS: Final = 1
DELETE_MS: Final = 500
COMMITTED: Final = -1
"""Stands for the high watermark in a request to delete records."""
MOST_BATCHES: Final = 5
"""In a row: acknowledged by the leader alone, they fill a segment before followers have it."""
_LIMITS: Final = ("1000000", "1000001")
"""Bytes."""
_ACKS: Final = (1, 1, -1, 0)

Steps = Generator[Call | Pause, Answer, None]


def look_beside(client: LogClient) -> Steps:
    """Make one of these requests. The last one is that of a producer which sends nothing."""
    turn = client.draw(8, "beside")
    if turn < 2:
        yield from _trim(client)
    elif turn < 4 and client.assigned:
        key = client.assigned[client.draw(len(client.assigned), "beside-which")]
        yield from _ask_time(client, key) if turn == 2 else _ask_epoch(client, key)
    elif turn < 6:
        yield from _hand_over(client)
    elif turn == 6:
        yield from _configure(client)
    else:
        yield from ask(client.broker(), "InitProducerId", INIT_PRODUCER_ID, NEW_PRODUCER)


def _ask_time(client: LogClient, key: int) -> Steps:
    """Ask for the first record of some time, as a consumer that begins with yesterday does."""
    if (yield from find_leader(client, key)) is not None:
        yield from offset_at(client, key, TIMESTAMP_MS + client.draw(SPAN_MS, "time"))


def _ask_epoch(client: LogClient, key: int) -> Steps:
    """Ask where an epoch ends, as a consumer that checks for a truncation does (KIP-320)."""
    leader = yield from find_leader(client, key)
    if leader is None or leader.node is None:
        return
    topic, partition = place_of(key)
    wanted = {
        "partition": partition,
        "current_leader_epoch": leader.epoch,
        "leader_epoch": client.draw(leader.epoch + 2, "which-epoch"),
    }
    body = {"replica_id": -1, "topics": [{"topic": topic, "partitions": [wanted]}]}
    yield from ask(leader.node, "OffsetForLeaderEpoch", EPOCH_ENDS, body)


def _hand_over(client: LogClient) -> Steps:
    """Let other replicas of a partition lead, one after another."""
    keys = client.assigned or [0]
    key = keys[client.draw(len(keys), "handed-over")]
    if client.draw(3, "hand-over-trimmed") == 0:
        key = -1 - client.draw(PARTITIONS, "handed-over")
    name, partition = place_of(key)
    for _ in range(1 + client.draw(3, "hand-overs")):
        answer = yield from metadata(client, [name])
        if answer.status != "ok" or answer.response["topics"][0]["error_code"] != errors.NONE:
            return
        leader = answer.response["topics"][0]["partitions"][partition]["leader_id"]
        others = sorted(each["node_id"] for each in answer.response["brokers"])
        others = [each for each in others if each != leader]
        if leader < 0 or not others:
            return
        first = client.draw(len(others), "next-leader")
        replicas = [*others[first:], *others[:first], leader]
        if len(replicas) > 2 and client.draw(4, "fewer") == 0:
            replicas.pop(1)
        part = {"partition_index": partition, "replicas": replicas}
        body: dict[str, Any] = {
            "timeout_ms": DELETE_MS,
            "allow_replication_factor_change": True,
            "topics": [{"name": name, "partitions": [part]}],
        }
        yield from ask(client.broker(), "AlterPartitionReassignments", REASSIGN, body)
        chosen = [{"topic": name, "partitions": [partition]}]
        body = {"election_type": 0, "topic_partitions": chosen, "timeout_ms": DELETE_MS}
        yield from ask(client.broker(), "ElectLeaders", ELECT_LEADERS, body)
        client.forget(key)


def _configure(client: LogClient) -> Steps:
    """Limit batches to another size: for all brokers, or for one, whose value has priority.

    No batch is that large.
    """
    answer = yield from metadata(client)
    if answer.status != "ok":
        return
    brokers = ["", *sorted(str(each["node_id"]) for each in answer.response["brokers"])]
    removes = client.draw(4, "unlimited") == 0
    config = {
        "name": "message.max.bytes",
        "config_operation": 1 if removes else 0,
        "value": None if removes else _LIMITS[client.draw(len(_LIMITS), "limit")],
    }
    which = client.draw(len(brokers), "of-which") if client.draw(2, "of-one") else 0
    resource = {"resource_type": BROKER, "resource_name": brokers[which], "configs": [config]}
    body = {"resources": [resource], "validate_only": False}
    yield from ask(client.broker(), "IncrementalAlterConfigs", ALTER_CONFIGS, body)


def _trim(client: LogClient) -> Steps:
    """Append to a topic of negative keys, delete some of its records, and read what is left."""
    key = -1 - client.draw(PARTITIONS, "trimmed")
    for _ in range(1 + client.draw(MOST_BATCHES, "batches")):
        yield from _append(client, key)
    if (yield from find_leader(client, key)) is None:
        return
    end = yield from offset_at(client, key, LATEST)
    if end and client.draw(3, "delete") == 0:
        yield from _delete(client, key, client.draw(end + 1, "delete-to") or COMMITTED)
    yield from _read(client, key)
    if client.draw(12, "delete-topic") == 0:
        topics = [{"name": place_of(key)[0], "topic_id": bytes(16)}]
        body = {"topics": topics, "timeout_ms": DELETE_MS}
        yield from ask(client.broker(), "DeleteTopics", DELETE_TOPICS, body)
        client.forget(key)


def _append(client: LogClient, key: int) -> Steps:
    leader = yield from find_leader(client, key)
    if leader is None or leader.node is None:
        return
    value = (client.state.calls << 16) + client.state.thread * 8
    values = range(value, value + 1 + client.draw(3, "values"))
    acks = _ACKS[client.draw(len(_ACKS), "acks")]
    numbered = None
    if client.producer is not None and client.draw(2, "numbered"):
        numbered = client.numbers(key)
    answer = yield produce_call(leader.node, key, batch_of(values, numbered), acks)
    done = answer.status == "ok"
    if done and acks:
        done = not _code(answer, "responses", "partition_responses")
    if not done:
        client.forget(key)
    if numbered is not None and done:
        client.used(key, len(values))
    elif numbered is not None:
        client.next_epoch()  # The batch may be there, or one before it may be lost.


def _delete(client: LogClient, key: int, offset: int) -> Steps:
    leader = yield from find_leader(client, key)
    if leader is None or leader.node is None:
        return
    topic, partition = place_of(key)
    wanted = {"partition_index": partition, "offset": offset}
    body = {"topics": [{"name": topic, "partitions": [wanted]}], "timeout_ms": DELETE_MS}
    answer = yield from ask(leader.node, "DeleteRecords", DELETE_RECORDS, body)
    if answer.status != "ok" or _code(answer, "topics", "partitions"):
        client.forget(key)


def _read(client: LogClient, key: int) -> Steps:
    """Read from the log start on, or from where this client stopped, which may be deleted."""
    if key not in client.positions:
        start = yield from offset_at(client, key, EARLIEST)
        if start is None:
            return
        client.positions[key] = Position(start)
    assigned, client.assigned = client.assigned, [key]
    yield from poll(client, LARGEST)
    client.assigned = assigned
    if client.draw(3, "begin-again") == 0:
        client.positions.pop(key, None)


def _code(answer: Answer, topics: str, partitions: str) -> int:
    body: dict[str, Any] = answer.response
    code: int = body[topics][0][partitions][0]["error_code"]
    return code if code != errors.OFFSET_OUT_OF_RANGE else errors.NONE
