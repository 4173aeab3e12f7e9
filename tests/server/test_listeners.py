"""Each listener serves what belongs to it, and hangs up on the rest with one line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.broker.apis import RECORDS
from kraftwreck.nodes.consensus.effects import ApiReply, ApiRequest, Event, RequestReceived
from kraftwreck.nodes.protocol.apis import API_KEYS, SUPPORTED, decode_response, encode_request
from kraftwreck.nodes.server.admission import Admission
from kraftwreck.nodes.server.connection import MAX_PENDING, Connection, Requests
from kraftwreck.nodes.server.listeners import SERVED, Listener
from kraftwreck.nodes.server.outgoing import FilePart

METADATA: dict[str, Any] = {"topics": []}


class Door:
    """A listener by itself: requests are kept, and can be answered."""

    def __init__(self, name: str) -> None:
        self.events: list[Event] = []
        self._arrived = asyncio.Event()
        self.requests = Requests(self._take, {})
        self.listener = Listener.called(name)

    async def __aenter__(self) -> Door:
        loop = asyncio.get_running_loop()
        admission = Admission()

        def accept() -> Connection:
            self.connection = Connection(self.requests, admission, self.listener)
            return self.connection

        self._server = await loop.create_server(accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.writer.close()
        self._server.close()

    async def send(self, api: str, version: int, body: dict[str, Any]) -> None:
        data = encode_request(api, version, 1, "t", body)
        self.writer.write(len(data).to_bytes(4, "big") + data)
        await turns()

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self._arrived.set()

    async def asked(self, requests: int) -> None:
        """Wait until a number of requests have arrived; TimeoutError if they do not."""
        while len(self.events) < requests:
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), 10)

    async def receive(self, api: str, version: int) -> dict[str, Any]:
        size = int.from_bytes(await asyncio.wait_for(self.reader.readexactly(4), 5), "big")
        return decode_response(api, version, await self.reader.readexactly(size))[1]

    async def hung_up(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(1), 0.3) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


async def turns() -> None:
    """Let the event loop handle whatever has arrived over loopback."""
    for _ in range(50):
        await asyncio.sleep(0)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def inside() -> None:
        await scenario()

    asyncio.run(inside())


def test_a_request_names_its_listener_and_source() -> None:
    async def scenario() -> None:
        for name in ("CONTROLLER", "PLAINTEXT"):
            async with Door(name) as door:
                await door.send("Metadata", 12, METADATA)
                [event] = door.events
                assert isinstance(event, ApiRequest)
                assert (event.api, event.listener, event.client) == ("Metadata", name, "127.0.0.1")
                door.requests.reply(ApiReply(event.token, {"brokers": [], "topics": []}))
                assert (await door.receive("Metadata", 12))["topics"] == []

    run(scenario)


@pytest.mark.parametrize(
    "api",
    [
        *("Vote", "Fetch", "FetchSnapshot", "UpdateRaftVoter", "BeginQuorumEpoch"),
        *("Envelope", "BrokerRegistration", "BrokerHeartbeat", "ControllerRegistration"),
        *("AllocateProducerIds", "AlterPartition", "OffsetForLeaderEpoch"),
    ],
)
def test_quorum_requests_are_refused_at_the_client_listener(
    api: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        async with Door("PLAINTEXT") as door:
            await door.send(api, SUPPORTED[api][1], {})
            assert await door.hung_up()
            assert door.events == []

    run(scenario)
    said = capfd.readouterr().err
    key = API_KEYS[api]
    assert said.count("\n") == 1
    assert f"{api} (api {key}) is not served on the listener PLAINTEXT" in said


def test_the_controller_listener_serves_quorum_and_broker_requests() -> None:
    assert {
        *("Vote", "Fetch", "FetchSnapshot", "AddRaftVoter", "UpdateRaftVoter"),
        *("Envelope", "BrokerRegistration", "BrokerHeartbeat", "ControllerRegistration"),
        *("Metadata", "CreateTopics", "DescribeQuorum"),
    } <= SERVED["CONTROLLER"]


def test_a_voter_may_be_added_at_both_doors_but_reaches_the_quorum_only_at_one() -> None:
    body = {"cluster_id": "c", "voter_id": 4, "voter_directory_id": b"d" * 16, "timeout_ms": 1}

    async def scenario() -> None:
        async with Door("CONTROLLER") as door:
            await door.send("AddRaftVoter", 0, body)
            assert isinstance(door.events[0], RequestReceived)
        async with Door("PLAINTEXT") as door:
            await door.send("AddRaftVoter", 0, body)
            assert isinstance(door.events[0], ApiRequest)

    run(scenario)


def test_an_unknown_version_gets_the_versions_of_its_listener() -> None:
    async def scenario() -> None:
        async with Door("PLAINTEXT") as door:
            head = (18).to_bytes(2, "big") + (99).to_bytes(2, "big") + bytes(3) + b"\1\xff\xff\0"
            door.writer.write(len(head).to_bytes(4, "big") + head)
            answer = await door.receive("ApiVersions", 0)
            assert answer["error_code"] == 35
            keys = {api["api_key"] for api in answer["api_keys"]}
            assert keys == {API_KEYS[api] for api in door.listener.served}
            assert not keys & {API_KEYS[api] for api in RECORDS}, "it stores no records"

    run(scenario)


def test_a_request_of_some_megabytes_is_received() -> None:
    async def scenario() -> None:
        names = [f"{number:04}-" + "x" * 240 for number in range(9_000)]
        body = {"topics": [{"topic_id": bytes(16), "name": name} for name in names]}
        async with Door("CONTROLLER") as door:
            await door.send("Metadata", 12, body)
            await door.asked(1)
            [event] = door.events
            assert isinstance(event, ApiRequest)
            assert [topic["name"] for topic in event.body["topics"]] == names

    run(scenario)


def test_a_connection_is_read_until_a_frame_has_to_wait() -> None:
    async def scenario() -> None:
        async with Door("PLAINTEXT") as door:
            for _ in range(MAX_PENDING):
                await door.send("Metadata", 12, METADATA)
            transport = door.connection._transport
            assert transport is not None and transport.is_reading()
            await door.send("Metadata", 12, METADATA)
            assert not transport.is_reading()
            assert len(door.events) == MAX_PENDING
            first = door.events[0]
            assert isinstance(first, ApiRequest)
            door.requests.reply(ApiReply(first.token, {"brokers": [], "topics": []}))
            await door.asked(MAX_PENDING + 1)
            assert transport.is_reading()

    run(scenario)


@pytest.mark.parametrize("tail", [[], [b"tail"]])
def test_a_connection_is_read_again_after_a_slow_client_has_taken_a_file(
    tail: list[bytes], tmp_path: Path
) -> None:
    length = 32 << 20  # More than sockets hold.
    path = tmp_path / "records"
    path.write_bytes(bytes(length))

    async def scenario() -> None:
        async with Door("PLAINTEXT") as door:
            door.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await door.send("Metadata", 12, METADATA)
            part = FilePart(os.open(path, os.O_RDONLY), 0, length)
            door.connection.answer(door.connection._slots[0], [b"head", part, *tail])
            await turns()
            await door.send("Metadata", 12, METADATA)
            assert len(door.events) == 1  # It has to take its answer first.
            door.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await door.reader.readexactly(8 + length + sum(map(len, tail)))
            await door.asked(2)

    run(scenario)
