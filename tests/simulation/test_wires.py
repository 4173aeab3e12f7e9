"""How nodes find each other, ask each other things, and hand out snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import (
    ApiReply,
    ApiRequest,
    ApiResponseReceived,
    AppendSnapshot,
    Effect,
    Event,
    FinishSnapshot,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    SendApi,
    SnapshotReply,
    Tick,
    Trace,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveRaftVoterRequest,
    VoterChangeResponse,
)
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.protocol.errors import SNAPSHOT_NOT_FOUND
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.timeline import WorldError
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.binding import disk_of, kraft_world
from kraftwreck.systems.kraft.simulated.knobs import Knobs

SECOND = 1_000_000
FETCH = FetchSnapshotRequest(None, 1, bytes(16), 4, 1, 9, 1, 0)
FEATURES = {
    "error_code": 0,
    "api_keys": [],
    "supported_features": [{"name": "kraft.version", "min_version": 0, "max_version": 1}],
}


@dataclass
class Script:
    """Sends ``plan`` at its first tick, keeps its events, and answers by the test's function."""

    plan: list[Effect]
    answer: Callable[[Event], list[Effect]]
    deadline: int = 0
    seen: list[Event] = field(default_factory=list)

    def start(self, now: int, wall_ms: int) -> list[Effect]:
        self.deadline = now + 1000
        return [Trace("start", "follower", 0, -1, -1, 0, -1)]

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]:
        if isinstance(event, Tick):
            self.deadline = now + 10 * SECOND
            plan, self.plan = self.plan, []
            return plan
        self.seen.append(event)
        return self.answer(event)


def silent(_: Event) -> list[Effect]:
    return []


def run(
    plan: list[Effect],
    answer: Callable[[Event], list[Effect]] = silent,
    *,
    prepare: Callable[[World], None] = lambda _: None,
    seconds: float = 1,
) -> tuple[World, dict[int, Script]]:
    """Two nodes: the first carries out ``plan``, both answer requests by ``answer``."""
    nodes: dict[int, Script] = {}

    def make(host: Host, recovered: Recovered, now: int, wall_ms: int) -> Script:
        nodes[host.id] = Script(list(plan) if host.id == 1 else [], answer)
        return nodes[host.id]

    world = kraft_world(["n1", "n2"], make, 3, Knobs())
    prepare(world)
    world.start("n2")
    world.start("n1")
    world.run(int(seconds * SECOND))
    return world, nodes


def reason(world: World) -> str:
    return next(str(e.detail["reason"]) for e in world.events if e.kind == "fatal")


def heal(world: World) -> None:
    world.heal()


# --- who is meant -------------------------------------------------------------------------


def test_an_endpoint_routes_a_request_and_the_answer_keeps_the_id() -> None:
    def answer(event: Event) -> list[Effect]:
        if isinstance(event, RequestReceived):
            return [Reply(event.token, FetchSnapshotResponse(0, 0, 2, 1))]
        return []

    _, nodes = run([Send(-2, 7, FETCH, Endpoint("n2", 9093))], answer)
    [got] = nodes[1].seen
    assert isinstance(got, ResponseReceived)
    assert (got.source, got.correlation) == (-2, 7)
    assert [type(event) for event in nodes[2].seen] == [RequestReceived]


def test_a_bootstrap_server_may_be_the_node_itself_a_peer_may_not() -> None:
    world, nodes = run([Send(-2, 7, FETCH, Endpoint("n1", 9093))])
    assert [type(event) for event in nodes[1].seen] == [RequestReceived]
    world, _ = run([Send(1, 7, FETCH, Endpoint("n1", 9093))])
    assert "node 1, which is no peer" in reason(world)


@pytest.mark.parametrize(("port", "heard"), [(0, 1), (9093, 1), (9094, 0)])
def test_a_port_at_which_no_process_listens_refuses_requests(port: int, heard: int) -> None:
    def listen(world: World) -> None:
        world.host("n2").port = port

    _, nodes = run([Send(2, 7, FETCH, Endpoint("n2", 9093))], prepare=listen)
    refused = [ResponseReceived(2, 7, None)]
    assert (len(nodes[2].seen), nodes[1].seen) == (heard, [] if heard else refused)


