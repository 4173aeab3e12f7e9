"""The requests that probes send (:mod:`systems.kraft.workloads.probes`), by kind.

Each function makes one from a topic's name, a draw, the client's memory and a timeout. It returns
None if there is no suitable target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kraftwreck.nodes.draw import draw_below
from kraftwreck.systems.kraft.requests import ClientState
from kraftwreck.systems.kraft.workloads import probe_members
from kraftwreck.systems.kraft.workloads.controller import METADATA_VERSION, TOPIC, metadata_request

PREFIX: Final = "ask"
"""The prefix of the names of probes' topics."""

BROKER: Final = 4
REMEMBERED: Final = 12
"""Topics and partitions that a client remembers, of each kind."""

_BETWEEN: Final = (".", "_", "-", "0")
"""Characters in which the names of two topics may differ."""

Body = dict[str, Any]
Choose = Callable[..., int]
"""``choose(bound, *key)`` draws a number below ``bound``."""
Request = tuple[str, int, Body]
"""API, version, body."""

_SETTINGS: Final = (
    ("retention.ms", ("-1", "0", "604800000", "-2", "soon", None)),
    ("retention.bytes", ("-1", "1000", "-2")),
    ("min.insync.replicas", ("1", "2", "0", "3")),
    ("max.message.bytes", ("0", "2147483647", "2147483648", "-1", "1048588")),
    ("cleanup.policy", ("compact", "delete", "compact,delete", "delete,delete", "rot", "")),
    ("compression.type", ("lz4", "gzip", "middle-out")),
    ("preallocate", ("true", "false", "perhaps")),
    ("min.cleanable.dirty.ratio", ("0", "1", "0.25", "1.5")),
    ("segment.bytes", ("1048576", "1073741824", "1048575")),
    ("leader.replication.throttled.replicas", ("*", "0:1,1:2", "all")),
    ("flush.messages", ("1", "5", "0")),
    ("commit.mode", ("quorum", "isr", "majority", None)),
    ("no.such.setting", ("1",)),
)
_OF_BROKERS: Final = (
    ("message.max.bytes", ("1000000", "0", "-1")),
    ("log.retention.bytes", ("-1", "5000", "-2")),
    ("background.threads", ("4", "1", "0")),
    ("compression.type", ("gzip", "zstd", "middle-out")),
    ("log.cleaner.min.cleanable.ratio", ("0.75", "1", "-1")),
    ("log.cleanup.policy", ("compact", "delete,compact", "rot")),
    ("log.flush.interval.messages", ("7", "1", "0")),
    ("log.preallocate", ("true", "false", "perhaps")),
    ("log.segment.bytes", ("1048576", "2097152", "1")),
    ("min.insync.replicas", ("1", "2", "3", "0")),
)


def _known(name: str, choose: Choose, client: ClientState, *, own: bool = False) -> str:
    """Return a topic that most probably exists, or ``name``, which does not.

    With ``own`` it is one of a probe.
    """
    known: list[str] = [*client.memory.get("asked", [])]
    if not own:
        known += client.memory.get("topics", [])[-REMEMBERED:]
    place = choose(len(known) + 1, "known")
    return known[place] if place < len(known) else name


def _brokers(client: ClientState) -> list[int]:
    """Return the brokers in the client's latest metadata."""
    return list(client.memory.get("brokers", ()))


def _settings(choose: Choose, table: Any, count: int) -> list[Body]:
    """Return some settings; two times in three they are distinct and all legal."""
    legal = choose(3, "legal") > 0
    first = choose(len(table), "setting")
    chosen = []
    for number in range(count):
        place = first + number if legal else choose(len(table), "setting", number)
        name, values = table[place % len(table)]
        if legal and name.startswith("no.such"):
            continue
        few = min(2, len(values)) if legal else len(values)
        chosen.append({"name": name, "value": values[choose(few, "value", number)]})
    return chosen


def _topic(name: str, **more: Any) -> Body:
    given = {"num_partitions": 1, "replication_factor": -1, "assignments": [], "configs": []}
    return {"name": name, **given, **more}


def _create(topics: list[Body], timeout_ms: int, *, dry: bool = False) -> Request:
    return "CreateTopics", 7, {"topics": topics, "timeout_ms": timeout_ms, "validate_only": dry}


def _create_plain(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    count = (-1, 1, 2, 5, 8)[choose(5, "count")]
    factor = (-1, 1, 2, 3)[choose(4, "factor")]
    return _create([_topic(name, num_partitions=count, replication_factor=factor)], timeout_ms)


def _create_wrong(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    wrong = ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 40), (3, 2))[choose(6, "wrong")]
    return _create([_topic(name, num_partitions=wrong[0], replication_factor=wrong[1])], timeout_ms)


