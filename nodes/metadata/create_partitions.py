"""CreatePartitions (37): topics grow; they never shrink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kraftwreck.nodes.metadata.assignment import NewPartitions, check_assignment
from kraftwreck.nodes.metadata.failure import POLICY_VIOLATION, ApiError
from kraftwreck.nodes.metadata.operation import (
    MAX_RECORDS_PER_BATCH,
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
    INVALID_REQUEST,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)


def _grown(context: Context, placer: StripedPlacer, wanted: Body) -> list[Record]:
    """Return the records of one topic's new partitions; raise ApiError if that is not allowed."""
    image, name = context.image, wanted["name"]
    topic = image.topics.get(name)
    if topic is None:
        raise ApiError(
            UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    count, assignments = wanted["count"], wanted["assignments"]
    additional = count - topic.partitions
    if additional == 0:
        raise ApiError(INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if additional < 0:
        raise ApiError(
            INVALID_PARTITIONS,
            f"The topic {name} currently has {topic.partitions} partition(s); {count} "
            "would not be an increase.",
        )
    if additional > MAX_RECORDS_PER_BATCH:  # before placing them, which would take too long
        raise ApiError(
            POLICY_VIOLATION, f"At most {MAX_RECORDS_PER_BATCH} partitions may be added at once."
        )
    if assignments is not None and len(assignments) != additional:
        raise ApiError(
            INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(assignments)} assignment(s) were specified.",
        )
    first = image.partitions[topic.topic_id, 0]
    factor = len(first.replicas) - len(first.removing)  # after a reassignment in progress
    replicas: Sequence[Sequence[int]]
    if assignments is None:
        replicas = placer.place(additional, factor)
    else:
        replicas = [assignment["broker_ids"] for assignment in assignments]
        for each in replicas:
            check_assignment(context, each, factor)
    manual = assignments is not None
    made = NewPartitions(context)
    return [
        made.record(topic.topic_id, number, made.shape(number, each, manual=manual))
        for number, each in enumerate(replicas, topic.partitions)
    ]


def create_partitions(context: Context, version: int, body: Body) -> Outcome:
    """Give each permitted topic of the request its new partitions, in one batch.

    Raises ApiError (POLICY_VIOLATION) for a request too large for one batch.
    """
    placer = StripedPlacer(context.candidates(), context.choose)
    occurrences = Counter(topic["name"] for topic in body["topics"])
    records: list[Record] = []
    results: list[Body] = []
    for topic in body["topics"]:
        result: Body = {"name": topic["name"], "error_code": NONE, "error_message": None}
        try:
            if occurrences[topic["name"]] > 1:
                raise ApiError(INVALID_REQUEST, "Duplicate topic name.")
            records.extend(_grown(context, placer, topic))
        except ApiError as error:
            result |= {"error_code": error.code, "error_message": error.message}
        results.append(result)
        check_batch(records)
    return Outcome(
        [] if body["validate_only"] else records, {"throttle_time_ms": 0, "results": results}
    )
