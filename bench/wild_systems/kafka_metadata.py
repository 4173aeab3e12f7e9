"""Metadata of Apache Kafka as objects of generic workloads: registers, and a set of topics.

A register is the setting ``match`` of a subscription of client metrics, a resource without
partitions; its value is the number of a client id. An element of the set is a topic.

Writes go to the active controller itself. Brokers forward a change and repeat it after a lost
answer, so that it may be done twice. A controller refuses with NOT_CONTROLLER before a change, and
also when it stops to lead during one: that error leaves a write open.

Reads come from the broker of their node, which answers from the metadata that it has applied. With
``synced`` a client first commits a marker of its own and waits until that broker shows it: the
broker then has all that was committed before the read.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

from kafka_places import BROKERS, CONTROLLERS, Cluster, ask, connection

from kraftwreck.api import Answer, Completion, Op, Place
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.client import KafkaClient
from kraftwreck.systems.kraft.workloads.controller import (
    CERTAINLY_NOT_DONE,
    error_name,
    first_error,
    metadata_request,
)

CLIENT_METRICS = 16
"""ConfigResource type of a subscription of client metrics."""
MATCH, INTERVAL = "match", "interval.ms"
LEAST_INTERVAL = 100
_SET = 0
ELEMENT = "element-"
TIMEOUT_MS = 3000
ASK_MS = 1000
POLL_S = 0.01
QUORUM = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
OPEN = frozenset({errors.NOT_CONTROLLER})
"""Codes after which Apache Kafka may still carry a write out, though our controllers do not."""


class NoLeaderError(Exception):
    """No controller is active, as far as clients can see."""


class NotAppliedError(Exception):
    """A broker did not apply a marker in time, or did not answer."""


def outcome(code: int) -> str:
    """Return how a write ended: "ok", "fail" (certainly not done) or "info" (unknown)."""
    if code == errors.NONE:
        return "ok"
    return "fail" if code in CERTAINLY_NOT_DONE - OPEN else "info"


def claims(answer: Answer, node_id: int) -> bool:
    """Return whether the controller ``node_id`` answers DescribeQuorum as the leader."""
    if answer.status != "ok" or answer.response["error_code"] != errors.NONE:
        return False
    return any(
        part["error_code"] == errors.NONE and part["leader_id"] == node_id
        for topic in answer.response["topics"]
        for part in topic["partitions"]
    )


class MetadataClient:
    """A client of one broker and of all controllers."""

    def __init__(self, place: Place, cluster: Cluster, synced: bool) -> None:
        self.place, self.cluster, self.synced = place, cluster, synced
        self.marker = f"marker-{secrets.token_hex(8)}"
        self.markers = LEAST_INTERVAL
        self.broker = connection(place, BROKERS)
        self.controllers: dict[str, KafkaClient] = {}
        self.active: Place | None = None

    def invoke(self, op: Op) -> Completion:
        """Carry out a read, a write or an addition."""
        try:
            if op.f == "read":
                return Completion("ok", self.read(op.key))
            if op.f == "write":
                value = _client_id(op.value)
                return self.done(op, self.alter(subscription(op.key), MATCH, value))
            return self.done(op, self.create(f"{ELEMENT}{op.value}"))
        except (NoLeaderError, NotAppliedError) as error:
            return Completion("fail", error=str(error))

    def done(self, op: Op, told: tuple[str, str]) -> Completion:
        """Return how a write ended; after an open one the connections are not used again."""
        kind, error = told
        if kind == "info":
            self.close()
            return Completion("info", error=error)
        if kind == "fail":
            return Completion("fail", error=error)
        return Completion("ok", op.value)

    # --- reads ----------------------------------------------------------------------------

    def read(self, key: Any) -> Any:
        """Return the elements of the set, or the value of a register."""
        if self.synced:
            self.sync()
        if key != "set":
            text = self.described(subscription(key), MATCH)
            return int(text.rpartition("=")[2]) if text else None
        body = self.asked("Metadata", 12, metadata_request(None))
        names = [str(topic["name"]) for topic in body["topics"]]
        return sorted(int(n.removeprefix(ELEMENT)) for n in names if n.startswith(ELEMENT))

    def sync(self) -> None:
        """Wait until the broker has applied all that is committed now."""
        self.markers += 1
        wanted = str(self.markers)
        kind, error = self.alter(self.marker, INTERVAL, wanted)
        if kind != "ok":
            raise NotAppliedError(f"no marker: {error}")
        deadline = time.monotonic() + TIMEOUT_MS / 1000
        while self.described(self.marker, INTERVAL) != wanted:
            if time.monotonic() > deadline:
                raise NotAppliedError(f"{self.place.name} does not show the marker")
            time.sleep(POLL_S)

    def described(self, name: str, setting: str) -> str:
        """Return a setting of a subscription as the broker has it, "" for none."""
        wanted = {"resource_type": CLIENT_METRICS, "resource_name": name}
        resource = {**wanted, "configuration_keys": [setting]}
        body = self.asked("DescribeConfigs", 4, {"resources": [resource]})
        code = first_error(body, "results")
        if code != errors.NONE:
            raise NotAppliedError(error_name(code))
        return "".join(
            str(config["value"])
            for config in body["results"][0]["configs"]
            if config["name"] == setting and config["value"] and not _is_default(config)
        )

    def asked(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Return the broker's answer. Raises :class:`NotAppliedError` without one."""
        answer = self.broker.call(api, version, body, TIMEOUT_MS)
        if answer.status != "ok":
            raise NotAppliedError(f"{answer.status}: {answer.error}")
        told: dict[str, Any] = answer.response
        return told

    # --- writes ---------------------------------------------------------------------------

    def alter(self, name: str, setting: str, value: str) -> tuple[str, str]:
        """Set a setting of a subscription; return how it ended, and the error."""
        change = {"name": setting, "config_operation": _SET, "value": value}
        resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": [change]}
        body = {"resources": [resource], "validate_only": False}
        return self.change("IncrementalAlterConfigs", 1, body, "responses")

    def create(self, name: str) -> tuple[str, str]:
        """Create a topic; return how it ended, and the error."""
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
        body = {"topics": [topic], "timeout_ms": TIMEOUT_MS}
        return self.change("CreateTopics", 7, body, "topics")

    def change(self, api: str, version: int, body: dict[str, Any], items: str) -> tuple[str, str]:
        """Send a change of one thing to the active controller."""
        leader = self.find()
        answer = self.controller(leader).call(api, version, body, TIMEOUT_MS)
        if answer.status != "ok":
            self.active = None
            kind = "info" if answer.status == "lost" else "fail"
            return kind, f"{answer.status}: {answer.error}"
        code = first_error(answer.response, items)
        if code in (errors.NOT_CONTROLLER, errors.REQUEST_TIMED_OUT):
            self.active = None
        return outcome(code), error_name(code)

    def find(self) -> Place:
        """Return the active controller: the known one, or the first that claims to be it, from
        that of this client's node on. Raises :class:`NoLeaderError`."""
        if self.active is not None:
            return self.active
        others = [place for place in self.cluster.places if place != self.place]
        for place in (self.place, *others):
            answer = self.controller(place).call("DescribeQuorum", 1, QUORUM, ASK_MS)
            if claims(answer, self.cluster.controller_id(place)):
                self.active = place
                return place
        raise NoLeaderError("no controller is active")

    def controller(self, place: Place) -> KafkaClient:
        """Return the connection to a host's controller."""
        if place.name not in self.controllers:
            self.controllers[place.name] = connection(place, CONTROLLERS)
        return self.controllers[place.name]

    def close(self) -> None:
        """Close all connections; the next request opens others."""
        self.active = None
        for client in (self.broker, *self.controllers.values()):
            client.close()