def _create_configured(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    configs = _settings(choose, _SETTINGS, 1 + choose(4, "configs"))
    return _create([_topic(name, configs=configs)], timeout_ms)


def _create_named(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    """Create two topics, one of which may exist, have an invalid name, or repeat the other.

    The existing one belongs to a probe: if it was deleted meanwhile, this creates it again.
    """
    known = _known(name, choose, client, own=True)
    other = ("", ".", "..", "__cluster_metadata", name, known)
    topics = [_topic(name), _topic(other[choose(len(other), "other")])]
    return _create(topics[:: 1 - 2 * choose(2, "order")], timeout_ms)


def _create_alike(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    """Create two topics whose names differ in one character; '.' and '_' count as equal.

    Often a topic of a probe differs from them in the same place. Sometimes the first one is refused
    for another reason, and then the second one collides with none.
    """
    head, _, tail = _known(name, choose, client, own=True).rpartition("-")
    if not head or choose(2, "new") == 0:
        head, tail = name, "x"
    first = choose(len(_BETWEEN), "first")
    second = (first + 1 + choose(len(_BETWEEN) - 1, "second")) % len(_BETWEEN)
    wrong = choose(4, "wrong") == 0
    return _create(
        [
            _topic(f"{head}{_BETWEEN[first]}{tail}", num_partitions=0 if wrong else 1),
            _topic(f"{head}{_BETWEEN[second]}{tail}"),
        ],
        timeout_ms,
    )


def _create_manual(
    name: str, choose: Choose, client: ClientState, timeout_ms: int
) -> Request | None:
    known = _brokers(client)
    if len(known) < 2:
        return None
    first = choose(len(known), "first")
    a, b = known[first], known[(first + 1) % len(known)]
    lists, numbers, more = [[a, b], [b, a]], [0, 1], {}
    match choose(8, "manual"):
        case 0:
            lists[1] = [a, a]
        case 1:
            lists[1] = [a, 77]
        case 2:
            numbers = [0, 2]
        case 3:
            lists[1] = [a]
        case 4:
            lists[0] = []
        case 5:
            more = {"replication_factor": 2}
    given = [
        {"partition_index": n, "broker_ids": each} for n, each in zip(numbers, lists, strict=True)
    ]
    wanted: Body = {"num_partitions": -1, "replication_factor": -1, "assignments": given, **more}
    return _create([_topic(name, **wanted)], timeout_ms)


def _create_dry(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    return _create([_topic(name, num_partitions=2)], timeout_ms, dry=True)


def _delete(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    """Delete topics of probes only; most requests delete nothing."""
    known = _known(name, choose, client, own=True)
    no_id, wrong_id = bytes(16), bytes(range(16))
    of_known = client.memory.get("asked ids", {}).get(known, wrong_id)
    topics = [
        [{"name": known, "topic_id": no_id}],
        [{"name": known, "topic_id": no_id}, {"name": known, "topic_id": no_id}],
        [{"name": known, "topic_id": no_id}, {"name": None, "topic_id": of_known}],
        [{"name": None, "topic_id": wrong_id}],
        [{"name": None, "topic_id": no_id}],
        [{"name": known, "topic_id": wrong_id}],
        [{"name": name, "topic_id": no_id}],
    ][choose(7, "delete")]
    return "DeleteTopics", 6, {"topics": topics, "timeout_ms": timeout_ms}


def _grow(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    known, brokers = _known(name, choose, client), _brokers(client)
    count = 1 + choose(7, "count")
    moved: list[str] = client.memory.get("moved", [])
    turned = bool(moved) and choose(4, "moved") > 0
    if turned:
        # Enough for all replicas during the reassignment.
        known, count = moved[-1], 6 + choose(6, "count")
    assignments = None
    if brokers and choose(4 if turned else 2, "manual") == 1:
        assignments = [
            {"broker_ids": brokers[: 1 + choose(3, "size", i)]} for i in range(1 + choose(3, "new"))
        ]
    topics = [{"name": known, "count": count, "assignments": assignments}]
    match choose(6, "twice"):
        case 0:
            topics *= 2
        case 1 | 2:
            another = _known(name, choose, client, own=True)
            topics.append({"name": another, "count": 1 + choose(6, "more"), "assignments": None})
    dry = choose(4, "dry") == 0
    body = {"topics": topics, "timeout_ms": timeout_ms, "validate_only": dry}
    return "CreatePartitions", 3, body


def _resource(name: str, choose: Choose, client: ClientState) -> tuple[int, str, Any]:
    """Return type and name of a resource, and its possible settings."""
    match choose(8, "resource"):
        case 0:
            return BROKER, "", _OF_BROKERS
        case 1:
            return BROKER, str(1 + choose(3, "broker")), _OF_BROKERS
        case 2:
            return BROKER, ("77", "x", "01")[choose(3, "broker")], _OF_BROKERS
        case 3:
            return 5, "x", _OF_BROKERS
    return TOPIC, _known(name, choose, client), _SETTINGS


def _configure(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    kind, resource, table = _resource(name, choose, client)
    operations = (0, 0, 0, 0, 0, 0, 0, 1, 2, 9)
    configs = [
        config | {"config_operation": operations[choose(len(operations), "operation", number)]}
        for number, config in enumerate(_settings(choose, table, 1 + choose(2, "configs")))
    ]
    each = {"resource_type": kind, "resource_name": resource, "configs": configs}
    resources = [each] * (2 if choose(10, "twice") == 0 else 1)
    dry = choose(5, "dry") == 0
    return "IncrementalAlterConfigs", 1, {"resources": resources, "validate_only": dry}


def _splice(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    """Append elements to lists, or subtract them."""
    lists = {
        "cleanup.policy": ("compact", "delete", "delete,compact", "compact,delete"),
        "leader.replication.throttled.replicas": ("0:1", "1:2,0:1", "2:3", "0:1,2:3"),
    }
    setting = sorted(lists)[choose(2, "list")]
    value = lists[setting][choose(4, "elements")]
    config = {"name": setting, "config_operation": 2 + choose(2, "operation"), "value": value}
    resource = _known(name, choose, client)
    each = {"resource_type": TOPIC, "resource_name": resource, "configs": [config]}
    return "IncrementalAlterConfigs", 1, {"resources": [each], "validate_only": False}


def _replace(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    kind, resource, table = _resource(name, choose, client)
    configs = _settings(choose, table, choose(3, "configs"))
    each = {"resource_type": kind, "resource_name": resource, "configs": configs}
    return "AlterConfigs", 2, {"resources": [each], "validate_only": choose(5, "dry") == 0}


def _elect(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    partitions = sorted({0, choose(9, "partition")})
    topic = {"topic": _known(name, choose, client), "partitions": partitions}
    kind = (0, 0, 0, 0, 7)[choose(5, "type")]
    odd: list[tuple[str, int]] = client.memory.get("odd", [])
    if odd and choose(4, "odd"):
        which, number = odd[choose(len(odd), "which")]
        topic = {"topic": which, "partitions": [number]}
    wanted = None if choose(5, "all") == 0 else [topic]
    body = {"election_type": kind, "topic_partitions": wanted, "timeout_ms": timeout_ms}
    return "ElectLeaders", 2, body


def _reassign(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request | None:
    known = _brokers(client)
    if len(known) < 2:
        return None
    first = choose(len(known), "first")
    turned = known[first:] + known[:first]
    targets: tuple[list[int] | None, ...] = (
        *(turned[:size] for size in (1, 2, 2, 3, 3)),
        [*turned[:1], 77],
        turned[:1] * 2,
        [],
        None,
    )
    part = {
        "partition_index": max(0, choose(4, "partition") - 1),
        "replicas": targets[choose(len(targets), "target")],
    }
    which = _known(name, choose, client)
    client.memory["moved"] = [*client.memory.get("moved", [])[-2:], which]
    body = {
        "timeout_ms": timeout_ms,
        "allow_replication_factor_change": choose(3, "resize") > 0,
        "topics": [{"name": which, "partitions": [part]}],
    }
    return "AlterPartitionReassignments", 1, body


_BACK: Final = ((24, 2), (23, 2), (22, 2), (16, 2))
"""Levels of metadata.version to downgrade to if nothing is lost; some would lose data."""


def _features(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    elr, metadata = "eligible.leader.replicas.version", "metadata.version"
    commit = "commit.mode.version"
    every = (
        [(elr, 1, 1)],
        [(elr, 1, 1)],
        [(elr, 0, 1)],
        [(elr, 2, 1)],
        [(elr, 1, 9)],
        [("no.such.feature", 1, 1)],
        [(metadata, 7, 1)],
        [(metadata, 8, 2)],
        [(metadata, 99, 1)],
        [(metadata, 25, 1)],
        [(metadata, 24, 1)],
        [(elr, 0, 2)],
        [(elr, 1, 1), (elr, 1, 1)],
        [(elr, 1, 1), ("no.such.feature", 1, 1)],
        [(commit, 1, 1)],
        [(commit, 0, 2)],
        *([(metadata, *back)] for back in _BACK),
        # One level needs the other: both count as the request wants them, in any order.
        *([(elr, 1, 1), (metadata, level, 1)][:: choose(2, "order") * 2 - 1] for level in (25, 23)),
    )
    updates = every[choose(len(every), "updates")]
    body = {
        "timeout_ms": timeout_ms,
        "feature_updates": [
            {"feature": feature, "max_version_level": level, "upgrade_type": kind}
            for feature, level, kind in updates
        ],
        # After a downgrade, few of the new abilities could be tested.
        "validate_only": choose(2, "dry") == 0 or updates[0][1:] in _BACK,
    }
    return "UpdateFeatures", 1, body


# --- reads --------------------------------------------------------------------------------


def _metadata(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    wanted = (
        [{"name": _known(name, choose, client)}, {"name": name}],
        [{"name": None, "topic_id": bytes(range(16))}],
        [{"name": f"{PREFIX} bad"}],
        [],
        None,
    )[choose(5, "wanted")]
    return "Metadata", METADATA_VERSION, metadata_request(wanted)


def _cluster(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    body = {
        "include_cluster_authorized_operations": False,
        "endpoint_type": 1,
        "include_fenced_brokers": choose(2, "fenced") == 1,
    }
    return "DescribeCluster", 2, body


def _described(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    names = [name, _known(name, choose, client)][: choose(3, "names")]
    # As if the page before had ended there; the topic may be deleted, or not requested.
    at = (name, _known(name, choose, client), f"{PREFIX}.")[choose(3, "cursor-topic")]
    cursor: Body | None = {"topic_name": at, "partition_index": choose(4, "cursor-index")}
    topics = [{"name": each} for each in sorted(set(names))]
    if choose(3, "cursor"):
        cursor = None
    page = client.memory.get("page")
    if page is not None and choose(2, "next-page"):
        topics, cursor = page
    body = {
        "topics": topics,
        "response_partition_limit": (1, 3, 5, 2000)[choose(4, "limit")],
        "cursor": cursor,
    }
    return "DescribeTopicPartitions", 0, body


def _moves(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    topics = None
    if choose(3, "some") == 0:
        topics = [{"name": _known(name, choose, client), "partition_indexes": [0, 1]}]
    return "ListPartitionReassignments", 0, {"timeout_ms": timeout_ms, "topics": topics}


def _configs(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    kind, resource, table = _resource(name, choose, client)
    keys = None
    if choose(2, "keys"):
        keys = sorted({config["name"] for config in _settings(choose, table, 2)})
    each = {"resource_type": kind, "resource_name": resource, "configuration_keys": keys}
    body = {"resources": [each], "include_synonyms": True, "include_documentation": False}
    return "DescribeConfigs", 4, body


_LAYERS: Final = (
    ("flush.messages", "log.flush.interval.messages", ("5", "7")),
    ("preallocate", "log.preallocate", ("true", "false")),
    ("compression.type", "compression.type", ("gzip", "zstd")),
)
"""Settings of topics with their synonyms for the whole cluster, and values."""


def _layered(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    """Set one config of a topic, of a broker or of the whole cluster, or read it.

    The topic's has priority, then the broker's.
    """
    own, synonym, values = _LAYERS[draw_below(len(_LAYERS), client.seed, "layer", client.thread)]
    known = client.memory.get("asked", [])[:1] or client.memory.get("topics", [])[-1:]
    topic = str(known[0]) if known else name
    step = choose(5, "step")
    if step > 2:
        each: Body = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}
        body = {"resources": [each], "include_synonyms": True, "include_documentation": False}
        return "DescribeConfigs", 4, body
    operation = 1 if choose(4, "delete") == 0 else 0
    config = {
        "name": synonym if step == 2 else own,
        "config_operation": operation,
        "value": None if operation else values[choose(2, "value")],
    }
    layers = ["", *map(str, _brokers(client)[:1])]
    layer = layers[choose(len(layers), "layer")]
    kind, resource = (BROKER, layer) if step == 2 else (TOPIC, topic)
    each = {"resource_type": kind, "resource_name": resource, "configs": [config]}
    return "IncrementalAlterConfigs", 1, {"resources": [each], "validate_only": False}


def _versions(name: str, choose: Choose, client: ClientState, timeout_ms: int) -> Request:
    return "ApiVersions", 4, {"client_software_name": "probe", "client_software_version": "1"}


PROBES: Final[dict[str, Callable[[str, Choose, ClientState, int], Request | None]]] = {
    "create-alike": _create_alike,
    "create-configured": _create_configured,
    "create-dry": _create_dry,
    "create-manual": _create_manual,
    "create-named": _create_named,
    "create-plain": _create_plain,
    "create-wrong": _create_wrong,
    "delete": _delete,
    "grow": _grow,
    "configure": _configure,
    "splice": _splice,
    "replace": _replace,
    "elect": _elect,
    "reassign": _reassign,
    "features": _features,
    "metadata": _metadata,
    "cluster": _cluster,
    "described": _described,
    "moves": _moves,
    "configs": _configs,
    "layered": _layered,
    "voters": probe_members.voters,
    "versions": _versions,
    "stranger": probe_members.stranger,
    "newcomer": probe_members.newcomer,
    "again": probe_members.again,
}
