"""Operators' changes of existing topics: more partitions, elections, reassignments, configs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kraftwreck.harness.client import Answer, Call, Completion, Invocation
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState
from kraftwreck.systems.kraft.workloads.controller import (
    CERTAINLY_NOT_DONE,
    METADATA_VERSION,
    TOPIC,
    ask_controller,
    ask_for_write,
    change,
    error_name,
    metadata_request,
    not_answered,
    refused_by_node,
)

CREATE_PARTITIONS_VERSION: Final = 3
ELECT_LEADERS_VERSION: Final = 2
REASSIGN_VERSION: Final = 1
ALTER_CONFIGS_VERSION: Final = 1
UPDATE_FEATURES_VERSION: Final = 1

PREFERRED: Final = 0
UNCLEAN: Final = 1
UPGRADE: Final = 1
ELR_VERSION: Final = "eligible.leader.replicas.version"
MOST_PARTITIONS: Final = 6
_SET: Final = 0
_DELETE: Final = 1

Choose = Callable[..., int]
"""``choose(bound, *key)`` draws a number below ``bound``."""

Metadata = Generator[Call, Answer, tuple[Answer, str | None, dict[str, Any] | None]]


@dataclass(slots=True, frozen=True)
class Operation:
    """An operation on a topic: ``value`` draws its value, ``carry_out`` executes it."""

    value: Callable[[str, Choose], Any]
    carry_out: Callable[[Op, ClientState, int], Invocation]


def metadata_of(name: str, client: ClientState, timeout_ms: int) -> Metadata:
    """Read a topic from the active controller.

    Returns the answer, the node that gave it, and the topic's part of it. The part is None if the
    node is not the active controller.
    """
    answer, node = yield from ask_controller(
        client, "Metadata", METADATA_VERSION, metadata_request([{"name": name}]), timeout_ms
    )
    if answer.status != "ok":
        return answer, node, None
    controller = client.ids.get(answer.response["controller_id"])
    if controller != node:
        client.leader = controller
        return answer, node, None
    brokers = sorted(broker["node_id"] for broker in answer.response["brokers"])
    client.memory["brokers"] = brokers
    return answer, node, answer.response["topics"][0]


def _grow(op: Op, client: ClientState, timeout_ms: int) -> Invocation:
    """Increase the number of partitions to ``op.value``."""
    topic = {"name": op.key, "count": op.value, "assignments": None}
    body = {"topics": [topic], "timeout_ms": timeout_ms, "validate_only": False}
    version = CREATE_PARTITIONS_VERSION
    return change(op, client, "CreatePartitions", version, body, "results", timeout_ms)


def _configure(op: Op, client: ClientState, timeout_ms: int) -> Invocation:
    """Set the config ``op.value[0]`` to ``op.value[1]``, or delete it (null)."""
    name, value = op.value
    config = {"name": name, "config_operation": _DELETE if value is None else _SET, "value": value}
    resource = {"resource_type": TOPIC, "resource_name": op.key, "configs": [config]}
    body = {"resources": [resource], "validate_only": False}
    version = ALTER_CONFIGS_VERSION
    return change(op, client, "IncrementalAlterConfigs", version, body, "responses", timeout_ms)


def _elect(op: Op, client: ClientState, timeout_ms: int) -> Invocation:
    """Request elections of kind ``op.value`` (0 preferred, 1 unclean) in all partitions.

    Few partitions need an election at a time. So the request also names one partition, of any
    topic, whose preferred replica is in sync and does not lead.
    """
    wanted = [{"topic": op.key, "partitions": list(range(MOST_PARTITIONS))}]
    if op.value == PREFERRED:
        answer, node = yield from ask_controller(
            client, "Metadata", METADATA_VERSION, metadata_request(None), timeout_ms
        )
        if answer.status != "ok":
            return not_answered(answer, node, write=False)
        needed = [(name, part) for name, part in _unbalanced(answer.response) if name != op.key]
        if needed:
            client.calls += 1
            name, part = needed[
                draw_below(len(needed), client.seed, "elect", client.thread, client.calls)
            ]
            wanted.append({"topic": name, "partitions": [part]})
    body = {"election_type": op.value, "topic_partitions": wanted, "timeout_ms": timeout_ms}
    answer, node = yield from ask_for_write(
        client, "ElectLeaders", ELECT_LEADERS_VERSION, body, timeout_ms
    )
    if answer.status != "ok":
        return not_answered(answer, node, write=True)
    code = int(answer.response["error_code"])
    if code != errors.NONE:
        return refused_by_node(client, code, node, write=True)
    results = answer.response["replica_election_results"]
    codes = [int(p["error_code"]) for result in results for p in result["partition_result"]]
    return _of_parts(codes, op.value, client, node)


def _unbalanced(metadata: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield (topic, partition) where the preferred replica is in sync but does not lead."""
    for topic in metadata["topics"]:
        for part in topic["partitions"]:
            preferred = part["replica_nodes"][0]
            if part["leader_id"] != preferred and preferred in part["isr_nodes"]:
                yield topic["name"], part["partition_index"]


