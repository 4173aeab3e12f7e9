"""Request every node's claim of leadership continuously: is there one leader per epoch?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraftwreck.checkers.floor import Floor
from kraftwreck.harness.client import Completion, Invocation
from kraftwreck.harness.generator import Planned
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState, KraftWorkload, kafka_call
from kraftwreck.systems.kraft.workloads.controller import error_name, not_answered

DESCRIBE_QUORUM_VERSION: Final = 1
METADATA_TOPIC: Final = "__cluster_metadata"
_NOT_LEADING: Final = frozenset({errors.NOT_LEADER_OR_FOLLOWER, errors.NOT_CONTROLLER})


class LeaderWorkload(KraftWorkload):
    """Each client sends DescribeQuorum to the nodes in turn.

    ``leader`` answers ``{"leader", "epoch", "hw", "node"}`` (a claim when ``leader`` is ``node``,
    which is null for a broker), or null when the node does not lead.
    """

    name = "leader"
    about = "request every node's leader and epoch"
    checkers: Sequence[str] = ("stats", "invariants")
    floor = Floor(share=0.5)  # Every node can answer, even without a leader.

    def __init__(self, timeout_ms: int = 1000) -> None:
        self.timeout_ms = timeout_ms

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        """Return the ``count``-th operation of ``thread``."""
        return Planned("leader")

    def invoke(self, op: Op, client: ClientState) -> Invocation:
        """Execute ``op``."""
        node = op.node or client.nodes[(client.thread + client.calls) % len(client.nodes)]
        client.calls += 1
        partition = {"partition_index": 0}
        answer = yield kafka_call(
            node=node,
            api="DescribeQuorum",
            version=DESCRIBE_QUORUM_VERSION,
            body={"topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}]},
            timeout_ms=self.timeout_ms,
        )
        if answer.status != "ok":
            return not_answered(answer, node, write=False)
        topics = answer.response["topics"]
        found = topics[0]["partitions"][0] if topics and topics[0]["partitions"] else {}
        code = answer.response["error_code"] or found.get("error_code", errors.NONE)
        if code in _NOT_LEADING:
            return Completion("ok", None, node=node)
        if code != errors.NONE or not found:
            return Completion("fail", error=error_name(code), node=node)
        asked = next((number for number, name in client.ids.items() if name == node), None)
        claim = {
            "leader": found["leader_id"],
            "epoch": found["leader_epoch"],
            "hw": found["high_watermark"],
            "node": asked,
        }
        return Completion("ok", claim, node=node)

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        """Send the request to every node once more."""
        return [Planned("leader", node=node, final=True) for node in nodes]


WORKLOAD = LeaderWorkload()
