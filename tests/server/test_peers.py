"""The ways to other nodes: by endpoint, one request at a time, and what is known of a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import (
    ApiResponseReceived,
    Event,
    ResponseReceived,
    Send,
    SendApi,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.protocol.apis import NAMES, decode_request_header, encode_response
from kraftwreck.nodes.protocol.codec import decode
from kraftwreck.nodes.server.calls import Calls
from kraftwreck.nodes.server.peers import Peers

ANYWHERE = Endpoint("", 0)
VOTE = VoteRequest("c", 2, 7, 1, bytes(16), bytes(16), 6, 40, True)
SNAPSHOT = FetchSnapshotRequest("c", 1, bytes(16), 4096, 7, 40, 6, 0)
GRANTED = {
    "topics": [
        {
            "topic_name": "__cluster_metadata",
            "partitions": [{"leader_id": -1, "leader_epoch": 7, "vote_granted": True}],
        }
    ]
}
VERSIONS = {"Vote": (0, 2), "FetchSnapshot": (0, 1), "ApiVersions": (0, 4), "BrokerHeartbeat": 1}


class Remote:
    """A node by hand: answers with what ``answers`` holds for an API, None for silence."""

    def __init__(self, answers: dict[str, Any], versions: dict[str, Any] | None = None) -> None:
        self.answers = answers
        self.versions = VERSIONS if versions is None else versions
        self.connections = 0
        self.asked: list[tuple[str, int]] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Remote:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def endpoint(self) -> Endpoint:
        assert self._server is not None
        return Endpoint("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                key, version, correlation, _, offset = decode_request_header(frame)
                api = NAMES[key]
                decode(f"{api}Request", version, frame, offset)
                answer: Any = self._versions() if api == "ApiVersions" else self.answers.get(api)
                if api != "ApiVersions" or version != 3:
                    self.asked.append((api, version))
                if answer is None:
                    continue
                if answer == "hang up":
                    break
                data = encode_response(api, version, correlation, answer)
                writer.write(len(data).to_bytes(4, "big") + data)
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    def _versions(self) -> dict[str, Any]:
        keys = {name: key for key, name in NAMES.items()}
        ranges = [
            {"api_key": keys[api], "min_version": low, "max_version": high}
            for api, (low, high) in (
                (api, v if isinstance(v, tuple) else (0, v)) for api, v in self.versions.items()
            )
        ]
        kraft = {"name": "kraft.version", "min_version": 0, "max_version": 1}
        return {"api_keys": ranges, "supported_features": [kraft]}


class Inbox:
    """The events for the node."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    def submit(self, event: Event) -> None:
        self._events.put_nowait(event)

    async def next(self) -> Event:
        return await asyncio.wait_for(self._events.get(), 5)

    @property
    def empty(self) -> bool:
        return self._events.empty()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        await scenario()

    asyncio.run(inside())


def peers(inbox: Inbox, endpoints: dict[int, Endpoint], timeout_ms: int = 2000) -> Peers:
    return Peers(1, endpoints, ANYWHERE, timeout_ms, inbox.submit)


def test_a_message_goes_to_its_endpoint_whatever_the_address_book_says() -> None:
    async def scenario() -> None:
        async with Remote({"Vote": GRANTED}) as here:
            inbox = Inbox()
            ways = peers(inbox, {2: Endpoint("127.0.0.1", 1)})
            ways.send(Send(2, 5, VOTE, here.endpoint))
            expected = ResponseReceived(2, 5, VoteResponse(0, 0, -1, 7, True))
            assert await inbox.next() == expected
            assert here.asked == [("Vote", 2)]
            await ways.close()

    run(scenario)


def test_a_request_that_an_answer_causes_at_once_uses_the_same_connection() -> None:
    async def scenario() -> None:
        async with Remote({"Vote": GRANTED}) as here:
            inbox = Inbox()

            def submit(event: Event) -> None:
                inbox.submit(event)
                if isinstance(event, ResponseReceived) and event.correlation < 8:
                    ways.send(Send(2, event.correlation + 1, VOTE))

            ways = Peers(1, {2: here.endpoint}, ANYWHERE, 2000, submit)
            ways.send(Send(2, 5, VOTE))
            for correlation in range(5, 9):
                expected = VoteResponse(0, 0, -1, 7, True)
                assert await inbox.next() == ResponseReceived(2, correlation, expected)
            assert here.connections == 1
            await ways.close()

    run(scenario)


