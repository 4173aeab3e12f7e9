"""Create and delete topics, and read the set of them: is committed metadata ever lost?

Most names belong to one client: a topic that was acknowledged and not deleted must be in every
later read. A client reuses its limited set of names, so a cluster never holds more topics than
that, and the cost per operation stays constant. All clients create and delete a few shared names.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from kraftwreck.harness.client import Completion, Invocation
from kraftwreck.harness.generator import Planned
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState, KraftWorkload, kafka_call
from kraftwreck.systems.kraft.workloads.controller import (
    METADATA_VERSION,
    ask_controller,
    change,
    metadata_request,
    not_answered,
    refused_by_node,
)
from kraftwreck.systems.kraft.workloads.probe_requests import PREFIX
from kraftwreck.systems.kraft.workloads.probes import note_partitions

CREATE_TOPICS_VERSION: Final = 7
DELETE_TOPICS_VERSION: Final = 6

SHARED_NAMES: Final = 5
OWN_NAMES: Final = 64
"""Operations of a client until its names repeat: half a minute at two a second."""

_REMEMBERED: Final = 1 << 14
_LOOK_BACK: Final = 8


class MetadataWorkload(KraftWorkload):
    """45 % creates, 30 % deletes, 25 % reads of all topic names.

    ``create`` and ``delete`` have the topic name as key and value; ``read`` returns the sorted
    names. A read counts only if the node reports itself as the controller; a final read reads a
    node's own committed image.
    """

    name = "metadata"
    about = "create and delete topics, read all names"
    checkers: Sequence[str] = ("stats", "topics", "invariants")

    def __init__(self, timeout_ms: int = 5000) -> None:
        self.timeout_ms = timeout_ms

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        """Return the ``count``-th operation of ``thread``."""
        kind = _kind(seed, thread, count)
        if kind == "read":
            return Planned("read")
        if draw_below(100, seed, "shared", thread, count) < 15:
            name = f"shared-{draw_below(SHARED_NAMES, seed, 'name', thread, count)}"
            return Planned(kind, name, name)
        if kind == "delete":
            first = draw_below(_LOOK_BACK, seed, "victim", thread, count)
            for step in range(_LOOK_BACK):
                victim = count - 1 - (first + step) % _LOOK_BACK
                if victim >= 0 and _creates_unique(seed, thread, victim):
                    name = own_name(thread, victim)
                    return Planned("delete", name, name)
        name = own_name(thread, count)
        return Planned("create", name, name)

    def invoke(self, op: Op, client: ClientState) -> Invocation:
        """Execute ``op``."""
        if op.f == "create":
            return self._create(op, client)
        if op.f == "delete":
            return self._delete(op, client)
        return read_names(op, client, self.timeout_ms)

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        """Read every node's own view of the topics."""
        return [Planned("read", node=node, final=True) for node in nodes]

    def _create(self, op: Op, client: ClientState) -> Invocation:
        body = {
            "topics": [{"name": op.value, "num_partitions": 1, "replication_factor": -1}],
            "timeout_ms": self.timeout_ms,
        }
        return change(
            op, client, "CreateTopics", CREATE_TOPICS_VERSION, body, "topics", self.timeout_ms
        )

    def _delete(self, op: Op, client: ClientState) -> Invocation:
        body = {"topics": [{"name": op.value}], "timeout_ms": self.timeout_ms}
        return change(
            op, client, "DeleteTopics", DELETE_TOPICS_VERSION, body, "responses", self.timeout_ms
        )


def own_name(thread: int, count: int) -> str:
    """Return the name of the ``count``-th operation of ``thread``.

    None unless that operation creates a topic that only this client uses.
    """
    return f"t{thread}-{count % OWN_NAMES}"


def read_names(op: Op, client: ClientState, timeout_ms: int) -> Invocation:
    """Read all topic names: the controller's, or, for an operation with a node, that node's.

    Without a node the read counts only if the answering node reports itself as the controller.
    Topics of probes are left out.
    """
    request = metadata_request(None)
    if op.node is not None:
        node: str | None = op.node
        answer = yield kafka_call(op.node, "Metadata", METADATA_VERSION, request, timeout_ms)
    else:
        answer, node = yield from ask_controller(
            client, "Metadata", METADATA_VERSION, request, timeout_ms
        )
    if answer.status != "ok":
        return not_answered(answer, node, write=False)
    controller = client.ids.get(answer.response["controller_id"])
    if op.node is None and controller != node:
        client.leader = controller
        return Completion("fail", error="not-controller", node=node)
    topics = answer.response["topics"]
    bad = next((t for t in topics if t["error_code"] != errors.NONE), None)
    if bad is not None:
        return refused_by_node(client, int(bad["error_code"]), node, write=False)
    names = sorted(topic["name"] for topic in topics if not topic["name"].startswith(PREFIX))
    client.memory["topics"] = names
    note_partitions(client, topics)
    client.memory["brokers"] = sorted(broker["node_id"] for broker in answer.response["brokers"])
    return Completion("ok", names, node=node)


@lru_cache(maxsize=_REMEMBERED)
def _kind(seed: int, thread: int, count: int) -> str:
    percent = draw_below(100, seed, "kind", thread, count)
    if percent < 45:
        return "create"
    return "delete" if percent < 75 else "read"


@lru_cache(maxsize=_REMEMBERED)
def _creates_unique(seed: int, thread: int, count: int) -> bool:
    """Whether the operation ``count`` certainly created its own unique name."""
    shared = draw_below(100, seed, "shared", thread, count) < 15
    return not shared and _kind(seed, thread, count) == "create"


WORKLOAD = MetadataWorkload()
