"""Registering and unregistering brokers and controllers."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.nodes.log.batch import decode_batch
from kraftwreck.nodes.metadata import registration as registration_module
from kraftwreck.nodes.metadata.controllers import ControllerIdentity
from kraftwreck.nodes.metadata.image_values import Listener
from kraftwreck.nodes.metadata.operation import Record

NONE, UNSUPPORTED, BAD_REQUEST = 0, 35, 42
STALE, DUPLICATE, NOT_REGISTERED, OTHER_CLUSTER, UNKNOWN_CONTROLLER, INVALID = (
    77,
    101,
    102,
    104,
    116,
    119,
)
SESSION_MS = 9000
REGISTER = "RegisterBrokerRecord"


def registered_in(rig: Any) -> list[tuple[int, int]]:
    """Return (first offset of its batch, epoch) of every registration in the log."""
    found = []
    for batch in rig.committed_batches:
        header, values = decode_batch(batch)
        if not header.is_control:
            for name, fields in rig.decoded(values):
                if name == REGISTER:
                    found.append((header.base_offset, fields["broker_epoch"]))
    return found


def test_a_broker_starts_fenced_with_the_offset_of_its_batch_as_epoch(rig: Any) -> None:
    answer = rig.register(1)
    assert answer["error_code"] == NONE
    broker = rig.image.stable.brokers[1]
    assert broker.fenced and not broker.in_controlled_shutdown
    assert registered_in(rig) == [(answer["broker_epoch"], answer["broker_epoch"])]


def test_the_epoch_of_a_registration_among_other_appends(rig: Any) -> None:
    """Control batches and uncommitted records lie in between; the epoch is still the offset."""
    rig.ask("CreateTopics", 7, rig.creation("t", num_partitions=3))
    rig.quorum.control_batch()
    answer = rig.register(1)
    assert registered_in(rig) == [(answer["broker_epoch"], answer["broker_epoch"])]


def test_the_same_process_keeps_its_epoch_and_state(rig: Any) -> None:
    """KAFKA-16952."""
    rig.start(1, 2)
    rig.create("t", num_partitions=4, replication_factor=2)
    rig.heartbeat(1, want_shut_down=True)
    before = rig.image.stable.brokers[1]
    again = rig.register(1, listeners=[{"name": "PLAINTEXT", "host": "new", "port": 1}])
    after = rig.image.stable.brokers[1]
    assert again["broker_epoch"] == before.epoch == after.epoch
    assert (after.fenced, after.in_controlled_shutdown) == (False, True)
    assert after.endpoints == (Listener("PLAINTEXT", "new", 1),)


def test_another_process_waits_for_the_session_of_the_first_to_end(rig: Any) -> None:
    rig.start(1)
    assert rig.register(1, process=2)["error_code"] == DUPLICATE
    rig.heartbeat(1, want_shut_down=True)
    assert rig.register(1, process=2)["error_code"] == DUPLICATE, "stopping is no exception"
    first = rig.image.brokers[1].epoch
    rig.wait(SESSION_MS)
    rig.commit()
    answer = rig.register(1, process=2)
    assert answer["error_code"] == NONE
    assert answer["broker_epoch"] > first
    assert rig.heartbeat(1, broker_epoch=first)["error_code"] == STALE


def test_a_new_controller_counts_every_session_as_valid_at_first(rig: Any) -> None:
    rig.start(1)
    rig.wait(SESSION_MS)
    rig.follow(2, 2)
    rig.lead(3)
    assert rig.register(1, process=2)["error_code"] == DUPLICATE


def test_the_predecessor_leaves_its_partitions_before_the_registration(rig: Any) -> None:
    rig.start(1, 2)
    rig.create("t", num_partitions=2, replication_factor=2)
    rig.wait(SESSION_MS - 100)
    rig.heartbeat(2)
    rig.now += 200_000  # the session has ended; the next check comes later
    mark = len(rig.records())
    assert rig.register(1, process=2)["error_code"] == NONE
    assert rig.since(mark) == ["PartitionChangeRecord", "PartitionChangeRecord", REGISTER]
    for partition in rig.image.partitions.values():
        assert (partition.leader, partition.isr) == (2, (2,))
    [*_, (base, epoch)] = registered_in(rig)
    assert base == epoch, "where the batch begins, not the record"


@pytest.mark.parametrize("clean", [True, False])
def test_an_unclean_restart_makes_no_eligible_leader(make_rig: Any, clean: bool) -> None:
    """KIP-966: its log may have lost its end."""
    level = ("FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": 25})
    elr = ("FeatureLevelRecord", 0, {**level[2], "name": "eligible.leader.replicas.version"})
    elr[2]["feature_level"] = 1
    rig = make_rig(bootstrap=[level, elr], min_insync_replicas=2)
    rig.lead()
    rig.start(1, 2)
    rig.create("t", num_partitions=1, replication_factor=2)
    epoch = rig.image.brokers[1].epoch
    rig.wait(SESSION_MS - 100)
    rig.heartbeat(2)
    rig.wait(2000)
    rig.commit()
    [partition] = rig.image.partitions.values()
    assert (partition.isr, partition.elr) == ((2,), (1,))
    previous = epoch if clean else -1
    assert rig.register(1, process=2, previous_broker_epoch=previous)["error_code"] == NONE
    [partition] = rig.image.partitions.values()
    assert partition.elr == ((1,) if clean else ())


def test_a_broker_that_returns_unregistered_may_have_lost_its_log(rig: Any) -> None:
    """The last member of an ISR is unregistered; then eligible leader replicas are enabled, and
    no broker may lead after an unclean stop."""
    rig.start(1, 2)
    rig.create("t", assignments=[{"partition_index": 0, "broker_ids": [1]}])
    assert rig.call("UnregisterBroker", 0, {"broker_id": 1})["error_code"] == NONE
    [partition] = rig.image.partitions.values()
    assert (partition.leader, partition.isr) == (-1, (1,)), "without ELR the last member stays"
    name = "eligible.leader.replicas.version"
    update = {"feature": name, "max_version_level": 1, "upgrade_type": 1}
    body = {"feature_updates": [update], "validate_only": False}
    assert rig.call("UpdateFeatures", 1, body)["error_code"] == NONE
    assert rig.register(1, process=2)["error_code"] == NONE
    rig.heartbeat(1)
    [partition] = rig.image.partitions.values()
    assert 1 not in partition.elr
    assert (partition.leader, partition.isr) == (-1, ())


def test_a_long_clean_up_keeps_the_registration_at_the_start_of_a_batch_of_its_epoch(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.register(1)
    rig.wait(SESSION_MS)
    rig.commit()
    for count in (9_999, 10_000, 20_001):
        records: list[Record] = [("NoOpRecord", 0, {})] * count
        monkeypatch.setattr(
            registration_module, "changes_for_shutdown", lambda *_, r=records: list(r)
        )
        rig.wait(SESSION_MS)
        rig.commit()
        assert rig.register(1, process=count % 7 + 2)["error_code"] == NONE
        base, epoch = registered_in(rig)[-1]
        assert base == epoch


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"cluster_id": "another"}, OTHER_CLUSTER),
        ({"is_migrating_zk_broker": True}, NOT_REGISTERED),
        ({"log_dirs": []}, INVALID),
        ({"log_dirs": [bytes(15) + b"\x05"]}, INVALID),
        ({"log_dirs": [bytes((9,)) * 16] * 2}, INVALID),
        ({"log_dirs": [bytes((100, 2)) * 8]}, INVALID),  # broker 2's
        ({"features": {"metadata.version": (7, 24)}}, UNSUPPORTED),
        ({"features": {"metadata.version": (26, 27)}}, UNSUPPORTED),
    ],
)
def test_refused_registrations(rig: Any, options: dict[str, Any], code: int) -> None:
    rig.register(2)
    mark = len(rig.records())
    answer = rig.register(1, **options)
    assert (answer["error_code"], answer["broker_epoch"]) == (code, -1)
    assert rig.since(mark) == []


def test_a_broker_must_say_which_metadata_it_reads(rig: Any) -> None:
    body = rig.registration(1)
    body["features"] = [f for f in body["features"] if f["name"] != "metadata.version"]
    assert rig.call("BrokerRegistration", 4, body)["error_code"] == INVALID


@pytest.mark.parametrize(("level", "version"), [(7, 1), (8, 2), (16, 2), (17, 3), (27, 3)])
def test_the_record_is_written_at_the_version_of_the_metadata(
    make_rig: Any, level: int, version: int
) -> None:
    rig = make_rig(
        bootstrap=[("FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": level})]
    )
    rig.lead()
    rig.start(1)
    dirs = rig.image.stable.brokers[1].log_dirs
    assert bool(dirs) == (version == 3)
    assert rig.image.brokers[1].log_dirs == dirs, "followers read what the leader has applied"
    assert (level, rig.record_versions()[REGISTER]) == (level, version)
    assert rig.record_versions()["BrokerRegistrationChangeRecord"] == (2 if level >= 17 else 1)


def test_an_unregistered_broker_is_removed_everywhere(rig: Any) -> None:
    rig.start(1, 2)
    rig.create("t", num_partitions=2, replication_factor=2)
    epoch = rig.image.brokers[1].epoch
    assert rig.call("UnregisterBroker", 0, {"broker_id": 1})["error_code"] == NONE
    assert list(rig.image.stable.brokers) == [2]
    assert all(1 not in p.isr for p in rig.image.partitions.values())
    assert rig.call("UnregisterBroker", 0, {"broker_id": 1})["error_code"] == NOT_REGISTERED
    assert rig.heartbeat(1, broker_epoch=epoch)["error_code"] == NOT_REGISTERED
    again = rig.register(1, process=2)
    assert again["error_code"] == NONE, "there is no session to wait for"
    assert again["broker_epoch"] > epoch


def test_producer_ids_are_taken_in_the_log_before_they_are_given(rig: Any) -> None:
    """KIP-730."""
    rig.start(1, 2)
    given = []
    for broker in (1, 2, 1):
        body = {"broker_id": broker, "broker_epoch": rig.image.brokers[broker].epoch}
        token = rig.ask("AllocateProducerIds", 0, body)
        assert not rig.answered(token)
        rig.commit()
        answer = rig.answers[token]
        given.append((answer["producer_id_start"], answer["producer_id_len"]))
        rig.follow(2, rig.quorum.epoch + 1)
        rig.lead(rig.quorum.epoch + 1)
    assert given == [(0, 1000), (1000, 1000), (2000, 1000)]
    stale = {"broker_id": 1, "broker_epoch": rig.image.brokers[1].epoch - 1}
    assert rig.call("AllocateProducerIds", 0, stale)["error_code"] == STALE


# --- controllers


def controller(node_id: int, process: int = 1, high: int = 27) -> dict[str, Any]:
    return {
        "controller_id": node_id,
        "incarnation_id": bytes((node_id, process)) * 8,
        "listeners": [{"name": "CONTROLLER", "host": "c", "port": 9093}],
        "features": [
            {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": high}
        ],
    }


def test_a_controller_registers(rig: Any) -> None:
    assert rig.call("ControllerRegistration", 0, controller(2))["error_code"] == NONE
    known = rig.image.stable.controllers[2]
    assert known.incarnation == bytes((2, 1)) * 8
    assert known.endpoints == (Listener("CONTROLLER", "c", 9093),)
    answer = rig.call("ControllerRegistration", 0, controller(3, high=24))
    assert answer["error_code"] == UNSUPPORTED
    assert 3 not in rig.image.controllers


def test_metadata_below_3_7_knows_no_controllers(make_rig: Any) -> None:
    level = {"name": "metadata.version", "feature_level": 14}
    rig = make_rig(
        bootstrap=[("FeatureLevelRecord", 0, level)],
        identity=ControllerIdentity(1, bytes(16), (Listener("CONTROLLER", "c", 1),)),
    )
    rig.lead()
    assert rig.call("ControllerRegistration", 0, controller(2))["error_code"] == UNSUPPORTED
    assert not rig.image.controllers


def test_a_controller_that_is_no_voter_can_be_forgotten(rig: Any) -> None:
    rig.call("ControllerRegistration", 0, controller(2))
    rig.call("ControllerRegistration", 0, controller(9))
    call = "UnregisterController"
    assert rig.call(call, 0, {"controller_id": 2})["error_code"] == BAD_REQUEST
    assert rig.call(call, 0, {"controller_id": 8})["error_code"] == UNKNOWN_CONTROLLER
    assert rig.call(call, 0, {"controller_id": 9})["error_code"] == NONE
    assert list(rig.image.stable.controllers) == [2]


IDENTITY = ControllerIdentity(1, bytes((1, 1)) * 8, (Listener("CONTROLLER", "10.0.0.1", 9093),))


def test_the_active_controller_registers_itself_when_it_claims(make_rig: Any) -> None:
    rig = make_rig(identity=IDENTITY)
    rig.lead()
    assert IDENTITY.is_registered(rig.image.stable)
    mark = len(rig.records())
    rig.follow(2, 2)
    rig.lead(3)
    assert rig.since(mark) == [], "it is registered already"
    assert rig.controller.registration_due(rig.now) is None


def test_a_standby_sends_its_registration_until_the_log_shows_it(make_rig: Any) -> None:
    leader, standby = make_rig(), make_rig(node_id=2, identity=IDENTITY)
    assert standby.controller.registration_due(0) is None, "nobody leads"
    leader.lead()
    standby.follow(1, 1)
    assert standby.controller.registration_due(0) is None, "nothing says that it may"
    for batch in leader.committed_batches:
        standby.deliver(batch)
    due = standby.controller.deadline
    request = standby.controller.registration_due(due)
    assert request == IDENTITY.request()
    assert standby.controller.registration_due(due) is None, "under way"
    for wait_ms in (100, 200, 400):
        standby.controller.registration_answered(None, due)
        assert standby.controller.deadline == due + wait_ms * 1000
        due = standby.controller.deadline
        assert standby.controller.registration_due(due) is not None
    leader.call("ControllerRegistration", 0, request)
    for batch in leader.committed_batches[len(standby.committed_batches) :]:
        standby.deliver(batch)
    assert standby.controller.registration_due(2**60) is None
    assert standby.controller.deadline > 2**60
