"""UpdateFeatures, and what it means for who may join."""

from __future__ import annotations

from typing import Any

import pytest

NONE, TIMED_OUT, BAD_CONFIG, BAD_REQUEST, REFUSED = 0, 7, 40, 42, 95
UPGRADE, SAFE, UNSAFE = 1, 2, 3
ELR, MV, KRAFT = "eligible.leader.replicas.version", "metadata.version", "kraft.version"
COMMIT = "commit.mode.version"


def level_record(name: str, level: int) -> tuple[str, int, dict[str, Any]]:
    return ("FeatureLevelRecord", 0, {"name": name, "feature_level": level})


def update(rig: Any, *updates: tuple[str, int, int], validate_only: bool = False) -> int:
    body = {
        "feature_updates": [
            {"feature": name, "max_version_level": level, "upgrade_type": kind}
            for name, level, kind in updates
        ],
        "validate_only": validate_only,
    }
    code: int = rig.call("UpdateFeatures", 2, body)["error_code"]
    return code


def levels(rig: Any) -> dict[str, int]:
    return dict(rig.image.stable.features)


@pytest.mark.parametrize(
    ("start", "level", "kind", "code"),
    [
        (25, 27, UPGRADE, NONE),
        (25, 25, UPGRADE, NONE),
        (25, 28, UPGRADE, REFUSED),  # unknown here
        (25, 6, SAFE, REFUSED),
        (25, 0, SAFE, REFUSED),
        (25, -1, UPGRADE, REFUSED),
        (25, 24, UPGRADE, REFUSED),  # a downgrade must be asked for
        (25, 24, SAFE, NONE),
        (25, 23, SAFE, NONE),
        (25, 22, SAFE, REFUSED),  # 23 brought fields that would be lost
        (25, 22, UNSAFE, REFUSED),  # Kafka refuses that, too
        (22, 18, SAFE, NONE),
        (22, 17, SAFE, NONE),
        (22, 16, SAFE, REFUSED),
        (12, 11, SAFE, NONE),
        (12, 10, SAFE, REFUSED),
        (25, 26, SAFE, REFUSED),  # no downgrade
        (25, 26, UNSAFE, REFUSED),
        (25, 26, 9, BAD_REQUEST),
    ],
)
def test_the_metadata_version(make_rig: Any, start: int, level: int, kind: int, code: int) -> None:
    rig = make_rig(bootstrap=[level_record(MV, start)])
    rig.lead()
    assert update(rig, (MV, level, kind)) == code
    assert levels(rig)[MV] == (level if code == NONE else start)


def test_every_registered_node_must_support_the_level(rig: Any) -> None:
    rig.register(1, features={MV: (7, 26)})
    assert update(rig, (MV, 27, UPGRADE)) == REFUSED
    assert update(rig, (MV, 26, UPGRADE)) == NONE
    rig.call("UnregisterBroker", 0, {"broker_id": 1})
    features = [{"name": MV, "min_supported_version": 25, "max_supported_version": 26}]
    body = {"controller_id": 2, "incarnation_id": bytes(16), "listeners": [], "features": features}
    assert rig.call("ControllerRegistration", 0, body)["error_code"] == NONE
    assert update(rig, (MV, 27, UPGRADE)) == REFUSED
    assert update(rig, (MV, 24, SAFE)) == REFUSED
    assert update(rig, (MV, 25, SAFE)) == NONE


def test_an_unknown_feature(rig: Any) -> None:
    assert update(rig, ("no.such.version", 1, UPGRADE)) == REFUSED


def test_all_levels_of_a_request_or_none(rig: Any) -> None:
    assert update(rig, (MV, 27, UPGRADE), (ELR, 2, UPGRADE)) == REFUSED
    assert levels(rig) == {MV: 25}
    assert update(rig, (MV, 27, UPGRADE), (ELR, 1, UPGRADE)) == NONE
    assert levels(rig) == {MV: 27, ELR: 1}
    assert update(rig, (MV, 27, UPGRADE), (MV, 26, SAFE)) == BAD_REQUEST


