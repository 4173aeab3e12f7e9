"""Legal and illegal requests of every kind that a controller or broker serves, by draw.

An ``ask`` of the workload ``partitions`` has the value {"kind", "name", "creates"}: the kind of
probe, its topic, and whether it may create that topic. The committed log decides whether the answer
is right (``checkers.kraft.controller_model``). Topics of probes begin with
:data:`~systems.kraft.workloads.probe_requests.PREFIX`, and no other operation names them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from kraftwreck.harness.client import Answer, Call, Completion, Invocation
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState, kafka_call
from kraftwreck.systems.kraft.workloads.controller import (
    ask_controller,
    ask_for_write,
    error_name,
    not_answered,
    refused_by_node,
)
from kraftwreck.systems.kraft.workloads.probe_requests import PREFIX, PROBES, REMEMBERED, Body
from kraftwreck.systems.kraft.workloads.stories import STORIES, tell

NAMES: Final = 64
"""Operations of a client until the names of its probes repeat."""

HURRY_MS: Final = (1, 10, 40)
"""Short timeouts: less than a commit takes, or hardly more."""

PAGES: Final = 4
"""Further pages of a list that a client asks for at once."""

_LONGEST: Final = 249


def probe_of(seed: int, thread: int, count: int) -> Body:
    """Return the value of an ``ask``."""
    names = sorted(PROBES)
    kind = names[draw_below(len(names), seed, "probe", thread, count)]
    creates = kind.startswith("create")
    name = f"{PREFIX}{thread}-{count % NAMES}"
    if creates:
        shape = draw_below(12, seed, "probe-name", thread, count)
        pool = (f"{PREFIX}.a_b", f"{PREFIX}_a.b", f"{PREFIX}_a_b")
        if shape == 0:
            name = pool[draw_below(len(pool), seed, "probe-pool", thread, count)]
        elif shape == 1:
            name += "-" * (_LONGEST + draw_below(2, seed, "probe-long", thread, count) - len(name))
        elif shape == 2:
            name += (" bad", "/x", "é", "#1")[draw_below(4, seed, "probe-bad", thread, count)]
    return {"kind": kind, "name": name, "creates": creates and kind != "create-dry"}


def ask(op: Op, client: ClientState, timeout_ms: int) -> Invocation:
    """Send the probe; the value of the completion adds the error codes of the answer."""
    probe: Body = op.value
    client.calls += 1
    key = (client.thread, client.calls)

    def choose(bound: int, *of: Any) -> int:
        return draw_below(bound, client.seed, "ask", *of, *key)

    if probe["kind"] in STORIES:
        return (yield from tell(probe, client, choose, timeout_ms))
    patience = timeout_ms if choose(6, "hurry") else HURRY_MS[choose(len(HURRY_MS), "ms")]
    request = PROBES[probe["kind"]](probe["name"], choose, client, patience)
    if request is None:
        return Completion("fail", probe, error="nothing to ask about")
    api, version, body = request
    write = api not in _READS
    if api in _ANYBODY:
        everybody = [*client.nodes, *(client.gateways if api in _OF_BROKER else ())]
        if api == "DescribeTopicPartitions":
            everybody = list(client.gateways)
        if not everybody:
            return Completion("fail", probe, error="no broker to ask")
        node: str | None = everybody[choose(len(everybody), "node")]
        assert node is not None
        answer = yield kafka_call(node, api, version, body, timeout_ms)
    elif api in _BY_BROKERS or (not write and (api != _FORWARDED or choose(2, "forwarded"))):
        answer, node = yield from ask_controller(client, api, version, body, timeout_ms)
    else:
        answer, node = yield from ask_for_write(client, api, version, body, timeout_ms)
    if answer.status != "ok":
        ended = not_answered(answer, node, write=write)
        ended.value = probe
        return ended
    codes = sorted(set(codes_in(answer.response)))
    unsure = [c for c in codes if c in (errors.REQUEST_TIMED_OUT, errors.UNKNOWN_SERVER_ERROR)]
    if unsure or codes == [errors.NOT_CONTROLLER]:
        ended = refused_by_node(client, (unsure or codes)[0], node, write=write)
        ended.value = probe
        return ended
    if api == "DescribeTopicPartitions":
        assert node is not None
        yield from _turn_pages(client, node, body, answer.response["next_cursor"], timeout_ms)
    if probe["creates"] and codes == [errors.NONE]:
        known = client.memory.setdefault("asked", [])
        known.extend(t["name"] for t in answer.response["topics"])
        del known[:-REMEMBERED]
        ids = client.memory.setdefault("asked ids", {})
        ids |= {
            t["name"]: bytes(t["topic_id"])
            for t in answer.response.get("topics", ())
            if "topic_id" in t
        }
    return Completion("ok", probe | {"codes": [error_name(c) for c in codes]}, node=node)


def _turn_pages(
    client: ClientState, node: str, body: Body, following: Body | None, timeout_ms: int
) -> Generator[Call, Answer, None]:
    """Ask for some of the next pages, and remember where the last one ended.

    A list of many topics is read like this. Only a page that begins inside of a topic and holds
    others shows that its cursor is right.
    """
    for _ in range(PAGES):
        if following is None:
            break
        wanted = {**body, "cursor": following}
        answer = yield kafka_call(node, "DescribeTopicPartitions", 0, wanted, timeout_ms)
        if answer.status != "ok":
            break
        following = answer.response["next_cursor"]
    client.memory["page"] = None if following is None else (body["topics"], following)


def codes_in(value: Any) -> list[int]:
    """Return all error codes in an answer."""
    if isinstance(value, dict):
        own = [value["error_code"]] if "error_code" in value else []
        return own + [code for inner in value.values() for code in codes_in(inner)]
    if isinstance(value, list):
        return [code for inner in value for code in codes_in(inner)]
    return []


def note_partitions(client: ClientState, topics: list[Body]) -> None:
    """Remember from a Metadata answer the partitions whose first replica does not lead."""
    client.memory["odd"] = [
        (topic["name"], part["partition_index"])
        for topic in topics
        for part in topic["partitions"]
        if part["leader_id"] != -1 and part["leader_id"] not in part["replica_nodes"][:1]
    ][-REMEMBERED:]


_READS: Final = (
    "ApiVersions",
    "DescribeCluster",
    "DescribeConfigs",
    "DescribeTopicPartitions",
    "ListPartitionReassignments",
    "Metadata",
)
_FORWARDED: Final = "ListPartitionReassignments"
"""The read that brokers forward to the controller."""

_ANYBODY: Final = ("ApiVersions", "DescribeCluster", "DescribeTopicPartitions", "Metadata")
"""APIs that any node answers."""

_OF_BROKER: Final = _ANYBODY
"""APIs that brokers answer themselves."""

_BY_BROKERS: Final = (
    "AddRaftVoter",
    "AllocateProducerIds",
    "AlterPartition",
    "BrokerHeartbeat",
    "BrokerRegistration",
    "RemoveRaftVoter",
)
"""Requests that brokers send for themselves and never forward."""
