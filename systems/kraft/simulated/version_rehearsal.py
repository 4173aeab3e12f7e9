"""Asks brokers for records in the versions that no client of a run uses (F21).

Clients of the simulator send each request in one version, and followers in another. So the first
requests of a run that are answered are read and answered once more in every other version. A
request has the same meaning in each of them, as far as they have the same fields. So has the
answer: it is that which was given, as the schema of the protocol writes and reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, cast

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.log.batch import BatchError
from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol import fetch
from kraftwreck.nodes.protocol.apis import SUPPORTED, decode_response
from kraftwreck.nodes.protocol.codec import ProtocolError, decode, encode
from kraftwreck.nodes.replication.events import (
    FetchPart,
    FetchReceived,
    ListOffsetsReceived,
    ProduceReceived,
)
from kraftwreck.nodes.server.data_calls import NO_ID
from kraftwreck.nodes.server.record_requests import RecordRequests
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage, requests_of

EACH: Final = 3
"""Requests of each API that are repeated."""
VERSIONS: Final = {
    "Produce": SUPPORTED["Produce"],
    "Fetch": (fetch.FIRST, fetch.LAST),
    "ListOffsets": SUPPORTED["ListOffsets"],
    "OffsetForLeaderEpoch": SUPPORTED["OffsetForLeaderEpoch"],
    "DeleteRecords": SUPPORTED["DeleteRecords"],
}
BY_ID: Final = {"Produce": 13, "Fetch": fetch.BY_ID}
"""The first versions whose topics have ids and no names."""
TOPICS: Final = {
    "Produce": ("topic_data", "responses", "name"),
    "Fetch": ("topics", "responses", "topic"),
    "ListOffsets": ("topics", "topics", "name"),
    "OffsetForLeaderEpoch": ("topics", "topics", "topic"),
    "DeleteRecords": ("topics", "topics", "name"),
}
"""Where each API has topics in requests and answers, and how it calls a name."""
REPLICA_STATE: Final = 15
"""The first version of Fetch with the replica in a field of its own."""

Body = dict[str, Any]
Names = Mapping[bytes, str]


class VersionRehearsal:
    """Repeats the first answered requests of ``world`` in all versions."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._left = Counter(dict.fromkeys(VERSIONS, EACH))
        record_traffic(world).on_answer.append(self._answered)

    @rule(
        "F21",
        "AnswersInAllVersions",
        "A broker reads a request for records in every version as it does in that in which it "
        "came, and gives the same answer.",
        simulated=True,
    )
    def _answered(self, host: Host, message: RecordMessage, effect: Any, body: Body) -> None:
        node, api = host.node, message.api
        if self._left[api] <= 0 or message.call is None or not isinstance(node, Node):
            return
        if message.call.event is None or body.get("error_code", 0) or not _is_right(body):
            return
        self._left[api] -= 1
        image, requests = node.image.stable, requests_of(host)
        for wrong in wrong_versions(requests, message, effect, body, image):
            self._failures.add("F21", self._world.now, f"{host.name} {wrong}")
            return


def _is_right(body: Body) -> bool:
    """Whether an answer has partitions, and none of them an error, which may depend on versions."""
    topics = body.get("responses", body.get("topics"))
    parts = [
        part
        for topic in topics or ()
        for part in topic.get("partition_responses", topic.get("partitions"))
    ]
    return bool(parts) and not any(part["error_code"] for part in parts)


def _is_known(api: str, asked: Body, body: Body, event: Any, image: ImageView) -> bool:
    """Whether the broker still knows all topics of a request and its answer, by names and ids.

    A topic may have been deleted while the request waited, and another one has its name.
    """
    of_request, of_answer, name = TOPICS[api]
    topics = [*asked[of_request], *body[of_answer], *(asked.get("forgotten_topics_data") or ())]
    names = {topic[name] for topic in topics} - {""}
    ids = {topic.get("topic_id", NO_ID) for topic in topics} - {NO_ID}
    parts = event.batches if isinstance(event, ProduceReceived) else event.parts
    for part in parts:
        key = part.key if isinstance(part, FetchPart) else part[0]
        ids.add(key[0])
    return names <= image.topics.keys() and ids <= image.names.keys()


