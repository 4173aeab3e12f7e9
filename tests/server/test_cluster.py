"""Three processes: elections, kill -9, restarts, and running it all again from the logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftwreck.nodes.server.reexecution import replay
from tests.server.conftest import UNHURRIED


def test_acknowledged_changes_survive_the_leaders_death(
    three: Any, wait_until: Callable[..., Any]
) -> None:
    acknowledged = [name for name in (f"t{i}" for i in range(10)) if three.create(name) == 0]
    assert len(acknowledged) == 10
    first = three.controller()
    three.kill(first)
    second = three.controller()
    assert second != first
    assert set(acknowledged) <= set(three.topics(second))
    assert three.create("after") == 0

    three.start(first)
    complete = sorted([*acknowledged, "after"])
    for node in three.ports:
        wait_until(lambda n=node: sorted(three.topics(n)) == complete, f"node {node} caught up")
    assert {t["incarnation"] for t in three.traces(first)} == {1, 2}


def test_a_killed_follower_is_not_missed_and_catches_up(
    make_cluster: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    cluster = make_cluster(3, extra=UNHURRIED)
    cluster.start()
    leader = cluster.controller()
    follower = next(node for node in cluster.ports if node != leader)
    cluster.kill(follower)
    assert cluster.create("t") == 0
    cluster.start(follower)
    wait_until(lambda: cluster.topics(follower) == ["t"], "the follower caught up")
    assert cluster.controller() == leader


def test_without_a_majority_nothing_is_acknowledged(make_cluster: Callable[..., Any]) -> None:
    cluster = make_cluster(3, extra=UNHURRIED)
    cluster.start()
    leader = cluster.controller()
    for node in list(cluster.ports):
        if node != leader:
            cluster.kill(node)
    with cluster.client(leader) as client:
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
        answer = client.call("CreateTopics", 7, {"topics": [topic], "timeout_ms": 400})
    assert answer["topics"][0]["error_code"] == 7


def test_a_leader_that_is_asked_to_stop_hands_over_at_once(
    make_cluster: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    """The log is at rest before: an answer to a Fetch on its way lets a follower wait again."""
    hour = {
        "controller.quorum.fetch.timeout.ms": 3_600_000,
        "metadata.max.idle.interval.ms": 3_600_000,
    }
    cluster = make_cluster(3, extra=hour)
    cluster.start()
    leader = cluster.controller()

    registered = 4 + len(cluster.nodes)  # leader change, bootstrap, and each node

    def rests() -> bool:
        last = [list(cluster.traces(node))[-1] for node in cluster.nodes]
        return {line[end] for line in last for end in ("leo", "hw")} == {registered}

    wait_until(rests, "all have the whole log and know that it is committed")
    assert cluster.stop(leader) == 0
    assert cluster.controller() != leader, "its followers wait an hour before they miss it"


def test_the_whole_cluster_restarts_and_every_node_can_be_run_again(three: Any) -> None:
    three.create("a")
    three.kill(three.controller())
    three.create("b")
    for node in list(three.processes):
        three.kill(node)
    three.start()
    leader = three.controller()
    assert three.topics(leader) == ["a", "b"]
    for node in three.ports:
        three.kill(node)
        assert replay(three.path(node, "inputs.log")).mismatch is None


def test_traces_are_consistent(three: Any) -> None:
    three.create("t")
    three.kill(three.controller())
    three.create("u")
    leaders: dict[int, int] = {}
    for node in three.ports:
        traces = three.traces(node)
        assert [t["seq"] for t in traces] == list(range(len(traces)))
        assert traces == sorted(traces, key=lambda t: t["mono"])
        assert {t["node"] for t in traces} == {f"n{node}"}
        for trace in traces:
            if trace["state"] == "leader":
                assert leaders.setdefault(trace["epoch"], node) == node
    assert len(leaders) >= 2
