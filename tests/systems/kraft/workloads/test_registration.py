"""Brokers as registers that expire: each answer's meaning, and bugs that a run shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kraftwreck.campaigns.campaign import run_seed
from kraftwreck.harness.client import Answer
from kraftwreck.nodes.metadata import describe
from kraftwreck.nodes.metadata.controller import Controller
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign
from kraftwreck.systems.kraft.workloads.phantoms import FIRST_ID
from kraftwreck.systems.kraft.workloads.registration import (
    KEYS,
    MOST_BEATS,
    OPS_PER_ROUND,
    ROUNDS,
    WORKLOAD,
)

NOT_CONTROLLER, TIMED_OUT, STALE_EPOCH, DUPLICATE, UNKNOWN_ID = 41, 7, 77, 101, 102
LED_BY_1 = {"controller_id": 1, "cluster_id": "cluster", "brokers": [], "topics": []}
DIES_EARLY = 22
"""A process that is killed after its registration, with the seed of the client here."""
JUDGE = "model/expiring-register"


def registered(code: int = 0) -> dict[str, Any]:
    return {"error_code": code, "broker_epoch": 40}


def beat(code: int = 0, *, fenced: bool = False) -> dict[str, Any]:
    return {
        "error_code": code,
        "is_caught_up": True,
        "is_fenced": fenced,
        "should_shut_down": False,
    }


def visible(rack: str | None, controller: int = 1) -> dict[str, Any]:
    other = {"node_id": FIRST_ID + 1, "host": "h", "port": 1, "rack": "process-9"}
    mine = [{**other, "node_id": FIRST_ID + 4, "rack": rack}] if rack is not None else []
    return {**LED_BY_1, "controller_id": controller, "brokers": [other, *mine]}


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([registered(), beat()], "ok"),
        ([registered(), beat(fenced=True), beat()], "ok"),
        ([registered(), *[beat(fenced=True)] * MOST_BEATS], "fail"),
        ([registered(DUPLICATE)], "fail"),
        ([registered(TIMED_OUT)], "fail"),
        ([Answer("lost")], "fail"),
        ([registered(), *[beat(STALE_EPOCH)] * MOST_BEATS], "fail"),
        ([registered(), Answer("lost")], "info"),
        ([registered(), beat(fenced=True), Answer("lost")], "info"),
        ([registered(), beat(TIMED_OUT)], "info"),
    ],
)
def test_a_broker_joins_when_it_is_unfenced(
    drive: Any, script: Any, answers: Sequence[Any], kind: str
) -> None:
    calls = script(LED_BY_1, LED_BY_1, *answers)
    assert drive(WORKLOAD, "write", calls, 4, 17).type == kind
    registration = calls.calls[2].body
    assert (registration["broker_id"], registration["rack"]) == (FIRST_ID + 4, "process-17")
    for call in calls.calls[3:]:
        assert (call.body["broker_epoch"], call.body["current_metadata_offset"]) == (40, 40)
        assert not call.body["want_fence"]


def test_a_process_that_dies_early_has_certainly_failed(drive: Any, script: Any) -> None:
    calls = script(LED_BY_1, LED_BY_1, registered())
    done = drive(WORKLOAD, "write", calls, 4, DIES_EARLY)
    assert (done.type, done.error) == ("fail", "died before its first heartbeat")


def test_each_process_has_its_own_incarnation(drive: Any, script: Any) -> None:
    scripts = [script(LED_BY_1, LED_BY_1, registered(DUPLICATE)), script(registered(DUPLICATE))]
    for number, calls in enumerate(scripts):
        drive(WORKLOAD, "write", calls, 4, number)
    first, second = (calls.calls[-1].body["incarnation_id"] for calls in scripts)
    assert first != second


@pytest.mark.parametrize(
    ("code", "kind"),
    [(0, "ok"), (UNKNOWN_ID, "fail"), (NOT_CONTROLLER, "fail"), (TIMED_OUT, "info")],
)
def test_a_broker_is_removed(drive: Any, script: Any, code: int, kind: str) -> None:
    calls = script(LED_BY_1, {"error_code": code, "error_message": None})
    assert drive(WORKLOAD, "delete", calls, 4).type == kind
    assert calls.calls[1].body == {"broker_id": FIRST_ID + 4}


@pytest.mark.parametrize(
    ("answer", "kind", "value"),
    [
        (visible("process-17"), "ok", 17),
        (visible(None), "ok", None),
        (visible("process-17", controller=2), "fail", None),
        (Answer("lost"), "fail", None),
    ],
)
def test_a_read(drive: Any, script: Any, answer: Any, kind: str, value: Any) -> None:
    calls = script(LED_BY_1, answer)
    done = drive(WORKLOAD, "read", calls, 4)
    assert (done.type, done.value) == (kind, value)
    assert calls.calls[1].body["topics"] is None, "answered from an image that may be old, else"


def test_values_are_unique_and_ids_repeat() -> None:
    cycle = OPS_PER_ROUND * ROUNDS
    planned = [WORKLOAD.plan(3, thread, count) for thread in range(5) for count in range(2 * cycle)]
    values = [each.value for each in planned if each.f == "write"]
    assert len(values) == len(set(values))
    assert {each.key for each in planned} == set(range(KEYS * ROUNDS))
    assert {each.f for each in planned} == {"read", "write", "delete"}


# --- in the simulator -----------------------------------------------------------------------------


def found(faults: tuple[str, ...] = (), seeds: int = 2) -> set[str]:
    """Return the checkers that find anything in runs of 10 s."""
    campaign = KraftCampaign(
        workload="registration", faults=faults, time_limit_s=10, nodes=3, rate=20
    )
    runs = [run_seed(campaign, seed, keep=False) for seed in range(seeds)]
    return {checker for run in runs for checker, _, _ in run.found}


@pytest.mark.parametrize("faults", [(), ("partition", "kill")])
def test_brokers_come_and_go(faults: tuple[str, ...]) -> None:
    assert found(faults) == set()


@pytest.mark.interpreted
def test_a_fenced_broker_that_is_visible_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = describe._brokers
    monkeypatch.setattr(
        describe, "_brokers", lambda image, voters, _=False: real(image, voters, True)
    )
    assert JUDGE in found()


@pytest.mark.interpreted
def test_a_removed_broker_that_is_visible_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller answers from the metadata that it had when it was asked first."""
    first: dict[int, Any] = {}
    real = describe._brokers

    def kept(image: Any, voters: Any, fenced: bool = False) -> Any:
        for each in real(image, voters, fenced):
            first.setdefault(each["node_id"], each)
        return list(first.values())

    monkeypatch.setattr(describe, "_brokers", kept)
    assert JUDGE in found()


@pytest.mark.interpreted
def test_a_deposed_leader_that_serves_reads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: Controller, waiting: Any, now: int) -> None:
        self._answers.give(waiting.request, waiting.answer())

    monkeypatch.setattr(Controller, "_wait_for_barrier", at_once)
    assert JUDGE in found(("partition", "pause"), seeds=8)
