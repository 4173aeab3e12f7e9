"""Dynamic quorums (KIP-853) of both kinds: Apache Kafka's tool changes the voters.

A controller of one kind begins alone. Controllers of the other kind join it by its snapshot, which
contains the voters. One is removed and added again. Finally the leader itself is removed, and the
others continue without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.oracle.images import snapshots
from kraftwreck.oracle.java import Ran, run_tool
from kraftwreck.oracle.quorum import CLUSTER_ID, KAFKA, OURS, Quorum, wait_until
from kraftwreck.oracle.silent_broker import SilentBroker

pytestmark = pytest.mark.oracle
Tool = Callable[..., Ran]
TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
BROKER = 100
PROPERTIES = {
    "metadata.log.max.record.bytes.between.snapshots": 2000,
    "metadata.max.idle.interval.ms": 100,
}
AUTO_JOIN = {"controller.quorum.auto.join.enable": "true"}
RELEASE = ("--release-version", "4.0")


def voters(quorum: Quorum, tool: Tool) -> dict[int, str]:
    """Return id → directory id of the voters, as the tool reports them."""
    said = tool(TOOL, "--bootstrap-controller", quorum.addresses(), "describe", "--status").stdout
    match = re.search(r"^CurrentVoters: +(\[.*\])$", said, re.MULTILINE)
    assert match, said
    found: list[dict[str, Any]] = json.loads(match[1])
    return {voter["id"]: voter["directoryId"] for voter in found}


def add(quorum: Quorum, tool: Tool, node: int) -> None:
    config = str(quorum.controllers[node].config)
    bootstrap = ("--bootstrap-controller", quorum.addresses())
    said = tool(TOOL, "--command-config", config, *bootstrap, "add-controller").stdout
    assert f"Added controller {node} with directory id {quorum.directory_id(node)}" in said


def remove(quorum: Quorum, tool: Tool, node: int) -> None:
    said = tool(
        *(TOOL, "--bootstrap-controller", quorum.addresses(), "remove-controller"),
        *("--controller-id", str(node), "--controller-directory-id", quorum.directory_id(node)),
    ).stdout
    assert f"controller {node} with directory id {quorum.directory_id(node)}" in said


def expected(quorum: Quorum, *nodes: int) -> dict[int, str]:
    return {node: quorum.directory_id(node) for node in nodes}


def wait_for_observers(quorum: Quorum, *nodes: int) -> None:
    """Wait until the leader has heard from these and they have its log."""

    def caught_up() -> bool:
        partition = quorum.describe(quorum.leader())
        if partition is None:
            return False
        has = {o["replica_id"]: o["log_end_offset"] for o in partition["observers"]}
        goal = partition["high_watermark"] - 20  # an idle leader appends all the time
        return all(has.get(node, -1) >= goal for node in nodes)

    wait_until(f"{nodes} observe", caught_up)


def create(quorum: Quorum, prefix: str) -> list[str]:
    names = [f"{prefix}-{number}" for number in range(10)]
    for name in names:
        assert quorum.create_topic(name, num_partitions=3) == 0
    return names


@pytest.mark.parametrize(("first", "joining"), [(KAFKA, OURS), (OURS, KAFKA)])
def test_members_of_the_other_kind_come_and_the_first_leader_goes(
    make_quorum: Callable[..., Quorum], tool: Tool, first: str, joining: str
) -> None:
    quorum = make_quorum(
        *(first, joining, joining), properties=PROPERTIES, format_options=RELEASE, initial=[1]
    )
    with quorum, SilentBroker(BROKER, 9092, CLUSTER_ID, list(quorum.ports.values())) as broker:
        quorum.start(1)
        assert quorum.leader() == 1
        assert broker.unfenced.wait(60)
        topics = create(quorum, "alone")
        wait_until("a snapshot", lambda: snapshots(quorum.controllers[1].log))

        quorum.start(2, 3)
        wait_for_observers(quorum, 2, 3)
        assert voters(quorum, tool) == expected(quorum, 1)
        add(quorum, tool, 2)
        add(quorum, tool, 3)
        assert voters(quorum, tool) == expected(quorum, 1, 2, 3)
        topics += create(quorum, "three")

        remove(quorum, tool, 2)
        assert voters(quorum, tool) == expected(quorum, 1, 3)
        wait_for_observers(quorum, 2)
        add(quorum, tool, 2)

        remove(quorum, tool, 1)
        leader = quorum.leader([2, 3])
        wait_for_observers(quorum, 1)
        assert voters(quorum, tool) == expected(quorum, 2, 3)
        for name in topics:
            assert quorum.has_topic(leader, name)
        create(quorum, "others")
        assert all(controller.running for controller in quorum.controllers.values())


@pytest.mark.parametrize(("first", "joining"), [(KAFKA, OURS), (OURS, KAFKA)])
def test_a_controller_of_the_other_kind_joins_by_itself(
    make_quorum: Callable[..., Quorum], tool: Tool, first: str, joining: str
) -> None:
    quorum = make_quorum(
        *(first, joining),
        properties={**PROPERTIES, **AUTO_JOIN},
        format_options=RELEASE,
        initial=[1],
    )
    with quorum:
        quorum.start()
        quorum.leader()
        wait_until("two voters", lambda: len(quorum.end_offsets()) == 2)
        assert voters(quorum, tool) == expected(quorum, 1, 2)


def test_both_kinds_are_formatted_as_the_first_voters(
    make_quorum: Callable[..., Quorum], tool: Tool
) -> None:
    quorum = make_quorum(KAFKA, OURS, OURS, format_options=RELEASE, initial=[1, 2, 3])
    with quorum:
        quorum.start()
        leader = quorum.leader()
        assert voters(quorum, tool) == expected(quorum, 1, 2, 3)
        quorum.kill(leader)
        assert quorum.leader() != leader


@pytest.mark.parametrize("first", [KAFKA, OURS])
def test_a_static_quorum_of_both_kinds_becomes_dynamic(
    make_quorum: Callable[..., Quorum], tool: Tool, first: str
) -> None:
    other = OURS if first == KAFKA else KAFKA
    quorum = make_quorum(first, first, other, format_options=RELEASE)
    with quorum:
        quorum.start(1, 2)
        leader = quorum.leader()
        quorum.start(3)
        bootstrap = ("--bootstrap-controller", quorum.addresses())
        wait_until("three voters", lambda: min(quorum.end_offsets().values()) > 0)
        upgrade = (FEATURES, *bootstrap, "upgrade", "--feature", "kraft.version=1")
        # The voters tell the leader their versions and directories every 4 s.
        wait_until("kraft.version 1", lambda: run_tool(*upgrade).status == 0)
        assert voters(quorum, tool) == expected(quorum, 1, 2, 3)
        follower = 1 if leader == 2 else 2
        remove(quorum, tool, follower)
        assert voters(quorum, tool) == expected(quorum, leader, 3)