def test_validation_changes_nothing(rig: Any) -> None:
    assert update(rig, (MV, 27, UPGRADE), validate_only=True) == NONE
    assert update(rig, (MV, 28, UPGRADE), validate_only=True) == REFUSED
    assert levels(rig) == {MV: 25}


@pytest.mark.parametrize("version", [0, 1])
def test_older_requests_get_a_result_per_feature(rig: Any, version: int) -> None:
    def ask(level: int, downgrade: bool) -> list[int]:
        update = {
            "feature": MV,
            "max_version_level": level,
            "allow_downgrade": downgrade,
            "upgrade_type": SAFE if downgrade else UPGRADE,
        }
        answer = rig.call("UpdateFeatures", version, {"feature_updates": [update]})
        return [result["error_code"] for result in answer["results"]]

    assert ask(24, False) == [REFUSED]
    assert ask(24, True) == [NONE]
    assert ask(27, False) == [NONE]
    assert levels(rig) == {MV: 27}


def test_eligible_leader_replicas_need_the_metadata_for_it(make_rig: Any) -> None:
    rig = make_rig(bootstrap=[level_record(MV, 22)])
    rig.lead()
    assert update(rig, (ELR, 1, UPGRADE)) == REFUSED
    assert update(rig, (ELR, 1, UPGRADE), (MV, 23, UPGRADE)) == NONE
    assert update(rig, (ELR, 0, SAFE)) == NONE
    assert levels(rig) == {MV: 23}


def test_switching_elr_on_writes_the_minimum_down_and_guards_it(make_rig: Any) -> None:
    rig = make_rig(min_insync_replicas=2)
    rig.lead()
    rig.start(1)
    rig.create("t")
    assert rig.alter("1", "min.insync.replicas", 0, "3", 4)["error_code"] == NONE
    assert rig.alter("1", "min.insync.replicas", 1, None, 4)["error_code"] == NONE
    assert update(rig, (ELR, 1, UPGRADE)) == NONE
    assert rig.image.stable.configs[4, ""] == {"min.insync.replicas": "2"}
    assert rig.alter("1", "min.insync.replicas", 0, "3", 4)["error_code"] == BAD_CONFIG
    assert rig.alter("", "min.insync.replicas", 1, None, 4)["error_code"] == BAD_CONFIG
    mark = len(rig.records())
    assert rig.alter("", "min.insync.replicas", 0, "3", 4)["error_code"] == NONE
    assert rig.alter("t", "min.insync.replicas", 0, "1")["error_code"] == NONE
    assert rig.alter("t", "retention.ms", 0, "1")["error_code"] == NONE
    assert rig.since(mark) == ["ConfigRecord", "ClearElrRecord"] * 2 + ["ConfigRecord"]


def test_a_broker_without_elr_cannot_join_where_it_is_on(rig: Any) -> None:
    assert update(rig, (ELR, 1, UPGRADE)) == NONE
    body = rig.registration(1)
    body["features"] = [f for f in body["features"] if f["name"] == MV]
    assert rig.call("BrokerRegistration", 4, body)["error_code"] == 35


def test_kraft_version_is_the_quorums(rig: Any) -> None:
    """It goes up when all voters can, is no record, and never comes down."""
    assert update(rig, (KRAFT, 1, UPGRADE)) == REFUSED
    rig.quorum.voters_fault = None
    assert update(rig, (KRAFT, 1, UPGRADE), validate_only=True) == NONE
    assert rig.quorum.kraft_version == 0
    assert update(rig, (KRAFT, 2, UPGRADE)) == REFUSED
    mark = len(rig.records())
    assert update(rig, (KRAFT, 1, UPGRADE)) == NONE
    assert rig.quorum.kraft_version == 1
    assert rig.since(mark) == []
    rig.quorum.voters_fault = "it never goes down"
    assert update(rig, (KRAFT, 0, SAFE)) == REFUSED
    answer = rig.call("ApiVersions", 4, {})
    finalized = {f["name"]: f["max_version_level"] for f in answer["finalized_features"]}
    assert finalized == {KRAFT: 1, MV: 25}