def test_without_an_endpoint_the_address_book_is_asked() -> None:
    async def scenario() -> None:
        async with Remote({"Vote": GRANTED}) as here:
            inbox = Inbox()
            ways = peers(inbox, {2: here.endpoint})
            ways.send(Send(2, 5, VOTE))
            assert isinstance(await inbox.next(), ResponseReceived)
            await ways.close()

    run(scenario)


def test_bootstrap_servers_are_destinations_below_minus_one() -> None:
    async def scenario() -> None:
        async with Remote({"Vote": GRANTED}) as here:
            inbox = Inbox()
            ways = peers(inbox, {})
            ways.send(Send(-2, 5, VOTE, here.endpoint))
            answer = await inbox.next()
            assert isinstance(answer, ResponseReceived)
            assert (answer.source, answer.correlation) == (-2, 5)
            assert answer.message is not None
            await ways.close()

    run(scenario)


def test_a_node_that_has_moved_is_asked_where_it_is_now() -> None:
    async def scenario() -> None:
        async with Remote({}) as old, Remote({"Vote": GRANTED}) as new:
            inbox = Inbox()
            ways = peers(inbox, {})
            ways.send(Send(2, 5, VOTE, old.endpoint))
            while not old.asked:
                await asyncio.sleep(0)
            ways.send(Send(2, 6, VOTE, new.endpoint))
            answer = await inbox.next()
            assert isinstance(answer, ResponseReceived)
            assert answer.correlation == 6, "what the core has given up is never answered"
            ways.send(Send(2, 7, VOTE, new.endpoint))
            await inbox.next()
            assert (old.connections, new.connections) == (1, 1)
            await ways.close()

    run(scenario)


def test_a_pre_vote_an_old_peer_cannot_take_is_refused_for_it() -> None:
    async def scenario() -> None:
        async with Remote({}, {"Vote": (0, 1)}) as here:
            inbox = Inbox()
            ways = peers(inbox, {})
            ways.send(Send(2, 5, VOTE, here.endpoint))
            expected = ResponseReceived(2, 5, VoteResponse(35, 0, -1, 0, False))
            assert await inbox.next() == expected
            await ways.close()

    run(scenario)


