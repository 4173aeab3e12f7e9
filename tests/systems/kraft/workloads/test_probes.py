"""Probes: their requests can be encoded, and depend only on the draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.harness.client import Answer
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol.codec import encode
from kraftwreck.systems.kraft.requests import ClientState
from kraftwreck.systems.kraft.workloads.phantoms import phantoms_of
from kraftwreck.systems.kraft.workloads.probe_requests import PREFIX, PROBES
from kraftwreck.systems.kraft.workloads.probes import PAGES, probe_of
from kraftwreck.systems.kraft.workloads.requests import WORKLOAD


def chosen(number: int) -> Callable[..., int]:
    """How a probe chooses, another way for each ``number``."""
    return lambda bound, *of: draw_below(bound, number, *of)


def knowing() -> ClientState:
    state = ClientState(0, ["n1", "n2"], {1: "n1", 2: "n2"}, 7)
    state.memory |= {"brokers": [1000, 1001, 5], "asked": ["ask0-1"], "cluster_id": "c"}
    state.memory |= {"topics": ["p0-3"], "odd": [("p0-3", 1)], "moved": ["p0-3"]}
    for place, phantom in enumerate(phantoms_of(state)):
        phantom.epoch = 20 + place
    return state


@pytest.mark.parametrize("kind", PROBES)
def test_every_request_of_a_probe_can_be_written(kind: str) -> None:
    seen = set()
    for number in range(60):
        request = PROBES[kind](f"{PREFIX}0-9", chosen(number), knowing(), 1000)
        assert request is not None
        api, version, body = request
        seen.add(encode(f"{api}Request", version, body))
        if api == "CreateTopics":
            names = [topic["name"] for topic in body["topics"]]
            assert "p0-3" not in names, "what others delete may not come back by a probe"
    assert seen
    assert kind in ("versions", "create-dry") or len(seen) > 1


def test_probes_create_topics_only_if_marked_so() -> None:
    probes = [probe_of(7, thread, count) for thread in range(4) for count in range(300)]
    assert {probe["kind"] for probe in probes} == set(PROBES)
    for probe in probes:
        assert probe["name"].startswith(PREFIX)
        creates = probe["kind"].startswith("create") and probe["kind"] != "create-dry"
        assert probe["creates"] is creates


def test_a_topic_that_a_probe_created_is_known_by_its_id_too(
    client: ClientState, drive: Any, script: Any
) -> None:
    client.leader, name = "n1", f"{PREFIX}0-1"
    topic = {"name": name, "topic_id": b"i" * 16, "error_code": 0, "num_partitions": 1,
             "replication_factor": 1}  # fmt: skip
    probe = {"kind": "create-configured", "name": name, "creates": True}
    assert drive(WORKLOAD, "ask", script({"topics": [topic]}), value=probe).type == "ok"
    asked = set()
    for number in range(60):
        request = PROBES["delete"](f"{PREFIX}0-9", chosen(number), client, 1000)
        assert request is not None
        asked.add(tuple((t["name"], t["topic_id"]) for t in request[2]["topics"]))
    assert ((name, bytes(16)), (None, b"i" * 16)) in asked


@pytest.mark.parametrize("nodes", [1, 3])
def test_only_the_only_voter_is_asked_away_by_its_own_name(nodes: int) -> None:
    """Where there are others, a removal that says the right disk would be done."""
    state = knowing()
    state.nodes = tuple(f"n{i + 1}" for i in range(nodes))
    state.memory["voters"] = {i + 1: bytes([i + 1] * 16) for i in range(nodes)}
    asked = set()
    for number in range(60):
        request = PROBES["voters"](f"{PREFIX}0-9", chosen(number), state, 1000)
        assert request is not None
        asked.add((request[0], request[2]["voter_directory_id"]))
    assert (("RemoveRaftVoter", bytes([1] * 16)) in asked) == (nodes == 1)
    assert {disk for _, disk in asked} <= {bytes([0x55] * 16), bytes([1] * 16)}


def test_most_operations_of_the_workload_are_probes() -> None:
    planned = [WORKLOAD.plan(7, thread, count) for thread in range(6) for count in range(200)]
    asked = [each for each in planned if each.f == "ask"]
    assert len(asked) * 3 > len(planned)
    assert planned[0] == WORKLOAD.plan(7, 0, 0)


def test_the_next_page_of_partitions_is_asked_for(
    client: ClientState, drive: Any, script: Any
) -> None:
    client.gateways = ("b1",)
    cursor = {"topic_name": "p0-3", "partition_index": 2}
    probe = {"kind": "described", "name": f"{PREFIX}0-1", "creates": False}
    page = {"topics": [], "next_cursor": cursor}
    pages = script(*[page] * (1 + PAGES))
    assert drive(WORKLOAD, "ask", pages, value=probe).type == "ok"
    assert [call.body["cursor"] for call in pages.calls[1:]] == [cursor] * PAGES
    requests = [PROBES["described"](f"{PREFIX}0-9", chosen(n), client, 1000) for n in range(20)]
    bodies = [request[2] for request in requests if request is not None]
    following = [body for body in bodies if body["cursor"] == cursor]
    assert following
    assert all(body["topics"] == client.memory["page"][0] for body in following)
    assert drive(WORKLOAD, "ask", script(page | {"next_cursor": None}), value=probe).type == "ok"
    assert client.memory["page"] is None


def test_a_page_that_is_lost_ends_a_list(client: ClientState, drive: Any, script: Any) -> None:
    client.gateways = ("b1",)
    cursor = {"topic_name": "p0-3", "partition_index": 2}
    probe = {"kind": "described", "name": f"{PREFIX}0-1", "creates": False}
    pages = script({"topics": [], "next_cursor": cursor}, Answer("lost", {}, "request-timed-out"))
    assert drive(WORKLOAD, "ask", pages, value=probe).type == "ok"
    assert client.memory["page"][1] == cursor