def test_a_kraft_version_is_acknowledged_when_it_is_committed(rig: Any) -> None:
    rig.quorum.voters_fault = None
    update = {"feature": KRAFT, "max_version_level": 1, "upgrade_type": UPGRADE}
    token = rig.ask("UpdateFeatures", 2, {"feature_updates": [update]})
    rig.wait(5)
    control, barrier = rig.quorum.uncommitted
    rig.quorum.uncommitted = [barrier]
    rig.deliver(control)
    assert not rig.answered(token)
    rig.commit()
    assert rig.answers[token]["error_code"] == NONE


def test_a_kraft_version_that_loses_its_leader_may_have_been_changed(rig: Any) -> None:
    rig.quorum.voters_fault = None
    update = {"feature": KRAFT, "max_version_level": 1, "upgrade_type": UPGRADE}
    token = rig.ask("UpdateFeatures", 2, {"feature_updates": [update]})
    rig.wait(5)
    rig.follow(2, 2)
    rig.collect()
    assert rig.answers[token]["error_code"] == TIMED_OUT


def commit_broker(rig: Any) -> None:
    """Bring a broker into service that supports quorum commit."""
    rig.register(1, features={COMMIT: (0, 1)})
    rig.heartbeat(1)


def quorum_topic(rig: Any, name: str = "t", mode: str = "quorum") -> int:
    topic = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "configs": [{"name": "commit.mode", "value": mode}],
    }
    answer = rig.call("CreateTopics", 7, {"topics": [topic]})
    code: int = answer["topics"][0]["error_code"]
    return code


def set_mode(rig: Any, operation: int, value: str | None) -> int:
    config = {"name": "commit.mode", "config_operation": operation, "value": value}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
    answer = rig.call("IncrementalAlterConfigs", 1, {"resources": [resource]})
    code: int = answer["responses"][0]["error_code"]
    return code


def test_a_quorum_commits_only_where_all_nodes_know_of_it(rig: Any) -> None:
    commit_broker(rig)
    assert quorum_topic(rig) == BAD_CONFIG
    assert quorum_topic(rig, mode="majority") == BAD_CONFIG
    assert quorum_topic(rig, "plain", "isr") == NONE
    assert update(rig, (COMMIT, 1, UPGRADE)) == NONE
    assert quorum_topic(rig) == NONE


def test_a_broker_that_does_not_know_quorum_commit_keeps_it_off_and_is_kept_out(rig: Any) -> None:
    rig.register(1)
    assert update(rig, (COMMIT, 1, UPGRADE)) == REFUSED
    rig.call("UnregisterBroker", 0, {"broker_id": 1})
    assert update(rig, (COMMIT, 1, UPGRADE)) == NONE
    assert rig.register(2)["error_code"] == 35
    assert rig.register(2, features={COMMIT: (0, 1)})["error_code"] == NONE


def test_the_commit_mode_of_a_topic_stays_and_keeps_the_feature(rig: Any) -> None:
    commit_broker(rig)
    assert update(rig, (COMMIT, 1, UPGRADE)) == NONE
    assert quorum_topic(rig) == NONE
    assert set_mode(rig, 0, "isr") == BAD_CONFIG
    assert set_mode(rig, 1, None) == BAD_CONFIG
    assert set_mode(rig, 0, "quorum") == NONE
    resource = {"resource_type": 2, "resource_name": "t", "configs": []}
    answer = rig.call("AlterConfigs", 2, {"resources": [resource]})
    assert answer["responses"][0]["error_code"] == BAD_CONFIG
    assert update(rig, (COMMIT, 0, SAFE)) == REFUSED
    rig.call("DeleteTopics", 6, {"topics": [{"name": "t", "topic_id": bytes(16)}]})
    assert update(rig, (COMMIT, 0, SAFE)) == NONE