def subscription(key: Any) -> str:
    """Return the resource that is the register ``key``."""
    return f"register-{key}"


def _client_id(value: int) -> str:
    return f"client_id={value}"


def _is_default(config: Mapping[str, Any]) -> bool:
    """Whether nobody has set this value (ConfigSource DEFAULT_CONFIG)."""
    return bool(config.get("config_source") == 5)


# --- once, before clients begin ---------------------------------------------------------


def active(cluster: Cluster, timeout_ms: int) -> Place | None:
    """Return the host of the active controller, None if none claims to be it."""
    for place in cluster.places:
        answer = ask(place, CONTROLLERS, "DescribeQuorum", 1, QUORUM, timeout_ms)
        if claims(answer, cluster.controller_id(place)):
            return place
    return None


def unserved(cluster: Cluster, topic: str = "") -> str:
    """Return which broker does not see all brokers, and all replicas of ``topic`` in sync."""
    if active(cluster, ASK_MS) is None:
        return "no controller is active"
    wanted = [{"topic_id": bytes(16), "name": topic}] if topic else []
    for place in cluster.places:
        answer = ask(place, BROKERS, "Metadata", 12, metadata_request(wanted), ASK_MS)
        if answer.status != "ok":
            return f"{place.name} does not serve: {answer.error}"
        if len(answer.response["brokers"]) != len(cluster.places):
            return f"{place.name} does not see all brokers"
        for told in answer.response["topics"]:
            partitions = told["partitions"]
            if not partitions:
                return f"{place.name} does not see {topic}"
            if any(len(p["isr_nodes"]) < len(p["replica_nodes"]) for p in partitions):
                return f"{place.name} sees replicas of {topic} that are not in sync"
    return ""


def create_topic(
    cluster: Cluster, name: str, partitions: int, replicas: int, configs: Mapping[str, str]
) -> str:
    """Create a topic unless it is there; return why that was not possible, "" if it was."""
    leader = active(cluster, ASK_MS)
    if leader is None:
        return "no controller is active"
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "configs": [{"name": key, "value": value} for key, value in configs.items()],
    }
    body = {"topics": [topic], "timeout_ms": TIMEOUT_MS}
    answer = ask(leader, CONTROLLERS, "CreateTopics", 7, body, TIMEOUT_MS)
    if answer.status != "ok":
        return f"{name} was not created: {answer.error}"
    code = first_error(answer.response, "topics")
    if code in (errors.NONE, errors.TOPIC_ALREADY_EXISTS):
        return ""
    return f"{name} was not created: {error_name(code)}"
