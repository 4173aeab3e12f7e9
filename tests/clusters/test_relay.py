"""Requests of one kind are disturbed, or their answers; a server reports the requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.remote.session import Remote

pytestmark = pytest.mark.cluster

MS = 1000
PORT = 9093
PYTHON = "/usr/bin/python3"
FETCH, VOTE, METADATA = 1, 52, 3

SERVER = f"""
import asyncio, json, os, struct, sys, threading
asked = []
async def serve(reader, writer):
    try:
        while True:
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            frame = await reader.readexactly(size); rest = frame[8:]
            api, version, correlation = struct.unpack_from(">hhi", frame)
            asked.append(api)
            writer.write(struct.pack(">ii", 4 + len(rest), correlation) + rest)
            await writer.drain()
    except (OSError, EOFError): pass
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "0.0.0.0", {PORT}, limit=1 << 22)
    print("up", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    print(json.dumps(asked), flush=True); os._exit(0)
asyncio.run(main())
"""
"""Answers every request with its own content; at the end it prints the kinds of requests."""

CLIENT = f"""
import json, socket, struct, sys, time
s = socket.create_connection((sys.argv[1], {PORT})); s.settimeout(30)
correlation = 0
def read(n):
    data = b""
    while len(data) < n:
        chunk = s.recv(n - len(data))
        if not chunk: raise ConnectionResetError
        data += chunk
    return data
for line in sys.stdin:
    do, *rest = json.loads(line)
    try:
        if do == "ask":
            correlation += 1; payload = b"x" * rest[1]; began = time.monotonic()
            s.sendall(struct.pack(">ihhi", 8 + len(payload), rest[0], 0, correlation) + payload)
            told = correlation
        elif do == "answer":
            s.settimeout(rest[0]); size, got = struct.unpack(">ii", read(8)); read(size - 4)
            told = [got, time.monotonic() - began]
        elif do == "new":
            s.close(); s = socket.create_connection((sys.argv[1], {PORT})); told = "connected"
    except TimeoutError: told = "silence"
    except OSError: told = "reset"
    print(json.dumps(told), flush=True)
"""


class Client:
    """A connection from a host to the server, one request after the other."""

    def __init__(self, remote: Remote, server: Host) -> None:
        self.channel = remote.open_channel([PYTHON, "-c", CLIENT, server.ip], 60)
        self.told = self.channel.makefile("rb")

    def do(self, *command: Any) -> Any:
        self.channel.sendall(json.dumps(command).encode() + b"\n")
        return json.loads(self.told.readline())

    def ask(self, api: int, size: int = 10) -> int:
        """Send a request; return its correlation id."""
        correlation: int = self.do("ask", api, size)
        return correlation

    def answer(self, timeout_s: float = 30.0) -> Any:
        """Return the next answer's correlation id and its age, or what came instead."""
        return self.do("answer", timeout_s)


class Place:
    """A server on the second host, clients on the first and the third."""

    def __init__(self, hosts: list[Host], remotes: dict[str, Remote]) -> None:
        self.hosts, self.remotes = hosts, remotes
        self.agent = Agent(remotes["n2"])
        self.server = remotes["n2"].open_channel([PYTHON, "-c", SERVER], 60)
        assert self.server.recv(100) == b"up\n"
        self.peer, self.other = (Client(remotes[name], hosts[1]) for name in ("n1", "n3"))

    def set(self, *rules: dict[str, Any]) -> dict[str, Any]:
        peers = sorted({rule["peer"] for rule in rules})
        return self.agent.ask(
            "set_relay", seed="7", rules=list(rules), peers=peers, ports=[PORT], again=[FETCH, VOTE]
        )

    def rule(self, part: str, *apis: int, **effects: int) -> dict[str, Any]:
        nothing = ("delay", "jitter", "loss", "reset", "drop", "duplicate", "again", "window")
        known = {"peer": self.hosts[0].ip, "part": part, "apis": list(apis)}
        return {**known, **dict.fromkeys(nothing, 0), **effects}

    def asked(self) -> list[int]:
        """End the server; return the kinds of requests that it has got."""
        self.server.sendall(b"\n")
        told: list[int] = json.loads(self.server.makefile("rb").readline())
        return told

    def close(self) -> None:
        for channel in (self.server, self.peer.channel, self.other.channel):
            channel.close()
        self.agent.ask("heal_network")
        self.agent.close()


@pytest.fixture
def place(five: list[Host], remotes: dict[str, Remote]) -> Iterator[Place]:
    made = Place(five, remotes)
    yield made
    made.close()


def test_one_kind_of_request_is_swallowed_and_its_connection_stays(place: Place) -> None:
    place.set(place.rule("request", FETCH, drop=100))
    assert place.peer.do("new") == "connected"
    place.peer.ask(FETCH)
    assert place.peer.answer(0.5) == "silence"
    vote = place.peer.ask(VOTE)
    assert place.peer.answer()[0] == vote
    told = place.set()["before"]["messages"][place.hosts[0].ip]
    assert told == {str(FETCH): {"dropped": 1}, str(VOTE): {"passed": 2}}
    assert place.asked() == [VOTE]


def test_an_answer_is_swallowed_after_the_request_was_carried_out(place: Place) -> None:
    place.set(place.rule("response", FETCH, drop=100))
    place.peer.do("new")
    place.peer.ask(FETCH)
    assert place.peer.answer(0.5) == "silence"
    vote = place.peer.ask(VOTE)
    assert place.peer.answer()[0] == vote
    assert place.asked() == [FETCH, VOTE]


@pytest.mark.parametrize("part", ["request", "response"])
def test_one_kind_of_rpc_is_slow_and_others_overtake_it(place: Place, part: str) -> None:
    place.set(place.rule(part, FETCH, delay=1500 * MS))
    place.peer.do("new")
    fetch, vote = place.peer.ask(FETCH), place.peer.ask(VOTE)
    assert [place.peer.answer()[0] for _ in range(2)] == [vote, fetch]
    place.peer.ask(FETCH)
    assert place.peer.answer()[1] >= 1.5


def test_where_all_kinds_are_slow_they_keep_their_order(place: Place) -> None:
    place.set(place.rule("request", delay=10 * MS, jitter=200 * MS))
    place.peer.do("new")
    asked = [place.peer.ask(kind) for kind in (FETCH, VOTE, METADATA) * 4]
    assert [place.peer.answer()[0] for _ in asked] == asked


def test_a_request_between_nodes_arrives_again_and_is_answered_once(place: Place) -> None:
    place.set(place.rule("request", duplicate=100, again=50 * MS))
    place.peer.do("new")
    for kind in (FETCH, METADATA):
        correlation = place.peer.ask(kind)
        assert place.peer.answer()[0] == correlation
    assert place.peer.answer(1.0) == "silence"
    told = place.set()["before"]["messages"][place.hosts[0].ip]
    assert told[str(FETCH)]["duplicated"] == 1
    assert "duplicated" not in told[str(METADATA)]
    assert sorted(place.asked()) == [FETCH, FETCH, METADATA]


def test_a_lost_message_may_reset_its_connection(place: Place) -> None:
    place.set(place.rule("request", FETCH, loss=100, reset=100))
    place.peer.do("new")
    place.peer.ask(FETCH)
    assert place.peer.answer() == "reset"
    assert place.set()["before"]["messages"][place.hosts[0].ip] == {str(FETCH): {"reset": 1}}


def test_connections_from_before_are_reset_once_and_others_never(place: Place) -> None:
    for client in (place.peer, place.other):
        client.ask(VOTE)
        assert client.answer()[0] == 1
    place.set(place.rule("request", FETCH, drop=100))
    place.peer.ask(VOTE)
    assert place.peer.answer() == "reset"
    assert place.peer.do("new") == "connected"
    place.set(place.rule("request", FETCH, VOTE, drop=50))
    metadata = place.peer.ask(METADATA)
    assert place.peer.answer()[0] == metadata, "a change of rules resets nothing"
    fetch = place.other.ask(FETCH)
    assert place.other.answer()[0] == fetch, "the other host's connection is the one it was"
    place.set()
    place.peer.ask(VOTE)
    assert place.peer.answer() == "reset"
    place.peer.do("new")
    vote = place.peer.ask(VOTE)
    assert place.peer.answer()[0] == vote


def test_large_messages_come_through_unchanged_in_size(place: Place) -> None:
    place.set(place.rule("response", FETCH, delay=MS))
    place.peer.do("new")
    correlation = place.peer.ask(FETCH, 3_000_000)
    assert place.peer.answer()[0] == correlation


def test_a_node_that_is_down_refuses_as_it_would(place: Place) -> None:
    place.set(place.rule("request", FETCH, drop=100))
    place.asked()
    place.server.close()
    place.peer.do("new")
    place.peer.ask(VOTE)
    assert place.peer.answer() == "reset"
