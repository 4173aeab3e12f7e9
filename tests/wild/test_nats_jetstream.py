"""The client of NATS JetStream, against a server that keeps one stream in memory."""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import nats_jetstream
import pytest
from nats_jetstream import API, NO_MESSAGE, NO_STREAM, STREAM, WRONG_SEQUENCE, Client

from kraftwreck.api import Place
from kraftwreck.histories.operation import Op

NO_ANSWER = object()
REFUSED = object()


class Server:
    """A server with one stream: the subjects and payloads of its messages."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any]] = []
        self.exists = True
        self.answer: object = None
        """How it answers messages of the stream, if not as it should."""
        self.pongs = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._speak, args=(client,), daemon=True).start()

    def _speak(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as file, suppress(OSError):
            client.sendall(b'INFO {"headers":true}\r\nPING\r\n')
            while line := file.readline():
                self._take(client, file, line.split())

    def _take(self, client: socket.socket, file: BinaryIO, words: list[bytes]) -> None:
        """Answer one message of the client."""
        if words[0] == b"PONG":
            self.pongs += 1
        if words[0] not in (b"PUB", b"HPUB"):
            return
        _, subject, inbox, *sizes = words
        ahead = int(sizes[0]) if words[0] == b"HPUB" else 0
        content = file.read(int(sizes[-1]) + 2)[:-2]
        headers, payload = content[:ahead].decode(), content[ahead:]
        reply = self._reply(subject.decode(), headers, payload)
        if reply is REFUSED:
            status = b"NATS/1.0 503\r\n\r\n"
            client.sendall(b"HMSG %b 1 %d %d\r\n%b\r\n" % (inbox, 16, 16, status))
        elif reply is not NO_ANSWER:
            text = json.dumps(reply).encode()
            client.sendall(b"MSG %b 1 %d\r\n%b\r\n" % (inbox, len(text), text))

    def _reply(self, subject: str, headers: str, payload: bytes) -> object:
        if subject == f"{API}.INFO.{STREAM}":
            state = {"first_seq": 1, "last_seq": len(self.messages)}
            return {"state": state} if self.exists else _error(NO_STREAM)
        if subject == f"{API}.MSG.GET.{STREAM}":
            return self._message(**json.loads(payload))
        if self.answer is not None:
            return self.answer
        if headers and int(headers.split()[2]) != self._last(subject):
            return _error(WRONG_SEQUENCE)
        self.messages.append((subject, json.loads(payload)))
        return {"stream": STREAM, "seq": len(self.messages)}

    def _last(self, subject: str) -> int:
        numbers = [n for n, (name, _) in enumerate(self.messages, 1) if name == subject]
        return max(numbers, default=0)

    def _message(self, seq: int = 0, last_by_subj: str = "") -> object:
        number = seq or self._last(last_by_subj)
        if not number:
            return _error(NO_MESSAGE)
        text = json.dumps(self.messages[number - 1][1]).encode()
        return {"message": {"seq": number, "data": b64encode(text).decode()}}

    def close(self) -> None:
        """Accept no further connection."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _error(code: int) -> dict[str, Any]:
    return {"error": {"err_code": code, "description": "no"}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Return a server; clients find it at the usual port, and wait for 0.2 s."""
    made = Server()
    monkeypatch.setattr(nats_jetstream, "CLIENTS", made.port)
    monkeypatch.setattr(nats_jetstream, "TIMEOUT_S", 0.2)
    yield made
    made.close()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    """Return a client of the server."""
    made = Client(Place("n1", 1, "127.0.0.1", "node"))
    yield made
    made.close()


def op(f: str, key: object, value: object = None) -> Op:
    return Op(index=0, process=3, type="invoke", f=f, key=key, value=value, time=0)


def test_elements_of_the_set_are_messages(server: Server, client: Client) -> None:
    assert client.invoke(op("read", "set")).value == []
    for value in range(300, 0, -1):
        assert client.invoke(op("add", "set", value)).type == "ok"
    assert client.invoke(op("read", "set")).value == list(range(1, 301))
    assert server.pongs == 1


def test_registers_are_compared_and_set_by_their_sequence(client: Client) -> None:
    assert client.invoke(op("read", 4)).value is None
    assert client.invoke(op("write", 4, 7)).type == "ok"
    assert client.invoke(op("cas", 4, [6, 8])).type == "fail"
    assert client.invoke(op("cas", 4, [7, 8])).type == "ok"
    assert client.invoke(op("read", 4)).value == 8


def test_a_client_that_was_overtaken_begins_again(server: Server, client: Client) -> None:
    stale = [(None, 0)]
    present = client.read

    def read(key: Any) -> tuple[Any, int]:
        return stale.pop() if stale else present(key)

    client.read = read  # type: ignore[method-assign]
    server.messages.append((f"{STREAM}.counter", 5))
    assert client.invoke(op("add", "counter", 2)).type == "ok"
    assert server.messages[-1] == (f"{STREAM}.counter", 7)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(REFUSED, "fail"), (NO_ANSWER, "info"), (_error(10008), "info")],
    ids=["no responders", "silence", "an error of unknown effect"],
)
def test_only_what_certainly_failed_is_a_fail(
    server: Server, client: Client, answer: object, outcome: str
) -> None:
    server.answer = answer
    assert client.invoke(op("add", "set", 1)).type == outcome
    assert client.invoke(op("write", 2, 1)).type == outcome


def test_a_stream_that_is_gone_has_no_elements(server: Server, client: Client) -> None:
    client.invoke(op("add", "set", 1))
    server.exists = False
    completion = client.invoke(op("read", "set"))
    assert (completion.type, completion.value) == ("ok", [])


def test_a_server_that_is_gone_is_a_fail(server: Server, client: Client) -> None:
    server.close()
    assert client.invoke(op("read", "set")).type == "fail"


@pytest.mark.parametrize(("sync", "written"), [("default", "2m"), ("always", "always")])
def test_the_option_is_the_servers_setting(sync: str, written: str) -> None:
    system = nats_jetstream.SYSTEM.configured([f"sync={sync}"])
    places = [Place(f"n{number}", number, f"10.0.0.{number}", "node") for number in (1, 2)]
    (process,) = system.processes(places[0], places)
    (settings,) = process.files.values()
    assert f"sync_interval: {written}\n" in str(settings)
    assert 'routes: ["nats://10.0.0.1:6222", "nats://10.0.0.2:6222"]' in str(settings)
    assert Path(process.argv[0]).name == "nats-server"