@pytest.mark.parametrize("cut_off", [False, True])
def test_a_request_to_an_old_port_never_arrives(cut_off: bool) -> None:
    def listen(world: World) -> None:
        world.host("n2").port = 9094
        if cut_off:
            world.cut({"n2": {"n1"}})
            world.at(SECOND // 2, lambda: heal(world), "heal")

    _, nodes = run([Send(2, 7, FETCH, Endpoint("n2", 9093))], prepare=listen, seconds=4)
    assert (nodes[1].seen, nodes[2].seen) == ([ResponseReceived(2, 7, None)], [])


@pytest.mark.parametrize("endpoint", [None, Endpoint("n9", 9093)])
def test_a_request_to_an_unknown_node_is_fatal(endpoint: Endpoint | None) -> None:
    world, _ = run([Send(9, 7, FETCH, endpoint)])
    assert "n9:9093" in reason(world) or "node 9" in reason(world)


# --- requests that are none of the quorum ---------------------------------------------------


def answer_api(event: Event) -> list[Effect]:
    if isinstance(event, ApiRequest):
        return [ApiReply(event.token, FEATURES)]
    return []


def test_a_node_asks_another_or_itself_an_api_and_hears_the_answer() -> None:
    plan: list[Effect] = [
        SendApi(2, 5, Endpoint("n2", 9093), "ApiVersions", {"client_software_name": "kw"}),
        SendApi(1, 6, Endpoint("n1", 9093), "ApiVersions", {}),
    ]
    _, nodes = run(plan, answer_api)
    answers = [e for e in nodes[1].seen if isinstance(e, ApiResponseReceived)]
    assert [(a.source, a.correlation) for a in sorted(answers, key=lambda a: a.correlation)] == [
        (2, 5),
        (1, 6),
    ]
    assert all(a.body is not None and a.body["error_code"] == 0 for a in answers)
    [asked] = nodes[2].seen
    assert isinstance(asked, ApiRequest)
    assert (asked.api, asked.client, asked.listener) == ("ApiVersions", "n1", "CONTROLLER")
    assert asked.body["client_software_name"] == "kw"
    assert "client_software_version" in asked.body, "defaults are filled in, as by the wire"


def test_the_same_correlation_may_be_used_for_both_kinds_of_requests() -> None:
    plan: list[Effect] = [
        Send(2, 5, FETCH, Endpoint("n2", 9093)),
        SendApi(2, 5, Endpoint("n2", 9093), "ApiVersions", {}),
    ]

    def answer(event: Event) -> list[Effect]:
        if isinstance(event, RequestReceived):
            return [Reply(event.token, FetchSnapshotResponse(0, 0, 2, 1))]
        return answer_api(event)

    _, nodes = run(plan, answer)
    assert {type(event) for event in nodes[1].seen} == {ResponseReceived, ApiResponseReceived}


def test_an_api_request_fails_like_any_other() -> None:
    plan: list[Effect] = [SendApi(2, 5, Endpoint("n2", 9093), "ApiVersions", {})]

    def cut(world: World) -> None:
        world.cut({"n2": {"n1"}})

    _, nodes = run(plan, answer_api, prepare=cut, seconds=3)
    assert nodes[1].seen == [ApiResponseReceived(2, 5, None)]


def test_a_request_that_cannot_be_written_is_fatal() -> None:
    world, _ = run([SendApi(2, 5, Endpoint("n2", 9093), "ApiVersions", {"tea": 1})])
    assert "cannot be sent" in reason(world)
    world, _ = run([SendApi(2, 5, Endpoint("n2", 9093), "MakeTea", {})])
    assert "MakeTea" in reason(world)


def test_api_versions_asked_by_the_core_is_answered_in_its_own_words() -> None:
    _, nodes = run([Send(2, 5, ApiVersionsRequest(), Endpoint("n2", 9093))], answer_api)
    assert nodes[1].seen == [ResponseReceived(2, 5, ApiVersionsResponse(0, 0, 1))]
    assert isinstance(nodes[2].seen[0], ApiRequest)


# --- snapshots ------------------------------------------------------------------------------


def serve(event: Event) -> list[Effect]:
    if isinstance(event, RequestReceived):
        request = event.message
        assert isinstance(request, FetchSnapshotRequest)
        message = FetchSnapshotResponse(0, 0, 2, 1, 9, 1, 10, request.position)
        return [SnapshotReply(event.token, message, request.max_bytes)]
    return []


def test_pieces_come_from_finished_snapshots_only() -> None:
    def prepare(world: World) -> None:
        disk = disk_of(world.host("n2"))

        def finish() -> None:
            disk.apply(AppendSnapshot(9, 1, 0, b"0123456789"))
            disk.apply(FinishSnapshot(9, 1))

        world.at(500, finish, "finish")

    plan: list[Effect] = [
        Send(2, 1, FETCH, Endpoint("n2", 9093)),
        Send(2, 2, FetchSnapshotRequest(None, 1, bytes(16), 4, 1, 9, 1, 8), Endpoint("n2", 9093)),
    ]
    _, nodes = run(plan, serve, prepare=prepare)
    answers = [e.message for e in nodes[1].seen if isinstance(e, ResponseReceived)]
    assert [a.data for a in answers if isinstance(a, FetchSnapshotResponse)] == [b"0123", b"89"]
    _, nodes = run(plan, serve)
    [first, _] = [e.message for e in nodes[1].seen if isinstance(e, ResponseReceived)]
    assert isinstance(first, FetchSnapshotResponse)
    assert (first.partition_error, first.data) == (SNAPSHOT_NOT_FOUND, b"")


# --- clients --------------------------------------------------------------------------------


def call(world: World, api: str, body: dict[str, Any]) -> list[tuple[Any, ...]]:
    got: list[tuple[Any, ...]] = []
    world.call(1, "n2", ApiMessage(api, 0, body), SECOND, lambda *outcome: got.append(outcome))
    world.run(world.now + SECOND)
    return got


def test_a_voter_change_reaches_the_node_as_a_request_of_the_quorum() -> None:
    def answer(event: Event) -> list[Effect]:
        if isinstance(event, RequestReceived):
            return [Reply(event.token, VoterChangeResponse(7, text="later"))]
        return []

    world, nodes = run([], answer)
    listener = {"name": "CONTROLLER", "host": "n1", "port": 9093}
    key = {"cluster_id": None, "voter_id": 1, "voter_directory_id": b"d" * 16}
    added = call(world, "AddRaftVoter", {**key, "timeout_ms": 9, "listeners": [listener]})
    removed = call(world, "RemoveRaftVoter", key)
    body = {"throttle_time_ms": 0, "error_code": 7, "error_message": "later"}
    assert added == removed == [("ok", body, None)]
    requests = [e.message for e in nodes[2].seen if isinstance(e, RequestReceived)]
    assert requests == [
        AddRaftVoterRequest(None, 9, 1, b"d" * 16, (("CONTROLLER", Endpoint("n1", 9093)),), True),
        RemoveRaftVoterRequest(None, 1, b"d" * 16),
    ]


def test_calls_come_in_by_the_listener_of_the_host_unless_they_name_one() -> None:
    world, nodes = run([], answer_api)
    world.host("n2").listener = "PLAINTEXT"
    call(world, "ApiVersions", {})
    world.call(1, "n2", ApiMessage("ApiVersions", 0, {}), SECOND, lambda *_: None, "INTERNAL")
    world.run(world.now + SECOND)
    asked = [e for e in nodes[2].seen if isinstance(e, ApiRequest)]
    assert [e.listener for e in asked] == ["PLAINTEXT", "INTERNAL"]
    assert {e.client for e in asked} == {"control"}


# --- disks ----------------------------------------------------------------------------------


def test_a_disk_is_replaced_while_nothing_runs_on_it() -> None:
    world, _ = run([])
    told: list[str] = []
    world.on_wipe.append(lambda host: told.append(host.name))
    with pytest.raises(WorldError, match="in use"):
        world.wipe("n2", Disk())
    world.kill("n2")
    world.wipe("n2", Disk(b"x" * 16))
    assert told == ["n2"]
    assert world.host("n2").disk.directory == b"x" * 16