def wrong_versions(
    requests: RecordRequests, message: RecordMessage, effect: Any, body: Body, image: ImageView
) -> Iterator[str]:
    """Yield the versions in which a broker would read or answer a request in another way."""
    api, event = message.api, cast("Any", message.call).event
    asked, _ = decode(f"{api}Request", message.version, message.frame, 0)
    ids = {name: topic.topic_id for name, topic in image.topics.items()}
    if not _is_known(api, asked, body, event, image):
        return
    named = api in BY_ID and message.version < BY_ID[api]
    low, high = VERSIONS[api]
    for version in range(low, high + 1):
        where = f"{api} of version {version}"
        if version == message.version:
            continue
        by_id = api in BY_ID and version >= BY_ID[api]
        wanted, right = asked, body
        if api in BY_ID:
            of_request, of_answer, name = TOPICS[api]
            wanted = _renamed(asked, of_request, name, ids, image.names, by_id=by_id, named=named)
            right = _renamed(body, of_answer, name, ids, image.names, by_id=by_id, named=named)
        if api == "Fetch":
            _place_replica(wanted, event, version)
        try:
            frame = encode(f"{api}Request", version, wanted)
            call = requests.read(api, version, frame, 0, token=effect.token, wall_ms=_wall(event))
            known, _ = decode(f"{api}Request", version, frame, 0)
            if call.event != (meant := _meant(event, known, version)):
                yield f"would take a {where} for {call.event}, not for {meant}"
                continue
            pieces = cast("list[bytes]", requests.frame(api, version, 0, call, effect))
            _, found = decode_response(api, version, b"".join(pieces))
            written = encode(f"{api}Response", version, right)
            right, _ = decode(f"{api}Response", version, written, 0)
        except ProtocolError as error:
            yield f"could not carry out a {where}: {error}"
            continue
        except (OSError, BatchError):
            return  # A part of the log cannot be read.
        if found != right:
            yield f"would answer {found} to a {where}, not {right}"


def _renamed(
    body: Body, field: str, name: str, ids: Mapping[str, bytes], names: Names, *, by_id: bool,
    named: bool,
) -> Body:  # fmt: skip
    """Return a copy of a body whose topics have ids, or names."""
    changed = deepcopy(body)
    lists = [changed[field], changed.get("forgotten_topics_data") or []]
    for topic in (each for topics in lists for each in topics):
        if by_id and named:
            topic["topic_id"] = ids[topic[name]]
        elif not by_id and not named:
            topic[name] = names[topic["topic_id"]]
    return changed


def _place_replica(body: Body, event: FetchReceived, version: int) -> None:
    """Put the replica that fetches where a version has it."""
    if version >= REPLICA_STATE:
        state = {"replica_id": event.replica_id, "replica_epoch": event.broker_epoch}
        body["replica_state"] = state
    else:
        body["replica_id"] = event.replica_id


def _wall(event: Any) -> int:
    """Return the wall clock (ms) at which none of the batches is too new."""
    batches = event.batches if isinstance(event, ProduceReceived) else ()
    return max((batch.max_timestamp for _, batch in batches), default=0)


def _meant(event: Any, known: Body, version: int) -> Any:
    """Return the event of a request as far as a version of it says so: ``known`` is what it has."""
    if isinstance(event, ProduceReceived):
        return event
    left = iter([part for topic in known["topics"] for part in topic["partitions"]])
    if isinstance(event, ListOffsetsReceived):
        parts = tuple(
            (part[0], field["timestamp"], field["current_leader_epoch"])
            for part, field in zip(event.parts, left, strict=True)
        )
        return ListOffsetsReceived(event.token, parts, event.replica_id)
    if not isinstance(event, FetchReceived):
        return event
    state = known["replica_state"]
    if version < REPLICA_STATE:
        state = {"replica_id": known["replica_id"], "replica_epoch": -1}
    return FetchReceived(
        event.token,
        tuple(
            FetchPart(
                part.key,
                field["fetch_offset"],
                field["partition_max_bytes"],
                field["current_leader_epoch"],
                field["last_fetched_epoch"],
                field["log_start_offset"],
            )
            for part, field in zip(event.parts, left, strict=True)
        ),
        state["replica_id"],
        state["replica_epoch"],
        known["max_wait_ms"],
        known["min_bytes"],
        known["max_bytes"],
        known["session_id"],
        known["session_epoch"],
        event.forgotten if known["forgotten_topics_data"] else (),
    )
