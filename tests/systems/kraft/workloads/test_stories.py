"""Stories: several steps on one topic, in order, and an end wherever one fails."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.harness.client import Answer
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState
from kraftwreck.systems.kraft.workloads.partitions import WORKLOAD
from kraftwreck.systems.kraft.workloads.phantoms import NO_EPOCH, phantoms_of
from kraftwreck.systems.kraft.workloads.probe_requests import PREFIX
from kraftwreck.systems.kraft.workloads.stories import STORIES, story_of

QUORUM = {"error_code": 0, "topics": [{"topic_name": "__cluster_metadata", "partitions": []}]}
BEAT = {"error_code": 0, "is_caught_up": True, "is_fenced": False, "should_shut_down": False}
DONE: dict[str, Any] = {
    "DescribeQuorum": QUORUM,
    "BrokerHeartbeat": BEAT,
    "CreateTopics": {
        "topics": [
            {
                "name": "t",
                "topic_id": b"t" * 16,
                "error_code": 0,
                "num_partitions": 1,
                "replication_factor": 1,
            }
        ]
    },
    "DeleteTopics": {"responses": [{"name": "t", "topic_id": b"t" * 16, "error_code": 0}]},
    "AlterPartitionReassignments": {
        "error_code": 0,
        "responses": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 0}]}],
    },
    "AlterPartition": {
        "error_code": 0,
        "topics": [
            {
                "topic_id": b"t" * 16,
                "partitions": [
                    {
                        "partition_index": 0,
                        "error_code": 0,
                        "leader_id": 1000,
                        "leader_epoch": 0,
                        "isr": [1000],
                        "leader_recovery_state": 0,
                        "partition_epoch": 1,
                    }
                ],
            }
        ],
    },
    "UpdateFeatures": {"error_code": 0, "results": []},
    "IncrementalAlterConfigs": {
        "responses": [{"error_code": 0, "resource_type": 2, "resource_name": "t"}]
    },
}


@pytest.fixture
def alive(client: ClientState) -> ClientState:
    client.leader = "n1"
    for place, phantom in enumerate(phantoms_of(client)):
        phantom.epoch = 10 + place
    return client


class Cluster:
    """Answers every request; the errors of ``codes`` come first, by API."""

    def __init__(self, script: Any, **codes: int) -> None:
        self._script, self._codes = script(), codes
        self.answers: list[Any] = []
        self.calls = self._script.calls

    def answer(self, call: Any) -> Any:
        given = DONE[call.api]
        code = self._codes.pop(call.api, 0)
        if code:
            given = {"topics": [{**given["topics"][0], "error_code": code}]}
        self._script.answers.append(given)
        return self._script.answer(call)


def told(drive: Any, cluster: Cluster, kind: str) -> Any:
    probe = {"kind": kind, "name": f"{PREFIX}-story0-1", "creates": True}
    return drive(WORKLOAD, "ask", cluster, value=probe)


@pytest.mark.parametrize("kind", STORIES)
def test_a_story_of_which_all_is_done(
    drive: Any, script: Any, alive: ClientState, kind: str
) -> None:
    cluster = Cluster(script)
    done = told(drive, cluster, kind)
    assert (done.type, done.value["kind"]) == ("ok", kind)
    asked = [call.api for call in cluster.calls]
    assert asked[:4] == ["DescribeQuorum", *["BrokerHeartbeat"] * 3]
    steps = [api for api in asked[4:] if api != "UpdateFeatures"]
    assert steps[0] == "CreateTopics"
    assert len(steps) > 1


def test_a_departed_broker_is_silent_for_a_while(
    drive: Any, script: Any, alive: ClientState
) -> None:
    told(drive, Cluster(script), "story-stranded")
    first = phantoms_of(alive)[0]
    assert first.quiet > 0
    silent = first.quiet
    cluster = Cluster(script)
    drive(WORKLOAD, "beat", cluster, value="serve")
    beaten = [c.body["broker_id"] for c in cluster.calls if c.api == "BrokerHeartbeat"]
    assert beaten == [1001, 1002]
    assert first.quiet == silent - 1
    assert told(drive, Cluster(script), "story-turned").error == "too few brokers"


def test_a_stopping_broker_sends_no_other_requests(
    drive: Any, script: Any, alive: ClientState
) -> None:
    class Deaf(Cluster):
        def answer(self, call: Any) -> Any:
            if call.api == "BrokerHeartbeat" and call.body["want_shut_down"]:
                return Answer("lost", {}, "request-timed-out")
            return super().answer(call)

    assert told(drive, Deaf(script), "story-halted").type == "info"
    alive.leader = "n1"
    drive(WORKLOAD, "beat", cluster := Cluster(script), value="serve")
    wants = [c.body["want_shut_down"] for c in cluster.calls if c.api == "BrokerHeartbeat"]
    assert wants == [True, False, False]


def test_a_scripted_broker_returns_from_a_shutdown_as_another_process(
    drive: Any, script: Any, alive: ClientState
) -> None:
    before = phantoms_of(alive)[0].incarnation
    assert told(drive, Cluster(script), "story-halted").type == "ok"
    assert phantoms_of(alive)[0].incarnation != before


def test_a_topic_of_an_earlier_story_goes_first(
    drive: Any, script: Any, alive: ClientState
) -> None:
    cluster = Cluster(script, CreateTopics=errors.TOPIC_ALREADY_EXISTS)
    assert told(drive, cluster, "story-turned").type == "ok"
    asked = [call.api for call in cluster.calls]
    assert asked[4:7] == ["CreateTopics", "DeleteTopics", "CreateTopics"]


def test_a_story_ends_with_the_step_that_failed(
    drive: Any, script: Any, alive: ClientState
) -> None:
    cluster = Cluster(script, CreateTopics=errors.INVALID_REQUEST)
    done = told(drive, cluster, "story-partial")
    assert (done.type, done.error) == ("fail", "invalid-request")
    assert cluster.calls[-1].api == "CreateTopics"


def test_stories_use_their_own_topics() -> None:
    values = [story_of(7, thread, count, 64) for thread in range(4) for count in range(200)]
    assert {value["kind"] for value in values} == set(STORIES)
    assert all(value["name"].startswith(f"{PREFIX}-story") for value in values)
    assert all(value["creates"] for value in values)


def test_a_story_forbids_to_resize_only_where_it_keeps_the_number_of_replicas(
    drive: Any, script: Any, alive: ClientState
) -> None:
    """The number is that of the reassignment in progress, in which more replicas take part."""
    forbidden = 0
    for number in range(40):
        cluster, factor = Cluster(script), 0
        probe = {"kind": "story-partial", "name": f"{PREFIX}-story{number}-1", "creates": True}
        drive(WORKLOAD, "ask", cluster, value=probe)
        for call in cluster.calls:
            if call.api == "CreateTopics":
                factor = len(call.body["topics"][0]["assignments"][0]["broker_ids"])
            elif call.api == "AlterPartitionReassignments":
                wanted = call.body["topics"][0]["partitions"][0]["replicas"]
                if not call.body["allow_replication_factor_change"]:
                    forbidden += 1
                    assert len(wanted) == factor
                factor = factor if wanted is None else len(wanted)
    assert forbidden


def asked_for(drive: Any, script: Any, kind: str, number: int) -> list[Any]:
    cluster = Cluster(script)
    probe = {"kind": kind, "name": f"{PREFIX}-story{number}-1", "creates": True}
    drive(WORKLOAD, "ask", cluster, value=probe)
    return list(cluster.calls)


def test_a_replaced_process_sends_the_heartbeats_of_a_silent_broker(
    drive: Any, script: Any, alive: ClientState
) -> None:
    class Strict(Cluster):
        def answer(self, call: Any) -> Any:
            if call.api == "BrokerHeartbeat" and call.body["broker_epoch"] == 3:
                self._script.answers.append({"error_code": errors.STALE_BROKER_EPOCH})
                return self._script.answer(call)
            return super().answer(call)

    first = phantoms_of(alive)[0]
    first.old_epochs = [3]
    for number in range(20):
        asked_for(drive, script, "story-halted", number)
        if first.haunted != NO_EPOCH:
            break
        first.quiet, first.epoch, first.old_epochs = 0, 10, [3]  # It was stopped instead.
    assert first.haunted == 3 and first.quiet > 1
    silent = first.quiet
    for _ in range(silent + 1):
        drive(WORKLOAD, "beat", cluster := Strict(script), value="serve")
        beats = [c.body for c in cluster.calls if c.api == "BrokerHeartbeat"]
        assert beats[0]["broker_id"] == 1000
        assert beats[0]["broker_epoch"] == (3 if silent > 0 else 10)
        silent -= 1
    assert (first.epoch, first.quiet, first.haunted) == (10, 0, NO_EPOCH)


def test_the_number_of_replicas_in_sync_is_also_changed_for_all_topics(
    drive: Any, script: Any, alive: ClientState
) -> None:
    changed = [
        (resource["resource_type"], resource["resource_name"])
        for number in range(20)
        for call in asked_for(drive, script, "story-dropped", number)
        if call.api == "IncrementalAlterConfigs"
        for resource in call.body["resources"]
    ]
    assert (4, "") in changed
    assert {kind for kind, name in changed if name} == {2}


def test_a_heartbeat_of_before_a_shutdown_arrives_after_a_silence(
    drive: Any, script: Any, alive: ClientState
) -> None:
    assert told(drive, Cluster(script), "story-late").type == "ok"
    first = phantoms_of(alive)[0]
    assert first.quiet
    assert first.stopping
    wants = []
    for _ in range(first.quiet + 2):
        drive(WORKLOAD, "beat", cluster := Cluster(script), value="serve")
        wants += [
            call.body["want_shut_down"]
            for call in cluster.calls
            if call.api == "BrokerHeartbeat" and call.body["broker_id"] == first.id
        ]
    assert wants == [False, True]
