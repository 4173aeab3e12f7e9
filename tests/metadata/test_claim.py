"""A whole node: the controller claims nothing before its image is up to the log (KAFKA-15345)."""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.nodes.consensus.effects import Tick, Trace
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.metadata.loader import WORK_RECORDS
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.protocol.records import encode_record

BACKLOG = 5 * WORK_RECORDS


def backlog() -> list[bytes]:
    """Return a log of an earlier leader, too long for one step of the loader."""
    level = encode_record(
        "FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": 25}
    )
    no_op = encode_record("NoOpRecord", 0, {})
    batches = [encode_batch(0, 1, 0, [(None, level)], False)]
    batches += [encode_batch(n, 1, 0, [(None, no_op)], False) for n in range(1, BACKLOG)]
    return batches


def test_a_new_leader_claims_when_it_has_applied_everything_before_its_epoch() -> None:
    endpoint = Endpoint("127.0.0.1", 9093)
    config = NodeConfig(1, "cluster", b"d" * 16, {1: endpoint}, listener=endpoint)
    node = Node(config, Recovered(batches=backlog()), 0, 0)
    claims: list[tuple[int, int]] = []
    led_before_claim = 0

    def watch(effects: Sequence[NodeEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Trace) and effect.kind == "claim":
                claims.append((node.image.committed_offset, effect.detail["epoch_start"]))

    watch(node.start(0, 0))
    for _ in range(10_000):
        if claims:
            break
        now = node.deadline
        watch(node.step(Tick(), now, now // 1000))
        led_before_claim += node.replica.is_leader and not node.controller.is_active
    [(committed, epoch_start)] = claims
    assert led_before_claim > 1, "the backlog takes several steps"
    assert epoch_start == BACKLOG
    assert committed >= epoch_start
