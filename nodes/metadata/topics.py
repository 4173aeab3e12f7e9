"""CreateTopics (19) and DeleteTopics (20)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from kraftwreck.nodes.metadata.assignment import NewPartitions, check_assignment
from kraftwreck.nodes.metadata.configs import check_commit_mode, check_value
from kraftwreck.nodes.metadata.effective import topic_configs
from kraftwreck.nodes.metadata.failure import (
    INVALID_CONFIG,
    INVALID_TOPIC_EXCEPTION,
    POLICY_VIOLATION,
    TOPIC_AUTHORIZATION_FAILED,
    ApiError,
)
from kraftwreck.nodes.metadata.image import TOPIC
from kraftwreck.nodes.metadata.operation import (
    MAX_RECORDS_PER_BATCH,
    NO_ID,
    Body,
    Context,
    Outcome,
    Record,
    check_batch,
)
from kraftwreck.nodes.metadata.placement import StripedPlacer
from kraftwreck.nodes.protocol.errors import (
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    NONE,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

METADATA_TOPIC: Final = "__cluster_metadata"
MAX_NAME_LENGTH: Final = 249
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise ApiError (INVALID_TOPIC_EXCEPTION) unless ``name`` is a legal topic name."""
    if not name:
        raise ApiError(INVALID_TOPIC_EXCEPTION, "Topic name is invalid: it is empty.")
    if name in (".", ".."):
        raise ApiError(INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: it is {name!r}.")
    if len(name) > MAX_NAME_LENGTH:
        raise ApiError(
            INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: it is {len(name)} characters long, "
            f"the limit is {MAX_NAME_LENGTH}.",
        )
    if not _NAME.fullmatch(name):
        raise ApiError(
            INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: {name!r} holds a character other than ASCII "
            "alphanumerics, '.', '_' and '-'.",
        )


def _collision_key(name: str) -> str:
    # In metric names '.' and '_' are equal, so Kafka forbids names that differ only there.
    return name.replace(".", "_")


class _Creation:
    """One CreateTopics request against one image."""

    def __init__(self, context: Context, body: Body) -> None:
        self.context = context
        self.topics: Sequence[Body] = body["topics"]
        self.partitions = NewPartitions(context)
        self.placer = StripedPlacer(context.candidates(), context.choose)
        self.occurrences = Counter(topic["name"] for topic in self.topics)
        self.collisions: dict[str, str] | None = None
        self.records: list[Record] = []

    def result(self, index: int, topic: Body) -> Body:
        """Create one topic and collect its records; return its part of the answer."""
        name = topic["name"]
        try:
            self._check_name(name)
            configs = self._configs(topic)
            assignments = self._assignments(topic)
            manual = bool(topic["assignments"])
            shapes = [
                self.partitions.shape(number, replicas, manual=manual)
                for number, replicas in enumerate(assignments)
            ]
        except ApiError as error:
            return {"name": name, "error_code": error.code, "error_message": error.message}
        if self.collisions is not None:
            self.collisions[_collision_key(name)] = name
        topic_id = self.context.new_topic_id(index)
        records: list[Record] = [("TopicRecord", 0, {"name": name, "topic_id": topic_id})]
        for key, value in configs.items():
            fields = {"resource_type": TOPIC, "resource_name": name, "name": key, "value": value}
            records.append(("ConfigRecord", 0, fields))
        for number, shape in enumerate(shapes):
            records.append(self.partitions.record(topic_id, number, shape))
        self.records.extend(records)
        return {
            "name": name,
            "topic_id": topic_id,
            "error_code": NONE,
            "error_message": None,
            "num_partitions": len(assignments),
            "replication_factor": len(assignments[0]),
            "configs": [
                {
                    "name": effective.key.name,
                    "value": effective.value,
                    "read_only": False,
                    "config_source": effective.source,
                    "is_sensitive": False,
                }
                for effective in topic_configs(self.context.image, configs)
            ],
        }

    def _check_name(self, name: str) -> None:
        if self.occurrences[name] > 1:
            raise ApiError(INVALID_REQUEST, "Duplicate topic name.")
        if name == METADATA_TOPIC:
            raise ApiError(TOPIC_AUTHORIZATION_FAILED, "The metadata topic cannot be created.")
        check_topic_name(name)
        if name in self.context.image.topics:
            raise ApiError(TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self._collides_with(name)
        if other is not None:
            raise ApiError(
                INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
            )

    def _collides_with(self, name: str) -> str | None:
        if "." not in name and "_" not in name:
            return None
        if self.collisions is None:  # reads every topic, so it is done only when needed
            self.collisions = {_collision_key(topic): topic for topic in self.context.image.topics}
        return self.collisions.get(_collision_key(name))

    def _assignments(self, topic: Body) -> list[list[int]]:
        partitions, replication = topic["num_partitions"], topic["replication_factor"]
        if topic["assignments"]:
            if replication != -1:
                raise ApiError(
                    INVALID_REQUEST,
                    "A manual partition assignment was specified, but replication factor "
                    "was not set to -1.",
                )
            if partitions != -1:
                raise ApiError(
                    INVALID_REQUEST,
                    "A manual partition assignment was specified, but numPartitions "
                    "was not set to -1.",
                )
            return self._manual(topic["assignments"])
        if replication == 0 or replication < -1:
            raise ApiError(
                INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if partitions == 0 or partitions < -1:
            raise ApiError(
                INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        settings = self.context.settings
        count = settings.default_partitions if partitions == -1 else partitions
        factor = settings.default_replication if replication == -1 else replication
        if count > MAX_RECORDS_PER_BATCH:  # before placing them, which would take too long
            raise ApiError(
                POLICY_VIOLATION, f"A topic may have at most {MAX_RECORDS_PER_BATCH} partitions."
            )
        return self.placer.place(count, factor)

    def _manual(self, assignments: Sequence[Body]) -> list[list[int]]:
        by_partition: dict[int, list[int]] = {}
        factor: int | None = None
        for assignment in assignments:
            number, replicas = assignment["partition_index"], list(assignment["broker_ids"])
            if number in by_partition:
                raise ApiError(
                    INVALID_REPLICA_ASSIGNMENT,
                    f"Found multiple manual partition assignments for partition {number}",
                )
            check_assignment(self.context, replicas, factor)
            factor = len(replicas)
            by_partition[number] = replicas
        if sorted(by_partition) != list(range(len(by_partition))):
            raise ApiError(
                INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence.",
            )
        return [by_partition[number] for number in range(len(by_partition))]

    def _configs(self, topic: Body) -> dict[str, str]:
        configs: dict[str, str] = {}
        for config in topic["configs"]:
            name, value = config["name"], config["value"]
            check_value(TOPIC, name, value)
            if name in configs:
                raise ApiError(INVALID_CONFIG, f"Configuration {name} is given twice.")
            configs[name] = value
        check_commit_mode(self.context.image, configs)
        return configs


def create_topics(context: Context, version: int, body: Body) -> Outcome:
    """Create each legal topic of the request, all in one atomic batch.

    Raises ApiError (POLICY_VIOLATION) for a request too large for one batch.
    """
    creation = _Creation(context, body)
    results = []
    for index, topic in enumerate(creation.topics):
        results.append(creation.result(index, topic))
        check_batch(creation.records)
    if body["validate_only"]:
        for result in results:
            result["topic_id"] = NO_ID
    records = [] if body["validate_only"] else creation.records
    return Outcome(records, {"throttle_time_ms": 0, "topics": results})


def delete_topics(context: Context, version: int, body: Body) -> Outcome:
    """Delete topics named by name or, from version 6, by id; all in one atomic batch."""
    wanted: list[tuple[str | None, bytes]]
    if version >= 6:
        wanted = [(topic["name"], bytes(topic["topic_id"])) for topic in body["topics"]]
    else:
        wanted = [(name, NO_ID) for name in body["topic_names"]]
    # A request may name a topic twice, by name and by id; such entries are all refused.
    meant = Counter(_meant(context, name, topic_id) for name, topic_id in wanted)
    records: list[Record] = []
    responses: list[dict[str, Any]] = []
    for name, topic_id in wanted:
        response: Body = {"name": name, "topic_id": topic_id, "error_message": None}
        try:
            found = _found(context, name, topic_id, meant[_meant(context, name, topic_id)])
            response |= {"name": found[0], "topic_id": found[1], "error_code": NONE}
            records.append(("RemoveTopicRecord", 0, {"topic_id": found[1]}))
        except ApiError as error:
            response |= {"error_code": error.code, "error_message": error.message}
            if version < 6 and name is None:
                response["name"] = ""
        responses.append(response)
    if len(records) > MAX_RECORDS_PER_BATCH:
        raise ApiError(POLICY_VIOLATION, f"More than {MAX_RECORDS_PER_BATCH} topics at once.")
    return Outcome(records, {"throttle_time_ms": 0, "responses": responses})


def _meant(context: Context, name: str | None, topic_id: bytes) -> str | bytes:
    """Return the same identity for a topic's name and for its id."""
    if name is not None:
        return name
    return context.image.names.get(topic_id, topic_id)


def _found(
    context: Context, name: str | None, topic_id: bytes, occurrences: int
) -> tuple[str, bytes]:
    if name is None and topic_id == NO_ID:
        raise ApiError(INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != NO_ID:
        raise ApiError(INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if occurrences > 1:
        raise ApiError(INVALID_REQUEST, "Duplicate topic name or id.")
    if name is not None:
        topic = context.image.topics.get(name)
        if topic is None:
            raise ApiError(
                UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
            )
        return topic.name, topic.topic_id
    if topic_id not in context.image.names:
        raise ApiError(UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return context.image.names[topic_id], topic_id
