"""The client against scripted servers: other servers, repeated requests, missing APIs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kraftwreck.nodes.admin.client import Client
from kraftwreck.nodes.admin.failure import NOT_DONE, AdminError
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.protocol.apis import API_KEYS, decode_request_header, encode_response
from kraftwreck.nodes.protocol.errors import NONE, NOT_CONTROLLER

UNREGISTER = {"broker_id": 1}
VERSIONS = {"UnregisterBroker": 0}
Answers = list[dict[str, Any] | None]


class Scripted:
    """A server that gives the answers of its list in turn; None closes the connection."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.requests = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.endpoint = Endpoint("127.0.0.1", self.socket.getsockname()[1])
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as file:
                while (size := file.read(4)) and self._answer(
                    connection, file.read(int.from_bytes(size, "big"))
                ):
                    pass

    def _answer(self, connection: socket.socket, frame: bytes) -> bool:
        key, version, correlation, *_ = decode_request_header(frame)
        if key == API_KEYS["ApiVersions"]:
            keys = [
                {"api_key": API_KEYS[api], "min_version": newest, "max_version": newest}
                for api, newest in VERSIONS.items()
            ]
            body: dict[str, Any] | None = {"error_code": NONE, "api_keys": keys}
            data = encode_response("ApiVersions", version, correlation, body or {})
        else:
            self.requests += 1
            body = self.answers.pop(0)
            if body is None:
                return False
            data = encode_response("UnregisterBroker", version, correlation, body)
        connection.sendall(len(data).to_bytes(4, "big") + data)
        return True


@pytest.fixture
def serve() -> Iterator[Callable[..., Scripted]]:
    servers: list[Scripted] = []

    def start(*answers: dict[str, Any] | None) -> Scripted:
        servers.append(Scripted(list(answers)))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def code(number: int) -> dict[str, Any]:
    return {"error_code": number}


def test_a_passing_error_is_answered_by_another_attempt(serve: Callable[..., Scripted]) -> None:
    server = serve(code(NOT_CONTROLLER), code(NONE))
    client = Client([server.endpoint], 60.0)
    assert client.call("UnregisterBroker", UNREGISTER)["error_code"] == NONE
    assert server.requests == 2
    client.close()


def test_another_server_is_used_when_one_closes_the_connection(
    serve: Callable[..., Scripted],
) -> None:
    dying, good = serve(*[None] * 10), serve(code(NONE))
    client = Client([dying.endpoint, good.endpoint], 60.0)
    assert client.call("UnregisterBroker", UNREGISTER)["error_code"] == NONE
    assert client.servers[0] == good.endpoint
    client.close()


def test_an_api_that_a_server_lacks_is_named(serve: Callable[..., Scripted]) -> None:
    server = serve()
    client = Client([server.endpoint], 60.0)
    with pytest.raises(AdminError, match="does not serve DescribeQuorum; pass the listener of"):
        client.call("DescribeQuorum", {})
    assert client.call_if_served("DescribeLogDirs", {"topics": None}) is None
    client.close()


def test_no_answer_in_time_is_reported_as_not_done(serve: Callable[..., Scripted]) -> None:
    server = serve(*[code(NOT_CONTROLLER)] * 100)
    client = Client([server.endpoint], 0.3)
    with pytest.raises(AdminError, match="was answered with NOT_CONTROLLER") as failure:
        client.call("UnregisterBroker", UNREGISTER)
    assert failure.value.status == NOT_DONE
    client.close()
