"""The partitions workload: lives of brokers, proposals of their leaders, operators."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kraftwreck.harness.client import Answer
from kraftwreck.nodes.draw import draw_below
from kraftwreck.systems.kraft.requests import ClientState
from kraftwreck.systems.kraft.workloads.partitions import (
    MOOD_LENGTH,
    NAMES,
    WORKLOAD,
    is_loose,
    mood_of,
)
from kraftwreck.systems.kraft.workloads.phantoms import FIRST_ID, THREADS, phantoms_of

LED_BY_2: dict[str, Any] = {"controller_id": 2, "topics": [], "cluster_id": "c", "brokers": []}
ID = bytes(15) + b"\x07"


def quorum(high_watermark: int) -> dict[str, Any]:
    part = {
        "partition_index": 0,
        "error_code": 0,
        "leader_id": 2,
        "leader_epoch": 1,
        "high_watermark": high_watermark,
        "current_voters": [],
        "observers": [],
    }
    topic = {"topic_name": "__cluster_metadata", "partitions": [part]}
    return {"error_code": 0, "topics": [topic]}


def registered(epoch: int, code: int = 0) -> dict[str, Any]:
    return {"error_code": code, "broker_epoch": epoch}


def heard(*, fenced: bool = False, go: bool = False, code: int = 0) -> dict[str, Any]:
    return {
        "error_code": code,
        "is_caught_up": True,
        "is_fenced": fenced,
        "should_shut_down": go,
    }


def state(leader: int, isr: list[int], leader_epoch: int = 0) -> dict[str, Any]:
    part = {
        "error_code": 0,
        "partition_index": 0,
        "leader_id": leader,
        "leader_epoch": leader_epoch,
        "replica_nodes": [1000, 1001, 7],
        "isr_nodes": isr,
        "offline_replicas": [],
    }
    topic = {"error_code": 0, "name": "t", "topic_id": ID, "partitions": [part]}
    return {**LED_BY_2, "topics": [topic]}


def altered(
    partition_epoch: int, isr: list[int], code: int = 0, leader_epoch: int = 0
) -> dict[str, Any]:
    part = {
        "partition_index": 0,
        "error_code": code,
        "leader_id": isr[0] if isr else -1,
        "leader_epoch": leader_epoch,
        "isr": isr,
        "partition_epoch": partition_epoch,
    }
    return {"error_code": 0, "topics": [{"topic_id": ID, "partitions": [part]}]}


@pytest.fixture
def alive(client: ClientState) -> ClientState:
    """A client whose three brokers are registered with epochs 10, 11 and 12."""
    client.leader = "n2"
    client.memory["cluster_id"] = "c"
    for epoch, phantom in enumerate(phantoms_of(client), start=10):
        phantom.epoch = phantom.offset = epoch
    return client


# --- lives --------------------------------------------------------------------------------


def test_brokers_register_first_and_then_beat_their_hearts(
    drive: Any, script: Any, client: ClientState
) -> None:
    calls = script(LED_BY_2, quorum(5), LED_BY_2, registered(5), registered(6), registered(7))
    done = drive(WORKLOAD, "beat", calls, value="serve")
    assert done.type == "ok"
    assert [(r["broker"], r["did"], r["epoch"]) for r in done.value] == [
        (1000, "register", 5),
        (1001, "register", 6),
        (1002, "register", 7),
    ]
    calls = script(quorum(9), heard(), heard(fenced=True), heard())
    done = drive(WORKLOAD, "beat", calls, value="serve")
    assert [(r["broker"], r["epoch"], r["fenced"]) for r in done.value] == [
        (1000, 5, False),
        (1001, 6, True),
        (1002, 7, False),
    ]
    told = [c.body["current_metadata_offset"] for c in calls.calls[1:]]
    assert told == [8, 8, 8], "the last committed offset"


def test_a_lagging_broker_reports_no_newer_offset(
    drive: Any, script: Any, alive: ClientState
) -> None:
    calls = script(heard(fenced=True), heard(fenced=True), heard(fenced=True))
    drive(WORKLOAD, "beat", calls, value="lag")
    assert [c.body["current_metadata_offset"] for c in calls.calls] == [10, 11, 12]


def test_the_silent_say_nothing(drive: Any, script: Any, alive: ClientState) -> None:
    assert drive(WORKLOAD, "beat", script(), value="silent").value == []


def test_a_broker_returns_from_a_clean_stop_with_its_previous_epoch(
    drive: Any, script: Any, alive: ClientState
) -> None:
    drive(WORKLOAD, "beat", script(quorum(20), heard(), heard(go=True)), value="stop")
    stopping, stopped = phantoms_of(alive)[1:]
    assert (stopping.stopping, stopping.stopped, stopped.stopped) == (True, False, True)
    old = stopped.incarnation
    calls = script(quorum(21), heard(), heard(go=False), registered(30))
    drive(WORKLOAD, "beat", calls, value="serve")
    _, first, second, third = calls.calls
    assert first.body["want_shut_down"] is False
    assert second.body["want_shut_down"] is True, "who began to stop never changes its mind"
    assert (third.body["broker_id"], third.body["previous_broker_epoch"]) == (1002, 12)
    assert third.body["incarnation_id"] != old
    assert (stopped.epoch, stopped.old_epochs) == (30, [12])


def test_a_replaced_broker_dies(drive: Any, script: Any, alive: ClientState) -> None:
    calls = script(quorum(20), heard(code=77), heard(), heard())
    drive(WORKLOAD, "beat", calls, value="serve")
    assert (phantoms_of(alive)[0].epoch, phantoms_of(alive)[0].old_epochs) == (-1, [10])


def test_after_a_lost_heartbeat_nothing_more_is_said(
    drive: Any, script: Any, alive: ClientState
) -> None:
    done = drive(WORKLOAD, "beat", script(quorum(20), heard(), Answer("lost")), value="serve")
    assert (done.type, len(done.value)) == ("info", 2)


@pytest.mark.parametrize(("answer", "epoch"), [(registered(0, 101), 10), (registered(40), 40)])
def test_a_twin_takes_the_place_only_if_it_is_let_in(
    drive: Any, script: Any, alive: ClientState, answer: Any, epoch: int
) -> None:
    phantom = phantoms_of(alive)[0]
    old = phantom.incarnation
    drive(WORKLOAD, "twin", script(answer), value=0)
    assert phantom.epoch == epoch
    assert (phantom.incarnation == old) == (epoch == 10)


def test_only_the_first_clients_play_brokers(client: ClientState) -> None:
    client.thread = THREADS
    assert phantoms_of(client) == []
    client.thread = THREADS - 1
    assert phantoms_of(client)[0].id == FIRST_ID + 3 * (THREADS - 1)


# --- proposals ----------------------------------------------------------------------------


def test_a_leader_proposes_in_its_known_epochs_even_while_behind(
    drive: Any, script: Any, alive: ClientState
) -> None:
    calls = script(state(1000, [1000]), altered(0, [], 95), altered(2, [1000, 1001, 7]))
    done = drive(WORKLOAD, "isr", calls, value="expand")
    _, first, second = calls.calls
    assert (first.body["broker_id"], first.body["broker_epoch"]) == (1000, 10)
    sent = [c.body["topics"][0]["partitions"][0] for c in (first, second)]
    assert [s["partition_epoch"] for s in sent] == [0, 1]
    members = [(m["broker_id"], m["broker_epoch"]) for m in sent[0]["new_isr_with_epochs"]]
    assert members == [(1000, 10), (1001, 11), (7, -1)], "the epoch of a stranger is not known"
    assert (done.type, done.value["base"], done.value["new"]["partition_epoch"]) == ("ok", 1, 2)
    again = script(state(1000, [1000, 1001, 7]), altered(3, [1000]))
    assert drive(WORKLOAD, "isr", again, value="alone").value["base"] == 2


@pytest.mark.parametrize(
    ("how", "sent"),
    [
        ("stale-leader-epoch", {"leader_epoch": 3}),
        ("stale-partition-epoch", {"base": 8}),
        ("ahead", {"base": 1009}),
        ("stale-broker", {"broker_epoch": 4}),
        ("stale-member", {"members": [[1000, 4], [1001, 11]]}),
        ("not-leader", {"broker": 1001, "broker_epoch": 11}),
        ("stranger", {"members": [[1000, 10], [1001, 11], [1002, 12]]}),
        ("twice", {"members": [[1000, 10], [1001, 11], [1000, 10]]}),
    ],
)
def test_wrong_proposals_are_wrong_in_one_thing(
    drive: Any, script: Any, alive: ClientState, how: str, sent: dict[str, Any]
) -> None:
    alive.memory["partitions"] = {(ID, 0): (4, 9)}
    phantoms_of(alive)[0].old_epochs.append(4)
    # It learns first, by an honest proposal, what is right.
    learnt = altered(9, [1000, 1001], leader_epoch=4)
    calls = script(state(1000, [1000, 1001], 4), learnt, altered(9, [], 42))
    done = drive(WORKLOAD, "isr", calls, value=how)
    assert (done.type, done.error) == ("fail", "invalid-request")
    right = {
        "broker": 1000,
        "broker_epoch": 10,
        "leader_epoch": 4,
        "base": 9,
        "members": [[1000, 10], [1001, 11]],
    }
    assert {k: v for k, v in done.value.items() if k in right} == right | sent


def test_one_more_replica_comes_into_sync(drive: Any, script: Any, alive: ClientState) -> None:
    calls = script(state(1000, [1000]), altered(1, [1000, 1001]))
    done = drive(WORKLOAD, "isr", calls, value="one-more")
    members = [member for member, _ in done.value["members"]]
    assert (len(members), members[0]) == (2, 1000)


def test_a_leader_requests_the_election_of_the_preferred_one(
    drive: Any, script: Any, alive: ClientState
) -> None:
    asked = set()
    for _ in range(20):  # Others are left to be found.
        asks = draw_below(2, alive.seed, "prefer", alive.thread, alive.calls + 2)
        answers = [state(1001, [1001]), altered(1, [1001, 1000]), *[elected(0)] * asks]
        calls = script(*answers)
        assert drive(WORKLOAD, "isr", calls, value="expand").type == "ok"
        asked.add(calls.calls[-1].api)
    assert asked == {"ElectLeaders", "AlterPartition"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (altered(0, [], 107), "fail"),
        (altered(0, [], 108), "ok"),
        ({"error_code": 7, "topics": []}, "info"),
        ({"error_code": 41, "topics": []}, "fail"),
        (Answer("lost"), "info"),
        (Answer("refused"), "fail"),
    ],
)
def test_how_a_proposal_ends(
    drive: Any, script: Any, alive: ClientState, answer: Any, kind: str
) -> None:
    done = drive(WORKLOAD, "isr", script(state(1000, [1000]), answer), value="expand")
    assert done.type == kind


def test_a_broker_that_leads_nothing_proposes_nothing(
    drive: Any, script: Any, alive: ClientState
) -> None:
    done = drive(WORKLOAD, "isr", script(state(7, [7])), value="expand")
    assert (done.type, done.error) == ("fail", "leads nothing")


# --- operators ----------------------------------------------------------------------------


def elected(*codes: int) -> dict[str, Any]:
    parts = [
        {"partition_id": i, "error_code": code, "error_message": None}
        for i, code in enumerate(codes)
    ]
    results = [{"topic": "t", "partition_result": parts}]
    return {"error_code": 0, "replica_election_results": results}


@pytest.mark.parametrize(
    ("codes", "kind"),
    [((84, 3), "fail"), ((84, 0), "ok"), ((84, 7), "info"), ((), "info"), ((80, -1, 0), "ok")],
)
def test_an_election_is_done_if_any_was_held(
    drive: Any, script: Any, alive: ClientState, codes: tuple[int, ...], kind: str
) -> None:
    assert drive(WORKLOAD, "elect", script(LED_BY_2, elected(*codes)), "t", 0).type == kind
    assert drive(WORKLOAD, "elect", script(elected(*codes)), "t", 1).type == kind


@pytest.mark.parametrize(
    ("now", "asked"),
    [
        (state(1001, [1001, 1000]), [("u", 6), ("t", 1)]),
        (state(1001, [1001]), [("u", 6)]),
        (state(1000, [1000, 1001]), [("u", 6)]),
        (state(-1, []), [("u", 6)]),
    ],
)
def test_an_operator_finds_a_leader_that_is_not_the_preferred_one(
    drive: Any, script: Any, alive: ClientState, now: dict[str, Any], asked: list[tuple[str, int]]
) -> None:
    calls = script(now, elected(0))
    assert drive(WORKLOAD, "elect", calls, "u", 0).type == "ok"
    wanted = calls.calls[-1].body["topic_partitions"]
    assert [(each["topic"], len(each["partitions"])) for each in wanted] == asked


def test_a_reassignment_goes_to_brokers_that_are_alive(
    drive: Any, script: Any, alive: ClientState
) -> None:
    brokers = [{"node_id": i, "host": "h", "port": 1, "rack": None} for i in (4, 1000, 1001)]
    part = {"partition_index": 1, "error_code": 0, "error_message": None}
    answer = {
        "error_code": 0,
        "error_message": None,
        "responses": [{"name": "t", "partitions": [part]}],
    }
    calls = script({**state(1000, [1000]), "brokers": brokers}, answer)
    done = drive(WORKLOAD, "reassign", calls, "t", [1, 5])
    assert done.type == "ok"
    target = calls.calls[1].body["topics"][0]["partitions"][0]["replicas"]
    assert set(target) <= {4, 1000, 1001}
    assert len(target) >= 2


def test_writes_go_through_brokers_and_reads_never(
    drive: Any, script: Any, alive: ClientState
) -> None:
    alive.gateways = ("b1",)
    calls = script(elected(0))
    assert drive(WORKLOAD, "elect", calls, "t", 1).node == "b1"
    calls = script(LED_BY_2)
    drive(WORKLOAD, "read", calls)
    assert [c.node for c in calls.calls] == ["n2"]


def test_a_description_shows_leaders_and_isrs(drive: Any, script: Any, alive: ClientState) -> None:
    done = drive(WORKLOAD, "describe", script(state(1000, [1000], 3)), "t")
    assert done.value == {"id": ID.hex(), "partitions": [[1000, 3, [1000, 1001, 7], [1000]]]}


# --- the plan -----------------------------------------------------------------------------


def test_names_are_few_and_unclean_elections_stay_where_records_may_be_lost() -> None:
    planned = [WORKLOAD.plan(7, thread, count) for thread in range(6) for count in range(2000)]
    names = {p.key for p in planned if p.f == "create"}
    assert len(names) <= 6 * NAMES, "a long run holds no more topics than a short one"
    kinds = Counter(p.f for p in planned)
    assert set(kinds) == {
        *("beat", "isr", "ids", "twin", "restart", "unregister"),
        *("create", "delete", "read", "describe", "grow", "elect", "reassign", "cancel"),
        *("configure", "features", "ask"),
    }
    unclean = {p.key for p in planned if p.f == "elect" and p.value == 1}
    assert unclean
    assert all(is_loose(name) for name in unclean)
    assert not any(is_loose(p.key) for p in planned if p.f == "elect" and p.value is None)


def test_brokers_serve_at_first_and_have_moods_later() -> None:
    assert {mood_of(7, 0, count) for count in range(MOOD_LENGTH)} == {"serve"}
    later = {mood_of(7, 0, count) for count in range(100 * MOOD_LENGTH)}
    assert later == {"serve", "silent", "half", "fence", "lag", "stop"}


def test_the_plan_depends_on_the_seed_only() -> None:
    assert WORKLOAD.plan(1, 2, 30) == WORKLOAD.plan(1, 2, 30)
    assert [WORKLOAD.plan(1, 0, i) for i in range(20)] != [
        WORKLOAD.plan(2, 0, i) for i in range(20)
    ]