@pytest.mark.parametrize(
    "versions", [{"Vote": (3, 4)}, {"FetchSnapshot": (0, 1)}], ids=["only newer", "not served"]
)
def test_an_api_without_a_version_in_common_is_a_failure(versions: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with Remote({"Vote": GRANTED}, versions) as here:
            inbox = Inbox()
            ways = peers(inbox, {})
            ways.send(Send(2, 5, VOTE, here.endpoint))
            assert await inbox.next() == ResponseReceived(2, 5, None)
            await ways.close()

    run(scenario)


def test_a_piece_of_a_snapshot_arrives_as_it_was_sent() -> None:
    async def scenario() -> None:
        piece = {
            "index": 0,
            "snapshot_id": {"end_offset": 40, "epoch": 6},
            "current_leader": {"leader_id": 2, "leader_epoch": 7},
            "size": 9000,
            "unaligned_records": b"not aligned",
        }
        topics = [{"name": "__cluster_metadata", "partitions": [piece]}]
        async with Remote({"FetchSnapshot": {"topics": topics}}) as here:
            inbox = Inbox()
            ways = peers(inbox, {})
            ways.send(Send(2, 5, SNAPSHOT, here.endpoint))
            answer = FetchSnapshotResponse(0, 0, 2, 7, 40, 6, 9000, 0, b"not aligned")
            assert await inbox.next() == ResponseReceived(2, 5, answer)
            await ways.close()

    run(scenario)


def test_a_leader_hears_of_kraft_version_because_it_asks_at_version_4() -> None:
    async def scenario() -> None:
        async with Remote({}) as here:
            inbox = Inbox()
            ways = peers(inbox, {})
            ways.send(Send(4, 5, ApiVersionsRequest(), here.endpoint))
            assert await inbox.next() == ResponseReceived(4, 5, ApiVersionsResponse(0, 0, 1))
            assert here.asked == [("ApiVersions", 4)]
            await ways.close()

    run(scenario)


# --- requests that are no quorum RPCs -----------------------------------------------------

HEARTBEAT = {"broker_id": 1, "broker_epoch": 7, "current_metadata_offset": 3}
ALIVE = {"is_caught_up": True, "is_fenced": False}


def calls(inbox: Inbox, timeout_ms: int = 2000) -> Calls:
    return Calls(1, ANYWHERE, timeout_ms, inbox.submit)


def heartbeat(correlation: int, endpoint: Endpoint, timeout_ms: int = 0) -> SendApi:
    return SendApi(2, correlation, endpoint, "BrokerHeartbeat", HEARTBEAT, timeout_ms)


async def told(inbox: Inbox) -> ApiResponseReceived:
    event = await inbox.next()
    assert isinstance(event, ApiResponseReceived)
    return event


def test_a_heartbeat_is_answered_at_the_highest_version_both_know() -> None:
    async def scenario() -> None:
        async with Remote({"BrokerHeartbeat": ALIVE}) as here:
            inbox = Inbox()
            ways = calls(inbox)
            for correlation in (1, 2):
                ways.send(heartbeat(correlation, here.endpoint))
                answer = await told(inbox)
                assert (answer.source, answer.correlation, answer.sent) == (2, correlation, True)
                assert answer.body is not None
                assert answer.body["is_caught_up"]
            assert here.asked == [("BrokerHeartbeat", 1)] * 2
            assert here.connections == 1, "an idle connection is used again"
            await ways.close()

    run(scenario)


def test_no_request_waits_for_another() -> None:
    async def scenario() -> None:
        versions = {"BrokerHeartbeat": 1, "UnregisterBroker": 0}
        async with Remote({"BrokerHeartbeat": ALIVE}, versions) as here:
            inbox = Inbox()
            ways = calls(inbox)
            ways.send(SendApi(2, 1, here.endpoint, "UnregisterBroker", {"broker_id": 5}))
            while not here.asked:
                await asyncio.sleep(0)
            ways.send(heartbeat(2, here.endpoint))
            assert (await told(inbox)).correlation == 2
            assert here.connections == 2
            await ways.close()
            assert inbox.empty

    run(scenario)


def test_requests_that_were_certainly_not_sent_are_reported() -> None:
    async def scenario() -> None:
        inbox = Inbox()
        ways = calls(inbox)
        async with Remote({}) as gone:
            nowhere = gone.endpoint
        ways.send(heartbeat(1, nowhere))
        assert await told(inbox) == ApiResponseReceived(2, 1, None, sent=False)
        async with Remote({}, {}) as stranger:
            ways.send(heartbeat(2, stranger.endpoint))
            assert await told(inbox) == ApiResponseReceived(2, 2, None, sent=False)
        await ways.close()

    run(scenario)


@pytest.mark.parametrize("answer", [None, "hang up"])
def test_unanswered_requests_may_have_been_carried_out(answer: str | None) -> None:
    async def scenario() -> None:
        async with Remote({"BrokerHeartbeat": answer}) as here:
            inbox = Inbox()
            ways = calls(inbox)
            ways.send(heartbeat(1, here.endpoint, timeout_ms=2_000))
            assert await told(inbox) == ApiResponseReceived(2, 1, None, sent=True)
            await ways.close()

    run(scenario)


def test_a_controller_that_has_moved_is_asked_where_it_is_now() -> None:
    async def scenario() -> None:
        async with (
            Remote({"BrokerHeartbeat": ALIVE}) as old,
            Remote({"BrokerHeartbeat": ALIVE}) as new,
        ):
            inbox = Inbox()
            ways = calls(inbox)
            for correlation, where in enumerate((old, new, new)):
                ways.send(heartbeat(correlation, where.endpoint))
                assert (await told(inbox)).body is not None
            assert (len(old.asked), len(new.asked)) == (1, 2)
            assert (old.connections, new.connections) == (1, 1)
            await ways.close()

    run(scenario)
