"""Compare an answer to a read with one committed state, by API.

Each function returns how an answer differs from the given state of the metadata, and None if it
shows exactly that state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kraftwreck.checkers.kraft.controller_model.config_values import RULES
from kraftwreck.checkers.kraft.controller_model.metadata_model import (
    BROKER,
    TOPIC,
    Broker,
    Partition,
)
from kraftwreck.checkers.kraft.controller_model.refusals import LOST, NO_ID, is_legal_name, resource
from kraftwreck.checkers.kraft.controller_model.state import State
from kraftwreck.nodes.protocol import errors

Body = dict[str, Any]
Fault = str | None
Shown = tuple[str, int, str | None]
"""Host, port and rack of a broker."""

_NAMED = 3
"""Differences in an explanation."""
OWN, OF_BROKER, OF_CLUSTER, DEFAULT = 1, 2, 3, 5
"""Sources of configurations."""
CONTROLLER = "CONTROLLER"
"""The listener of controllers; every other listener belongs to brokers."""


def _endpoint(broker: Broker, listener: str | None) -> tuple[str, int] | None:
    for name, host, port, _ in broker.endpoints:
        if listener is None or name == listener:
            return host, port
    return None


def _shown(state: State, listener: str | None, fenced: bool) -> dict[int, Shown]:
    wanted = {}
    for broker_id, broker in state.brokers().items():
        at = _endpoint(broker, listener)
        if at is not None and (fenced or not broker.fenced):
            wanted[broker_id] = (*at, broker.rack)
    return wanted


def _brokers(
    state: State, listed: Iterable[Body], id_name: str, listener: str | None, fenced: bool
) -> Fault:
    what = "shown brokers", listener, fenced
    wanted = state.as_before(
        what, state.changes_of_brokers(), lambda: _shown(state, listener, fenced)
    )
    told = {each[id_name]: (each["host"], each["port"], each["rack"]) for each in listed}
    return None if told == wanted else f"broker {_differences(told, wanted)}"


def _differences(told: Mapping[Any, Any], right: Mapping[Any, Any]) -> str:
    """Return the first entries in which two tables differ, in words."""
    differ = sorted(key for key in told.keys() | right.keys() if told.get(key) != right.get(key))
    named = [f"{key}: {told.get(key)}, it is {right.get(key)}" for key in differ[:_NAMED]]
    return "; ".join(named) + (f"; and {len(differ) - _NAMED} more" if differ[_NAMED:] else "")


def _partition(
    state: State, told: Body, partition: Partition, listener: str | None, alive: Collection[int]
) -> Fault:
    leader, error, offline = partition.leader, errors.NONE, told["offline_replicas"]
    if listener is not None:
        directories = partition.directories or (NO_ID,) * len(partition.replicas)
        lost = [
            replica
            for replica, directory in zip(partition.replicas, directories, strict=False)
            if replica not in alive or directory == LOST
        ]
        if list(offline) != lost:
            return f"offline replicas {offline}, there are {lost}"
        if state.broker(leader) is None:
            leader, error = -1, errors.LEADER_NOT_AVAILABLE
    is_ = (error, leader, partition.leader_epoch, list(partition.replicas), list(partition.isr))
    says = (
        told["error_code"],
        told["leader_id"],
        told["leader_epoch"],
        list(told["replica_nodes"]),
        list(told["isr_nodes"]),
    )
    if says != is_:
        return f"{says}, it is {is_}"
    if "eligible_leader_replicas" in told:
        elr = (list(told["eligible_leader_replicas"] or ()), list(told["last_known_elr"] or ()))
        if elr != (list(partition.elr), list(partition.last_known_elr)):
            return f"eligible leaders {elr}, they are {partition.elr}"
    return None


def _alive(state: State, listener: str | None) -> set[int]:
    return state.as_before(
        ("alive", listener), state.changes_of_brokers(), lambda: _find_alive(state, listener)
    )


def _find_alive(state: State, listener: str | None) -> set[int]:
    return {
        broker_id
        for broker_id, broker in state.brokers().items()
        if not broker.fenced and _endpoint(broker, listener) is not None
    }


def _topic(state: State, told: Body, listener: str | None, alive: Collection[int]) -> Fault:
    topic_id = state.topic(told["name"])
    if bytes(told["topic_id"]) != topic_id:
        return f"topic {told['name']} has id {told['topic_id'].hex()}, it is {topic_id!r}"
    assert topic_id is not None
    what = "topic", listener, topic_id
    changes = state.changes_of(topic_id), listener and state.changes_of_brokers()
    if state.was_right(what, changes, told):
        return None
    partitions = state.partitions(topic_id)
    numbers = [part["partition_index"] for part in told["partitions"]]
    if numbers != list(range(len(partitions))):
        return f"topic {told['name']} has partitions {numbers}, there are {len(partitions)}"
    for part, partition in zip(told["partitions"], partitions, strict=True):
        wrong = _partition(state, part, partition, listener, alive)
        if wrong is not None:
            return f"{told['name']}-{part['partition_index']} is {wrong}"
    state.is_right(what, changes, told)
    return None


def _missing(state: State, name: str | None, topic_id: bytes, told: int) -> Fault:
    """Check the error code of a topic that is not described, named by name or by id."""
    if name is None:
        right = errors.UNKNOWN_TOPIC_ID if state.name(topic_id) is None else errors.NONE
    elif state.topic(name) is not None:
        right = errors.NONE
    else:
        right = (
            errors.UNKNOWN_TOPIC_OR_PARTITION
            if is_legal_name(name)
            else errors.INVALID_TOPIC_EXCEPTION
        )
    return None if told == right else f"topic {name or topic_id.hex()}: {told}, expected {right}"


def metadata(state: State, request: Body, answer: Body, listener: str | None) -> Fault:
    """Metadata from version 12 on; ``listener`` None for the answer of a controller."""
    if not state.brokers():
        alive: set[int] = set()
    else:
        alive = _alive(state, listener)
        wrong = _brokers(state, answer["brokers"], "node_id", listener, False)
        if wrong is not None:
            return wrong
    asked = request["topics"]
    if asked is not None:
        # A topic that is named twice is answered once.
        keys = [
            (t["name"], None if t["name"] is not None else bytes(t.get("topic_id") or NO_ID))
            for t in asked
        ]
        asked = [topic for place, topic in enumerate(asked) if keys[place] not in keys[:place]]
    if asked is None:
        names = [topic["name"] for topic in answer["topics"]]
        if sorted(names) != state.topics():
            told, right = dict.fromkeys(names, "listed"), dict.fromkeys(state.topics(), "listed")
            return f"topic {_differences(told, right)}"
    elif len(asked) != len(answer["topics"]):
        return f"{len(answer['topics'])} topics, {len(asked)} were requested"
    for place, topic in enumerate(answer["topics"]):
        if asked is not None:
            name = asked[place]["name"]
            topic_id = bytes(asked[place].get("topic_id") or NO_ID)
            if name is not None and topic["name"] != name:
                return f"topic {topic['name']} where {name} was requested"
            if name is None and bytes(topic["topic_id"]) != topic_id:
                return f"topic id {topic['topic_id'].hex()} where {topic_id.hex()} was requested"
            if topic["error_code"] != errors.NONE:
                wrong = _missing(state, name, topic_id, topic["error_code"])
                if wrong is not None:
                    return wrong
                continue
        wrong = _topic(state, topic, listener, alive)
        if wrong is not None:
            return wrong
    return None


def describe_cluster(state: State, request: Body, answer: Body, listener: str | None) -> Fault:
    """DescribeCluster of brokers."""
    if answer["error_code"] != errors.NONE or request["endpoint_type"] != 1 or not state.brokers():
        return None
    fenced = request["include_fenced_brokers"]
    wrong = _brokers(state, answer["brokers"], "broker_id", listener, fenced)
    if wrong is not None:
        return wrong
    for each in answer["brokers"]:
        broker = state.broker(each["broker_id"])
        if broker is not None and each["is_fenced"] != broker.fenced:
            return f"broker {each['broker_id']} fenced {each['is_fenced']}, it is {broker.fenced}"
    return None


def describe_partitions(state: State, request: Body, answer: Body, listener: str | None) -> Fault:
    """DescribeTopicPartitions (KIP-966): topics in order, starting at the cursor."""
    cursor, first = request["cursor"], 0
    asked = sorted({topic["name"] for topic in request["topics"]})
    if cursor is not None and asked and cursor["topic_name"] not in asked:
        codes = {topic["name"]: topic["error_code"] for topic in answer["topics"]}
        right = dict.fromkeys(asked, errors.INVALID_REQUEST)
        return None if codes == right else f"a cursor at a topic not requested leads to {codes}"
    alive = _alive(state, listener)
    names = asked or state.topics()
    if cursor is not None:
        names = [name for name in names if name >= cursor["topic_name"]]
        # A deleted topic has no page to continue: the next topic begins with its first partition.
        first = cursor["partition_index"] if cursor["topic_name"] in names[:1] else 0
    left = min(max(request["response_partition_limit"], 1), 2000)
    told = {topic["name"]: topic for topic in answer["topics"]}
    following = None
    for name in names:
        if left == 0:
            following = (name, 0)
            break
        topic = told.pop(name, None)
        if topic is None:
            return f"topic {name} is missing"
        begin, first = first, 0
        topic_id = state.topic(name)
        if topic_id is None or topic["error_code"] != errors.NONE:
            wrong = _missing(state, name, NO_ID, topic["error_code"])
            if wrong is not None:
                return wrong
            continue
        partitions = state.partitions(topic_id)
        shown = partitions[begin : begin + left]
        numbers = [part["partition_index"] for part in topic["partitions"]]
        reached = begin + len(shown)
        if bytes(topic["topic_id"]) != topic_id or numbers != list(range(begin, reached)):
            return f"topic {name}: partitions {numbers}, expected {begin} to {reached - 1}"
        for part, partition in zip(topic["partitions"], shown, strict=True):
            wrong = _partition(state, part, partition, listener, alive)
            if wrong is not None:
                return f"{name}-{part['partition_index']} is {wrong}"
        left -= len(shown)
        if reached < len(partitions):
            following = (name, reached)
            break
    if told:
        return f"topics {sorted(told)}, which were not requested"
    after = answer["next_cursor"]
    says = None if after is None else (after["topic_name"], after["partition_index"])
    return None if says == following else f"the next cursor is {says}, expected {following}"


def list_reassignments(state: State, request: Body, answer: Body, listener: str | None) -> Fault:
    """ListPartitionReassignments."""
    wanted: list[tuple[str, list[int] | None]]
    if request["topics"] is None:
        wanted = [(name, None) for name in state.topics()]
    else:
        wanted = [(topic["name"], topic["partition_indexes"]) for topic in request["topics"]]
    right = {}
    for name, numbers in wanted:
        topic_id = state.topic(name)
        for number, p in enumerate(state.partitions(topic_id)) if topic_id else ():
            if (p.adding or p.removing) and (numbers is None or number in numbers):
                right[name, number] = (p.replicas, sorted(p.adding), sorted(p.removing))
    told = {
        (topic["name"], part["partition_index"]): (
            tuple(part["replicas"]),
            sorted(part["adding_replicas"]),
            sorted(part["removing_replicas"]),
        )
        for topic in answer["topics"]
        for part in topic["partitions"]
    }
    return None if told == right else f"reassignment {_differences(told, right)}"


def describe_configs(state: State, request: Body, answer: Body, nodes: Collection[int]) -> Fault:
    """DescribeConfigs; ``nodes`` are the ids of nodes that need no registration."""
    for asked, told in zip(request["resources"], answer["results"], strict=False):
        kind, name = asked["resource_type"], asked["resource_name"]
        right = sorted(resource(state, kind, name, sorted(nodes)).codes)
        if told["error_code"] not in right:
            return f"{name!r}: error {told['error_code']}, expected {right}"
        if told["error_code"] == errors.NONE:
            wrong = _configs(state, kind, name, asked["configuration_keys"] or (), told["configs"])
            if wrong is not None:
                return f"{name!r}: {wrong}"
    return None


def _configs(state: State, kind: int, name: str, keys: Collection[str], told: list[Body]) -> Fault:
    own = state.configs(kind, name)
    shown = {config["name"]: config for config in told}
    missing = [key for key in own if key not in shown and (not keys or key in keys)]
    if missing:
        return f"{missing} are set, and missing in the answer"
    if kind == TOPIC or name:
        missing = [key for key in keys if key in RULES[kind] and key not in shown]
        if missing:
            return f"{missing} were requested, and are missing in the answer"
    for key, config in shown.items():
        if keys and key not in keys:
            return f"{key} was not requested"
        says = (config["value"], config["config_source"])
        rule = RULES[kind].get(key)
        synonym = key if kind == BROKER else rule.synonym if rule is not None else None
        of_cluster = None if synonym is None else state.config(BROKER, "", synonym)
        if key in own:
            source = OWN if kind == TOPIC else OF_BROKER if name else OF_CLUSTER
            right: tuple[str | None, int] = (own[key], source)
        elif rule is None:
            continue
        elif of_cluster is not None:
            right = (of_cluster, OF_CLUSTER)
        else:
            right = (rule.default, DEFAULT)
        if says != right:
            return f"{key} is {says}, expected {right}"
    return None


def api_versions(state: State, request: Body, answer: Body, listener: str | None) -> Fault:
    """ApiVersions: the finalized features."""
    told = {
        each["name"]: (each["min_version_level"], each["max_version_level"])
        for each in answer["finalized_features"]
        if each["name"] != "kraft.version"
    }
    right = {name: (level, level) for name, level in state.levels().items()}
    return None if told == right else f"finalized feature {_differences(told, right)}"


LOCAL: dict[str, Callable[[State, Body, Body, str | None], Fault]] = {
    "ApiVersions": api_versions,
    "DescribeCluster": describe_cluster,
    "DescribeTopicPartitions": describe_partitions,
    "Metadata": metadata,
}
"""Reads that every node answers from the metadata it has applied."""
