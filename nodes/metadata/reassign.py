"""AlterPartitionReassignments (45) and ListPartitionReassignments (46), KIP-455.

From the current replicas C to the target T: T - C are *adding*, C - T are *removing*, and the
partition has all of them at once. :mod:`nodes.metadata.change_builder` completes the reassignment
with the first change that finds enough of T in the ISR. A second reassignment starts from all the
replicas that the first has left.
"""

from __future__ import annotations

from collections.abc import Iterable

from kraftwreck.nodes.metadata.assignment import check_assignment
from kraftwreck.nodes.metadata.change_builder import RECOVERING, Election, without
from kraftwreck.nodes.metadata.changes import Changes
from kraftwreck.nodes.metadata.eligibility import elr_enabled, is_active
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.image_values import ImageView, Partition, PartitionKey
from kraftwreck.nodes.metadata.operation import Body, Context, Outcome, check_batch
from kraftwreck.nodes.protocol.errors import (
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)


def _start(
    context: Context, changes: Changes, key: PartitionKey, target: list[int], may_resize: bool
) -> None:
    partition = changes.partition(key)
    assert partition is not None
    check_assignment(context, target)
    settled = len(without(partition.replicas, partition.removing))
    if not may_resize and len(target) != settled:
        raise ApiError(
            INVALID_REPLICATION_FACTOR,
            f"The replication factor would change from {settled} to {len(target)}.",
        )
    builder = changes.builder(key)
    builder.removing = tuple(sorted(without(partition.replicas, target)))
    builder.adding = tuple(sorted(without(target, partition.replicas)))
    builder.replicas = (*target, *builder.removing)
    changes.add(key, builder.build())


def _cancel(context: Context, changes: Changes, key: PartitionKey) -> None:
    partition = changes.partition(key)
    assert partition is not None
    if not partition.adding and not partition.removing:
        raise ApiError(NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    replicas = without(partition.replicas, partition.adding)
    if not replicas:
        raise ApiError(INVALID_REPLICA_ASSIGNMENT, "All replicas of the partition are being added.")
    builder = changes.builder(key)
    builder.replicas, builder.adding, builder.removing = replicas, (), ()
    builder.isr = without(partition.isr, partition.adding)
    if changes.unclean_allowed(key):
        builder.election = Election.UNCLEAN
    if partition.isr and not builder.isr:
        # Only replicas still to be added are in sync; removing them would lose records.
        active = [replica for replica in replicas if is_active(context, replica)]
        if not changes.unclean_allowed(key) or not active:
            raise ApiError(
                INVALID_REPLICA_ASSIGNMENT,
                "Unable to revert the partition assignment because it would require an unclean "
                "leader election.",
            )
        if not elr_enabled(context.image):
            builder.isr, builder.recovery_state = (active[0],), RECOVERING
    changes.add(key, builder.build())


def alter_partition_reassignments(context: Context, version: int, body: Body) -> Outcome:
    """Start reassignments, or cancel those whose ``replicas`` are null; in one batch.

    Raises ApiError (POLICY_VIOLATION) for a request too large for one batch.
    """
    may_resize = body.get("allow_replication_factor_change", True)
    image = context.image
    changes = Changes(context)
    responses: list[Body] = []
    for topic in body["topics"]:
        parts: list[Body] = []
        for wanted in topic["partitions"]:
            number, replicas = wanted["partition_index"], wanted["replicas"]
            error, message = NONE, None
            try:
                found = image.topics.get(topic["name"])
                if found is None or (found.topic_id, number) not in image.partitions:
                    raise ApiError(
                        UNKNOWN_TOPIC_OR_PARTITION,
                        f"Unable to find partition {topic['name']}:{number}.",
                    )
                if replicas is None:
                    _cancel(context, changes, (found.topic_id, number))
                else:
                    key = (found.topic_id, number)
                    _start(context, changes, key, list(replicas), may_resize)
            except ApiError as refused:
                error, message = refused.code, refused.message
            part = {"partition_index": number, "error_code": error, "error_message": message}
            parts.append(part)
            check_batch(changes.records)
        responses.append({"name": topic["name"], "partitions": parts})
    answer = {
        "throttle_time_ms": 0,
        "allow_replication_factor_change": may_resize,
        "error_code": NONE,
        "error_message": None,
        "responses": responses,
    }
    return Outcome(changes.records, answer)


def _ongoing(number: int, partition: Partition | None) -> list[Body]:
    if partition is None or not (partition.adding or partition.removing):
        return []
    return [
        {
            "partition_index": number,
            "replicas": list(partition.replicas),
            "adding_replicas": list(partition.adding),
            "removing_replicas": list(partition.removing),
        }
    ]


def list_partition_reassignments(image: ImageView, body: Body) -> Body:
    """List the reassignments in progress, of the partitions named or of all (null)."""
    wanted: Iterable[tuple[str, Iterable[int]]]
    if body["topics"] is None:
        wanted = ((name, range(topic.partitions)) for name, topic in sorted(image.topics.items()))
    else:
        wanted = ((topic["name"], topic["partition_indexes"]) for topic in body["topics"])
    topics: list[Body] = []
    for name, numbers in wanted:
        topic = image.topics.get(name)
        if topic is None:
            continue
        parts: list[Body] = []
        for number in numbers:
            parts.extend(_ongoing(number, image.partitions.get((topic.topic_id, number))))
        if parts:
            topics.append({"name": name, "partitions": parts})
    return {"throttle_time_ms": 0, "error_code": NONE, "error_message": None, "topics": topics}
