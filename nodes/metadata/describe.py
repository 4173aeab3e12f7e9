"""The reading APIs: ApiVersions, Metadata, DescribeCluster, DescribeConfigs, DescribeQuorum."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.metadata.alter_configs import check_resource
from kraftwreck.nodes.metadata.effective import Effective, configs_of
from kraftwreck.nodes.metadata.failure import UNSUPPORTED_ENDPOINT_TYPE, ApiError
from kraftwreck.nodes.metadata.features import KRAFT_VERSION, SUPPORTED_FEATURES
from kraftwreck.nodes.metadata.image import ImageView, Topic
from kraftwreck.nodes.metadata.operation import NO_ID, Body
from kraftwreck.nodes.metadata.quorum import Quorum, ReplicaProgress
from kraftwreck.nodes.metadata.topics import METADATA_TOPIC, check_topic_name
from kraftwreck.nodes.protocol.errors import (
    INVALID_REQUEST,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

LISTENER: Final = "CONTROLLER"
FIRST_WITH_ID_ONLY: Final = 12
"""First Metadata version in which a topic may be named by its id alone."""
ENDPOINT_BROKERS: Final = 1
ENDPOINT_CONTROLLERS: Final = 2


def api_versions(
    image: ImageView, version: int, ranges: Sequence[tuple[int, int, int]], kraft_version: int
) -> Body:
    """Answer ApiVersions; ``ranges`` are (api key, minimum, maximum version) served.

    Supported features whose minimum is 0 are hidden below version 4, whose clients refuse
    them (KAFKA-17492). The level of ``kraft.version`` is not in the image.
    """
    levels = dict(image.features)
    if kraft_version > 0:
        levels[KRAFT_VERSION] = kraft_version
    return {
        "error_code": NONE,
        "api_keys": [
            {"api_key": key, "min_version": low, "max_version": high} for key, low, high in ranges
        ],
        "throttle_time_ms": 0,
        "supported_features": [
            {"name": name, "min_version": low, "max_version": high}
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            if low > 0 or version >= 4
        ],
        "finalized_features_epoch": image.last_offset,
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in sorted(levels.items())
        ],
    }


def _controllers(voters: Mapping[int, Endpoint]) -> list[Body]:
    return [
        {"node_id": node, "host": endpoint.host, "port": endpoint.port, "rack": None}
        for node, endpoint in sorted(voters.items())
    ]


def _brokers(image: ImageView, voters: Mapping[int, Endpoint], fenced: bool = False) -> list[Body]:
    """Return the registered brokers, or the voters in their place while there are none.

    Fenced brokers are included only if ``fenced``.
    """
    if not image.brokers:
        return _controllers(voters)
    return [
        {
            "node_id": broker.broker_id,
            "host": broker.endpoints[0][1],
            "port": broker.endpoints[0][2],
            "rack": broker.rack,
        }
        for _, broker in sorted(image.brokers.items())
        if (fenced or not broker.fenced) and broker.endpoints
    ]


def _topic(image: ImageView, topic: Topic) -> Body:
    numbers = range(topic.partitions)
    partitions = [image.partitions[topic.topic_id, number] for number in numbers]
    return {
        "error_code": NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": False,
        "partitions": [
            {
                "error_code": NONE,
                "partition_index": number,
                "leader_id": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replica_nodes": list(partition.replicas),
                "isr_nodes": list(partition.isr),
                "offline_replicas": [],
            }
            for number, partition in enumerate(partitions)
        ],
    }


def _wanted_topic(image: ImageView, name: str | None, topic_id: bytes) -> Body:
    """Return one requested topic; ``name`` has priority if both are given."""
    failed: Body = {"name": name, "topic_id": topic_id, "is_internal": False, "partitions": []}
    if name is None:
        if topic_id in image.names:
            return _topic(image, image.topics[image.names[topic_id]])
        return failed | {"error_code": UNKNOWN_TOPIC_ID}
    if name in image.topics:
        return _topic(image, image.topics[name])
    try:
        check_topic_name(name)
    except ApiError as error:
        return failed | {"error_code": error.code}
    return failed | {"error_code": UNKNOWN_TOPIC_OR_PARTITION}


def wanted_topics(version: int, topics: Sequence[Body]) -> Iterator[tuple[str | None, bytes]]:
    """Yield name and id of each topic that a Metadata request names, once, as Apache Kafka does.

    The name has priority if both are given.
    """
    seen: set[str | bytes] = set()
    for wanted in topics:
        name, topic_id = wanted["name"], bytes(wanted.get("topic_id") or NO_ID)
        if name is None and version < FIRST_WITH_ID_ONLY:
            name = ""  # these versions have no ids: refused as an invalid name
        key = topic_id if name is None else name
        if key not in seen:
            seen.add(key)
            yield name, topic_id


def wants_all_topics(version: int, body: Body) -> bool:
    """Return whether a Metadata request means every topic (null; in version 0: none named)."""
    return body["topics"] is None or (version == 0 and not body["topics"])


def metadata(
    image: ImageView,
    quorum: Quorum,
    controller_id: int,
    version: int,
    body: Body,
    error: int = NONE,
) -> Body:
    """Answer Metadata from ``image``. A request never creates topics.

    ``error`` is the top-level code, which versions below 13 cannot carry.
    """
    if error != NONE:
        topics: list[Body] = []
    elif wants_all_topics(version, body):
        topics = [_topic(image, topic) for _, topic in sorted(image.topics.items())]
    else:
        topics = []
        for name, topic_id in wanted_topics(version, body["topics"]):
            topics.append(_wanted_topic(image, name, topic_id))
    return {
        "throttle_time_ms": 0,
        "brokers": _brokers(image, quorum.voters),
        "cluster_id": quorum.cluster_id,
        "controller_id": controller_id,
        "topics": topics,
        "error_code": error,
    }


def describe_cluster(image: ImageView, quorum: Quorum, controller_id: int, body: Body) -> Body:
    """Answer DescribeCluster: brokers (endpoint type 1) or controllers (2)."""
    kind = body.get("endpoint_type", ENDPOINT_BROKERS)
    answer: Body = {
        "throttle_time_ms": 0,
        "error_code": NONE,
        "error_message": None,
        "endpoint_type": kind,
        "cluster_id": quorum.cluster_id,
        "controller_id": controller_id,
        "brokers": [],
    }
    if kind == ENDPOINT_BROKERS:
        nodes = _brokers(image, quorum.voters, body.get("include_fenced_brokers", False))
    elif kind == ENDPOINT_CONTROLLERS:
        nodes = _controllers(quorum.voters)
    else:
        return answer | {
            "error_code": UNSUPPORTED_ENDPOINT_TYPE,
            "error_message": f"Unsupported endpoint type {kind}.",
        }
    answer["brokers"] = [
        {
            "broker_id": node["node_id"],
            "host": node["host"],
            "port": node["port"],
            "rack": node["rack"],
            "is_fenced": kind == ENDPOINT_BROKERS
            and node["node_id"] in image.brokers
            and image.brokers[node["node_id"]].fenced,
        }
        for node in nodes
    ]
    return answer


def _config(effective: Effective, synonyms: bool) -> Body:
    return {
        "name": effective.key.name,
        "value": effective.value,
        "read_only": False,
        "config_source": effective.source,
        "is_sensitive": False,
        "synonyms": [
            {"name": name, "value": value, "source": source}
            for name, value, source in effective.synonyms
        ]
        if synonyms
        else [],
        "config_type": int(effective.key.type),
        "documentation": None,
    }


def describe_configs(image: ImageView, voters: Collection[int], body: Body) -> Body:
    """Answer DescribeConfigs; null or empty keys mean all configurations."""
    results: list[Body] = []
    for resource in body["resources"]:
        kind, name = resource["resource_type"], resource["resource_name"]
        keys: Collection[str] = resource["configuration_keys"] or ()
        result: Body = {
            "error_code": NONE,
            "error_message": None,
            "resource_type": kind,
            "resource_name": name,
            "configs": [],
        }
        try:
            check_resource(image, voters, kind, name)
            result["configs"] = [
                _config(effective, body["include_synonyms"])
                for effective in configs_of(image, kind, name)
                if not keys or effective.key.name in keys
            ]
        except ApiError as error:
            result |= {"error_code": error.code, "error_message": error.message}
        results.append(result)
    return {"throttle_time_ms": 0, "results": results}


def _replica(progress: ReplicaProgress) -> Body:
    return {
        "replica_id": progress.replica_id,
        "replica_directory_id": progress.directory,
        "log_end_offset": progress.log_end_offset,
        "last_fetch_timestamp": progress.last_fetch_timestamp,
        "last_caught_up_timestamp": progress.last_caught_up_timestamp,
    }


def describe_quorum(quorum: Quorum, body: Body, now: int) -> Body:
    """Answer DescribeQuorum; a node that is not the leader only names the leader it knows."""
    wanted = [
        (topic["topic_name"], partition["partition_index"])
        for topic in body["topics"]
        for partition in topic["partitions"]
    ]
    if not wanted:
        return {"error_code": INVALID_REQUEST, "error_message": "No partition is named."}
    if wanted != [(METADATA_TOPIC, 0)]:
        return _quorum_error(body, UNKNOWN_TOPIC_OR_PARTITION, -1, 0)
    if not quorum.is_leader:
        # A resigned leader may still be the last leader known: it must not claim to lead.
        leader = -1 if quorum.leader_id == quorum.node_id else quorum.leader_id
        return _quorum_error(body, NOT_LEADER_OR_FOLLOWER, leader, quorum.epoch)
    description = quorum.describe(now)
    partition = {
        "partition_index": 0,
        "error_code": NONE,
        "error_message": None,
        "leader_id": description.leader_id,
        "leader_epoch": description.epoch,
        "high_watermark": description.high_watermark,
        "current_voters": [_replica(voter) for voter in description.voters],
        "observers": [_replica(observer) for observer in description.observers],
    }
    return {
        "error_code": NONE,
        "error_message": None,
        "topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}],
        "nodes": [
            {
                "node_id": node,
                "listeners": [{"name": LISTENER, "host": endpoint.host, "port": endpoint.port}],
            }
            for node, endpoint in sorted(quorum.voters.items())
        ],
    }


def _quorum_error(body: Body, code: int, leader: int, epoch: int) -> Body:
    return {
        "error_code": NONE,
        "error_message": None,
        "topics": [
            {
                "topic_name": topic["topic_name"],
                "partitions": [
                    {
                        "partition_index": partition["partition_index"],
                        "error_code": code,
                        "error_message": None,
                        "leader_id": leader,
                        "leader_epoch": epoch,
                        "high_watermark": -1,
                        "current_voters": [],
                        "observers": [],
                    }
                    for partition in topic["partitions"]
                ],
            }
            for topic in body["topics"]
        ],
    }
