"""The life of a broker: registration, heartbeats, and the controlled end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.broker.lifecycle import NEVER

STALE, UNREGISTERED, DUPLICATE, NO_CONTROLLER = 77, 102, 101, 41
REGISTERED = {"error_code": 0, "broker_epoch": 30}


def test_a_broker_registers_under_its_incarnation_as_soon_as_there_is_a_controller(
    make_rig: Callable[..., Any],
) -> None:
    rig = make_rig(rack="r1", previous_broker_epoch=17)
    rig.quorum.led_by(-1)
    rig.tick()
    assert rig.sent == []
    rig.quorum.led_by(2)
    request = rig.register()
    assert (request.destination, str(request.endpoint)) == (2, "c2:9093")
    body = request.body
    assert (body["broker_id"], body["cluster_id"]) == (4, "cluster")
    assert (body["incarnation_id"], body["previous_broker_epoch"]) == (b"i" * 16, 17)
    assert (body["rack"], body["log_dirs"]) == ("r1", [b"d" * 16])
    assert body["listeners"] == [
        {"name": "PLAINTEXT", "host": "b4", "port": 9092, "security_protocol": 0}
    ]
    assert "metadata.version" in {feature["name"] for feature in body["features"]}
    assert rig.broker.epoch == 30


def test_it_stays_fenced_until_it_has_caught_up_and_then_asks_to_be_unfenced(rig: Any) -> None:
    rig.register(epoch=30)
    first = rig.beat(is_caught_up=False)
    assert first.body["broker_epoch"] == 30
    assert (first.body["want_fence"], first.body["want_shut_down"]) == (True, False)
    assert first.body["current_metadata_offset"] == -1
    rig.broker.published(31, 1, rig.now)
    second = rig.beat(is_caught_up=True)
    assert (second.body["current_metadata_offset"], second.body["want_fence"]) == (31, True)
    assert rig.broker.state.value == "recovery"
    third = rig.beat(is_caught_up=True, is_fenced=True)
    assert not third.body["want_fence"]
    assert rig.broker.state.value == "recovery"
    rig.beat(is_caught_up=True, is_fenced=False)
    assert rig.broker.state.value == "running"
    states = [detail["state"] for _, detail in rig.broker.take_notes()]
    assert states == ["starting", "recovery", "running"]


def test_a_starting_broker_reports_its_applied_offset_soon(rig: Any) -> None:
    rig.register()
    for _ in range(12):
        rig.beat(is_caught_up=False)
    assert rig.broker.deadline - rig.now == 2_000_000, "the pace slows down to the usual one"
    rig.broker.published(30, 1, rig.now)
    assert rig.until_due() == 10


def test_a_running_broker_beats_at_its_interval(make_rig: Callable[..., Any]) -> None:
    rig = make_rig(heartbeat_interval_ms=300)
    rig.run()
    for _ in range(3):
        assert rig.until_due() == 300
        rig.beat(is_caught_up=True, is_fenced=False)


def test_a_fenced_broker_continues(running: Any) -> None:
    running.beat(is_caught_up=True, is_fenced=True)
    assert running.broker.state.value == "running"
    assert not running.beat(is_fenced=False).body["want_fence"]


def test_failures_wait_ever_longer_but_never_longer_than_a_heartbeat(rig: Any) -> None:
    rig.tick()
    waits = []
    for _ in range(7):
        rig.answer(None)
        waits.append(rig.until_due())
    assert waits == [100, 200, 400, 800, 1600, 2000, 2000]
    assert {request.api for request in rig.sent} == {"BrokerRegistration"}


def test_no_answer_at_all_is_a_failure_after_the_request_timeout(rig: Any) -> None:
    rig.tick()
    lost = rig.sent[-1]
    assert rig.until_due() == 2000
    assert len(rig.sent) == 1
    assert rig.until_due() == 100
    assert len(rig.sent) == 2
    assert not rig.answer(REGISTERED, to=lost), "an answer that comes too late counts for nothing"
    assert rig.broker.epoch == -1


def test_a_duplicate_registration_is_retried_until_the_session_ends(rig: Any) -> None:
    rig.tick()
    for _ in range(3):
        rig.answer({"error_code": DUPLICATE, "broker_epoch": -1})
        rig.until_due()
    rig.answer(REGISTERED)
    assert rig.broker.epoch == 30
    notes = [detail.get("error") for _, detail in rig.broker.take_notes()]
    assert notes == ["DUPLICATE_BROKER_REGISTRATION", None], "the same error is told once"


def test_a_new_controller_is_spoken_to_at_once(running: Any) -> None:
    running.until_due()
    lost = running.last("BrokerHeartbeat")
    running.quorum.led_by(3)
    running.tick()
    request = running.last("BrokerHeartbeat")
    assert request.destination == 3
    assert not running.answer({"error_code": STALE}, to=lost)
    assert running.broker.epoch == 30


def test_between_two_controllers_there_is_nothing_to_do(running: Any) -> None:
    running.quorum.led_by(-1)
    assert running.broker.deadline == NEVER
    running.tick(60_000)
    count = len(running.sent)
    running.quorum.led_by(1)
    running.tick()
    assert len(running.sent) == count + 1


def test_not_controller_is_retried(running: Any) -> None:
    running.until_due()
    running.answer({"error_code": NO_CONTROLLER})
    assert running.until_due() == 100
    assert running.last("BrokerHeartbeat").destination == 1
    assert running.broker.epoch == 30


@pytest.mark.parametrize("code", [STALE, UNREGISTERED])
def test_a_broker_whose_registration_is_gone_registers_again(running: Any, code: int) -> None:
    running.until_due()
    running.answer({"error_code": code})
    again = running.last("BrokerRegistration")
    assert again.body["incarnation_id"] == b"i" * 16
    running.answer({"error_code": 0, "broker_epoch": 55})
    assert running.broker.state.value == "starting", "as whoever registers"
    cluster = {"include_cluster_authorized_operations": False, "endpoint_type": 1}
    assert running.call("DescribeCluster", 1, cluster)["error_code"] == 0, "it goes on serving"
    beat = running.last("BrokerHeartbeat")
    assert (beat.body["broker_epoch"], beat.body["want_fence"]) == (55, True)
    running.beat(is_caught_up=True, is_fenced=True)
    assert running.broker.state.value == "recovery"
    running.beat(is_caught_up=True, is_fenced=False)
    assert running.broker.state.value == "running"


def without_directories(rig: Any, epoch: int = 30) -> None:
    """Let a broker see itself registered by a level that has no directories, then the next one."""
    rig.set_level(16)
    rig.add_broker(4, epoch=epoch)
    rig.publish()
    rig.set_level(17)
    rig.publish()


def test_a_broker_registers_its_directory_once_the_level_has_directories(running: Any) -> None:
    without_directories(running)
    request = running.last("BrokerRegistration")
    assert (request.body["incarnation_id"], request.body["log_dirs"]) == (b"i" * 16, [b"d" * 16])
    running.publish()
    running.answer(REGISTERED)
    running.add_broker(4, epoch=30, log_dirs=(b"d" * 16,))
    running.publish()
    assert [running.beat(is_caught_up=True, is_fenced=False).api for _ in range(2)]
    assert sum(request.api == "BrokerRegistration" for request in running.sent) == 2
    assert (running.broker.epoch, running.broker.state.value) == (30, "running")


def test_a_broker_does_not_amend_what_a_process_before_it_has_registered(running: Any) -> None:
    without_directories(running, epoch=29)
    assert sum(request.api == "BrokerRegistration" for request in running.sent) == 1


@pytest.mark.parametrize(("code", "again"), [(None, True), (NO_CONTROLLER, True), (42, False)])
def test_a_broker_that_cannot_amend_its_registration_goes_on(
    running: Any, code: int | None, again: bool
) -> None:
    without_directories(running)
    running.answer(None if code is None else {"error_code": code, "broker_epoch": -1})
    assert running.until_due() == 100
    assert (running.sent[-1].api == "BrokerRegistration") == again
    assert running.broker.epoch == 30


def test_a_stopping_broker_does_not_amend_its_registration(running: Any) -> None:
    running.broker.stop(running.now)
    without_directories(running)
    assert sum(request.api == "BrokerRegistration" for request in running.sent) == 1


def test_a_broker_that_cannot_register_gives_up(make_rig: Callable[..., Any]) -> None:
    rig = make_rig(registration_timeout_ms=5000)
    rig.tick()
    waited = 0
    while not rig.broker.stopped:
        if rig.sent[-1] not in rig.answered:
            rig.answered.append(rig.sent[-1])
            rig.answer({"error_code": DUPLICATE, "broker_epoch": -1})
        waited += rig.until_due()
        assert waited < 10_000
    assert waited == 5000
    reason = rig.broker.take_notes()[-1][1]["reason"]
    assert reason == "not registered in time: DUPLICATE_BROKER_REGISTRATION"
    assert rig.broker.epoch == -1
    assert rig.broker.deadline == NEVER


def test_a_registered_broker_never_gives_up(make_rig: Callable[..., Any]) -> None:
    rig = make_rig(registration_timeout_ms=5000)
    rig.run()
    rig.quorum.led_by(-1)
    rig.tick(10_000_000)
    assert not rig.broker.stopped


def test_a_broker_that_has_not_started_stops_at_once(rig: Any) -> None:
    rig.tick()
    rig.broker.stop(rig.now)
    assert rig.broker.stopped
    assert not rig.answer(REGISTERED)
    assert rig.broker.epoch == -1
    assert rig.until_due() > 0
    assert len(rig.sent) == 1


def test_a_controlled_shutdown_waits_for_leave_to_go(running: Any) -> None:
    running.broker.stop(running.now)
    waits = []
    for _ in range(3):
        waits.append(running.until_due())
        request = running.last("BrokerHeartbeat")
        assert (request.body["want_shut_down"], request.body["want_fence"]) == (True, False)
        assert not running.broker.stopped
        running.answer({"error_code": 0, "is_fenced": False, "should_shut_down": False})
    assert waits == [0, 50, 100]
    running.until_due()
    running.answer({"error_code": 0, "is_fenced": True, "should_shut_down": True})
    assert running.broker.stopped
    assert running.broker.epoch == 30, "what the next start is told"
    running.broker.stop(running.now)
    assert running.broker.deadline == NEVER


def test_a_heartbeat_under_way_does_not_hold_up_the_shutdown(running: Any) -> None:
    running.until_due()
    old = running.last("BrokerHeartbeat")
    running.broker.stop(running.now)
    running.tick()
    assert running.last("BrokerHeartbeat").body["want_shut_down"]
    assert not running.answer({"error_code": 0, "should_shut_down": True}, to=old)
    assert not running.broker.stopped


def test_a_broker_unregistered_during_shutdown_stops_without_an_epoch(running: Any) -> None:
    running.broker.stop(running.now)
    running.tick()
    running.answer({"error_code": STALE})
    assert running.broker.stopped
    assert running.broker.epoch == -1
