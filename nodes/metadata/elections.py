"""Leader elections on request, ElectLeaders (43), and by the two periodic tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kraftwreck.nodes.metadata.change_builder import Election
from kraftwreck.nodes.metadata.changes import Changes
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.image_records import merged
from kraftwreck.nodes.metadata.image_values import NO_LEADER, PartitionKey
from kraftwreck.nodes.metadata.operation import Body, Context, Outcome, Record, check_batch
from kraftwreck.nodes.protocol.errors import (
    ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    INVALID_REQUEST,
    NONE,
    PREFERRED_LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)

ELECTION_TYPES: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}
MAX_ELECTIONS: Final = 1000
"""Elections in one run of a periodic task, at most (Kafka's maxElectionsPerImbalance)."""


def _elect(changes: Changes, key: PartitionKey, election: Election) -> None:
    """Hold one election; if it fails, raise ApiError and change nothing."""
    partition = changes.partition(key)
    assert partition is not None
    preferred = election is Election.PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        raise ApiError(ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    builder = changes.builder(key)
    builder.election = election
    record = builder.build()
    leader = partition.leader if record is None else merged(partition, record[2]).leader
    if preferred and leader != partition.replicas[0]:
        raise ApiError(PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    if leader == NO_LEADER:
        raise ApiError(
            ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
        )
    changes.add(key, record)


def elect_leaders(context: Context, version: int, body: Body) -> Outcome:
    """Elect the preferred replica, or uncleanly any, for the partitions named or for all.

    Of all, the answer omits those that have the wanted leader. Raises ApiError: INVALID_REQUEST for
    an unknown kind of election, POLICY_VIOLATION for more than one batch may hold.
    """
    election = ELECTION_TYPES.get(body.get("election_type", 0))
    if election is None:
        raise ApiError(INVALID_REQUEST, f"Unknown election type {body['election_type']}.")
    image = context.image
    everything = body["topic_partitions"] is None
    wanted: Iterable[tuple[str, Iterable[int]]]
    if everything:
        wanted = ((name, range(topic.partitions)) for name, topic in image.topics.items())
    else:
        wanted = ((topic["topic"], topic["partitions"]) for topic in body["topic_partitions"])
    changes = Changes(context)
    results: list[Body] = []
    for name, numbers in wanted:
        parts: list[Body] = []
        for number in numbers:
            error, message = NONE, None
            try:
                topic = image.topics.get(name)
                if topic is None or (topic.topic_id, number) not in image.partitions:
                    raise ApiError(UNKNOWN_TOPIC_OR_PARTITION, f"No such partition {name}-{number}")
                _elect(changes, (topic.topic_id, number), election)
            except ApiError as refused:
                error, message = refused.code, refused.message
            if not (everything and error == ELECTION_NOT_NEEDED):
                part = {"partition_id": number, "error_code": error, "error_message": message}
                parts.append(part)
            check_batch(changes.records)
        if parts or not everything:
            results.append({"topic": name, "partition_result": parts})
    answer: Body = {"throttle_time_ms": 0, "replica_election_results": results}
    if version >= 1:
        answer["error_code"] = NONE
    return Outcome(changes.records, answer, atomic=False)


def elect_preferred(context: Context, limit: int = MAX_ELECTIONS) -> list[Record]:
    """Return up to ``limit`` records that elect the first replica of a partition.

    Only where that replica can lead at once; if there are ``limit`` of them, there may be more to
    do.
    """
    changes = Changes(context)
    for key in context.image.imbalanced():
        if len(changes.records) >= limit:
            break
        builder = changes.builder(key)
        builder.election = Election.PREFERRED
        changes.add(key, builder.build())
    return changes.records


def elect_unclean(context: Context, limit: int = MAX_ELECTIONS) -> list[Record]:
    """Return up to ``limit`` records that give a leader to partitions that have none.

    Only those whose topics allow the loss of records (``unclean.leader.election.enable``).
    """
    changes = Changes(context)
    for key in context.image.leaderless():
        if len(changes.records) >= limit:
            break
        if changes.unclean_allowed(key):
            builder = changes.builder(key)
            builder.election = Election.UNCLEAN
            changes.add(key, builder.build())
    return changes.records
