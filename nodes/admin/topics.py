"""Create a topic, or find that it is there as it should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraftwreck.nodes.admin.balance import Say
from kraftwreck.nodes.admin.client import PASSING, Body, refused
from kraftwreck.nodes.admin.cluster import Cluster
from kraftwreck.nodes.admin.failure import AdminError
from kraftwreck.nodes.metadata.rotated_placement import place_rotated
from kraftwreck.nodes.protocol.errors import (
    NONE,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)

TOPIC: Final = 2
"""The resource type of topics in requests about configurations."""
BY_DEFAULT: Final = -1
CONTROLLER: Final = "controller"
ROTATED: Final = "rotated"


def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    replicas: int | None,
    configs: Mapping[str, str],
    placement: str,
    say: Say,
) -> dict[str, Any]:
    """Create a topic and wait until a broker reports it; one that is there must fit.

    Without ``partitions`` or ``replicas`` the cluster's defaults hold, and any number fits.
    """
    topic: Body = {
        "name": name,
        "num_partitions": BY_DEFAULT if partitions is None else partitions,
        "replication_factor": BY_DEFAULT if replicas is None else replicas,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in sorted(configs.items())],
    }
    if placement == ROTATED:
        if partitions is None or replicas is None:
            raise AdminError("--placement rotated needs --partitions and --replicas")
        topic |= {
            "num_partitions": BY_DEFAULT,
            "replication_factor": BY_DEFAULT,
            "assignments": _assignments(cluster, partitions, replicas),
        }
    result = _created(cluster, topic)
    created = result["error_code"] == NONE
    if not created and result["error_code"] != TOPIC_ALREADY_EXISTS:
        raise refused(f"topic {name}", result["error_code"], result["error_message"])
    if not created:
        say(f"topic {name} is there already")
    found = _described(cluster, name)
    factors = sorted({len(part["replica_nodes"]) for part in found})
    _compare(cluster, name, partitions, replicas, configs, len(found), factors)
    return {
        "topic": name,
        "created": created,
        "partitions": len(found),
        "replicas": factors[-1],
        "assignment": {part["partition_index"]: part["replica_nodes"] for part in found},
    }


def _created(cluster: Cluster, topic: Body) -> Body:
    """Send the request until its answer is final; errors are those of the topic."""
    found: list[Body] = []

    def final() -> bool:
        answer = cluster.client.call("CreateTopics", {"topics": [topic], "timeout_ms": 10_000})
        found[:] = answer["topics"]
        return found[0]["error_code"] not in PASSING

    def failure() -> str:
        error = refused(f"topic {topic['name']}", found[0]["error_code"], found[0]["error_message"])
        return f"{error}; repeat the command"

    cluster.wait_until(final, cluster.client.patience_s, failure)
    return found[0]


def _assignments(cluster: Cluster, partitions: int, replicas: int) -> list[Body]:
    brokers = [b.broker_id for b in cluster.brokers()[1].values() if not b.fenced]
    try:
        placed = place_rotated(brokers, partitions, replicas)
    except ValueError as error:
        raise AdminError(f"{error} that run; start more, or lower --replicas") from error
    return [
        {"partition_index": number, "broker_ids": brokers} for number, brokers in enumerate(placed)
    ]


def _described(cluster: Cluster, name: str) -> list[Body]:
    """Wait until the topic is known and led; return its partitions."""
    found: list[Body] = []

    def known() -> bool:
        answer = cluster.client.call("Metadata", {"topics": [{"name": name}]})
        [topic] = answer["topics"]
        if topic["error_code"] not in (NONE, UNKNOWN_TOPIC_OR_PARTITION):
            raise refused(f"topic {name}", topic["error_code"], None)
        found[:] = sorted(topic["partitions"], key=lambda part: int(part["partition_index"]))
        return bool(found) and all(part["leader_id"] >= 0 for part in found)

    patience = cluster.client.patience_s
    cluster.wait_until(
        known,
        patience,
        lambda: (
            f"topic {name} was created, but has partitions without a leader after "
            f"{patience:g} s; check that its brokers run"
        ),
    )
    return found


def _compare(
    cluster: Cluster,
    name: str,
    partitions: int | None,
    replicas: int | None,
    configs: Mapping[str, str],
    count: int,
    factors: list[int],
) -> None:
    """Raise AdminError if the topic is not as wanted."""
    differences: list[str] = []
    if partitions not in (None, count):
        differences.append(f"{count} partitions, not {partitions}")
    if replicas is not None and factors != [replicas]:
        differences.append(f"{' or '.join(map(str, factors))} replicas, not {replicas}")
    current = _configs(cluster, name, list(configs)) if configs else {}
    for key, value in sorted(configs.items()):
        if current.get(key) != value:
            differences.append(f"{key}={current.get(key)}, not {value}")
    if differences:
        raise AdminError(
            f"topic {name} exists with {'; '.join(differences)}; change it, or choose another name"
        )


def _configs(cluster: Cluster, name: str, keys: list[str]) -> dict[str, str | None]:
    resource = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": keys}
    found: dict[str, str | None] = {}

    def known() -> bool:
        answer = cluster.client.call("DescribeConfigs", {"resources": [resource]})
        [result] = answer["results"]
        if result["error_code"] == UNKNOWN_TOPIC_OR_PARTITION:
            return False  # another broker, which does not know the topic yet
        if result["error_code"] != NONE:
            raise refused(f"topic {name}", result["error_code"], result["error_message"])
        found.update((config["name"], config["value"]) for config in result["configs"])
        return True

    cluster.wait_until(
        known, cluster.client.patience_s, lambda: f"topic {name} was deleted meanwhile"
    )
    return found