def _reassign(op: Op, client: ClientState, timeout_ms: int) -> Invocation:
    """Move one partition to active brokers; ``op.value`` is [partition, draw]."""
    number, key = op.value
    answer, node, topic = yield from metadata_of(op.key, client, timeout_ms)
    if answer.status != "ok":
        return not_answered(answer, node, write=False)
    alive: list[int] = list(client.memory.get("brokers", ()))
    if topic is None or len(alive) < 2:
        return Completion("fail", error="nowhere to go to", node=node)
    # Neighbours: the brokers played by one client have consecutive ids.
    first = draw_below(len(alive), key, "first")
    rotated = alive[first:] + alive[:first]
    target = rotated[: 2 + draw_below(2, key, "factor")]
    return (yield from _move(op, client, number, target, timeout_ms))


def _cancel(op: Op, client: ClientState, timeout_ms: int) -> Invocation:
    """Cancel the reassignment of the partition ``op.value``."""
    return _move(op, client, op.value, None, timeout_ms)


def _move(
    op: Op, client: ClientState, number: int, target: list[int] | None, timeout_ms: int
) -> Invocation:
    part = {"partition_index": number, "replicas": target}
    body = {
        "timeout_ms": timeout_ms,
        "allow_replication_factor_change": True,
        "topics": [{"name": op.key, "partitions": [part]}],
    }
    answer, node = yield from ask_for_write(
        client, "AlterPartitionReassignments", REASSIGN_VERSION, body, timeout_ms
    )
    value = {"partition": number, "replicas": target}
    if answer.status != "ok":
        ended = not_answered(answer, node, write=True)
        ended.value = value
        return ended
    code = int(answer.response["error_code"])
    if code != errors.NONE:
        return refused_by_node(client, code, node, write=True)
    responses = answer.response["responses"]
    codes = [int(p["error_code"]) for each in responses for p in each["partitions"]]
    return _of_parts(codes, value, client, node)


def _features(op: Op, client: ClientState, timeout_ms: int) -> Invocation:
    """Switch eligible leader replicas on (KIP-966)."""
    update = {"feature": ELR_VERSION, "max_version_level": 1, "upgrade_type": UPGRADE}
    body = {"timeout_ms": timeout_ms, "feature_updates": [update], "validate_only": False}
    answer, node = yield from ask_for_write(
        client, "UpdateFeatures", UPDATE_FEATURES_VERSION, body, timeout_ms
    )
    if answer.status != "ok":
        return not_answered(answer, node, write=True)
    code = int(answer.response["error_code"])
    if code != errors.NONE:
        return refused_by_node(client, code, node, write=True)
    return Completion("ok", {ELR_VERSION: 1}, node=node)


def _of_parts(
    codes: Iterable[int], value: Any, client: ClientState, node: str | None
) -> Completion:
    """Return the outcome for several parts: ok if any succeeded, fail if certainly none did."""
    told = list(codes)
    if errors.NONE in told:
        return Completion("ok", value, node=node)
    unsure = [code for code in told if code not in CERTAINLY_NOT_DONE]
    if unsure or not told:
        error = error_name(unsure[0]) if unsure else "an empty answer"
        return Completion("info", value, error=error, node=node)
    return refused_by_node(client, told[0], node, write=True)


def _config_value(name: str, choose: Choose) -> list[str | None]:
    if name.startswith("loose") and choose(2, "unclean"):
        value = ("true", "false")[choose(2, "on")]
        return ["unclean.leader.election.enable", (value, value, value.upper())[choose(3, "case")]]
    return ["min.insync.replicas", ("1", "2", "2", "3", None)[choose(5, "least")]]


OPERATIONS: Final = {
    "grow": Operation(lambda _, choose: 2 + choose(MOST_PARTITIONS - 1, "count"), _grow),
    "configure": Operation(_config_value, _configure),
    "elect": Operation(
        lambda name, choose: (
            UNCLEAN if name.startswith("loose") and choose(2, "unclean") else PREFERRED
        ),
        _elect,
    ),
    "reassign": Operation(
        lambda _, choose: [choose(3, "partition"), choose(1 << 30, "target")], _reassign
    ),
    "cancel": Operation(lambda _, choose: choose(3, "partition"), _cancel),
    "features": Operation(lambda _, choose: None, _features),
}
