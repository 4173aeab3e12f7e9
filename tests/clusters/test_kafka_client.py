"""The client says ``refused`` only when the node surely saw nothing, ``lost`` when unknown."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from kraftwreck.nodes.protocol.apis import decode_request_header, encode_response
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.systems.kraft.client import KafkaClient
from tests.waiting import wait_until

ANSWER = {"error_code": 0, "api_keys": []}
Serve = Callable[[socket.socket], None]


def read_request(connection: socket.socket) -> int:
    """Read one request; return its correlation id."""
    (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return decode_request_header(connection.recv(length, socket.MSG_WAITALL))[2]


def answer(connection: socket.socket, shift: int = 0) -> None:
    frame = encode_response("ApiVersions", 0, read_request(connection) + shift, ANSWER)
    connection.sendall(struct.pack(">i", len(frame)) + frame)


class Node:
    """A node that treats its first, second ... connection as given, the last one for ever."""

    def __init__(self, *serves: Serve) -> None:
        self.serves = serves
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.client = KafkaClient("127.0.0.1", self.listener.getsockname()[1])
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            serve = self.serves[min(self.connections, len(self.serves) - 1)]
            self.connections += 1
            with connection:
                serve(connection)

    def close(self) -> None:
        self.client.close()
        self.listener.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def make(*serves: Serve) -> Node:
        nodes.append(Node(*serves))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


def forever(connection: socket.socket) -> None:
    try:
        while True:
            answer(connection)
    except (OSError, struct.error):
        pass


def silent(connection: socket.socket) -> None:
    read_request(connection)
    connection.recv(1)  # until the other end gives up


def hang_up(connection: socket.socket) -> None:
    read_request(connection)


def versions(node: Node, timeout_ms: int = 2000) -> tuple[str, str | None]:
    given = node.client.call("ApiVersions", 0, {}, timeout_ms)
    return given.status, given.error


def test_answers_come_over_one_connection(start: Callable[..., Node]) -> None:
    node = start(forever)
    for _ in range(3):
        given = node.client.call("ApiVersions", 0, {}, 2000)
        assert (given.status, given.response["error_code"]) == ("ok", 0)
    assert node.connections == 1


def test_no_listener_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    given = KafkaClient("127.0.0.1", port).call("ApiVersions", 0, {}, 2000)
    assert (given.status, given.error) == ("refused", "connection refused")


def test_a_connection_that_never_opens_is_refused_in_time() -> None:
    """The backlog of a listener that accepts nothing is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        fillers = []
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            fillers.append(filler)
        client = KafkaClient("127.0.0.1", listener.getsockname()[1])
        given = client.call("ApiVersions", 0, {}, 200)
        assert (given.status, given.error) == ("refused", "timed out")
        for filler in fillers:
            filler.close()


def test_silence_is_lost_in_time_and_the_connection_is_not_used_again(
    start: Callable[..., Node],
) -> None:
    node = start(silent, forever)
    assert versions(node, 150) == ("lost", "timed out")
    assert versions(node) == ("ok", None)
    assert node.connections == 2


def test_a_connection_that_breaks_after_the_request_is_lost(start: Callable[..., Node]) -> None:
    node = start(hang_up, forever)
    status, error = versions(node)
    assert status == "lost"
    assert error in ("the node closed the connection", "connection reset by peer")
    assert versions(node) == ("ok", None)


def test_a_connection_closed_while_idle_loses_nothing(start: Callable[..., Node]) -> None:
    node = start(answer, forever)
    assert versions(node) == ("ok", None)
    connection = node.client._socket
    assert connection is not None
    wait_until(lambda: select.select([connection], [], [], 0)[0], "the node closes the connection")
    assert versions(node) == ("ok", None)
    assert node.connections == 2


def test_an_answer_to_another_request_is_lost(start: Callable[..., Node]) -> None:
    node = start(lambda connection: answer(connection, shift=1), forever)
    status, error = versions(node)
    assert status == "lost"
    assert error is not None
    assert "response to request 2, not 1" in error


@pytest.mark.parametrize(
    "junk", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x05\0\0\0\x01\0", b"\0\0\0\0"]
)
def test_junk_is_lost_not_a_crash(start: Callable[..., Node], junk: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(junk)

    assert versions(start(serve))[0] == "lost"


def test_an_answer_that_trickles_is_bounded_in_all(start: Callable[..., Node]) -> None:
    pause = threading.Event()

    def trickle(connection: socket.socket) -> None:
        read_request(connection)
        try:
            connection.sendall(struct.pack(">i", 1000))
            for _ in range(1000):
                connection.sendall(b"x")
                pause.wait(0.1)
        except OSError:
            pass

    assert versions(start(trickle), 200) == ("lost", "timed out"), "the answer takes 100 s"


def test_a_body_that_does_not_fit_is_the_callers_mistake(start: Callable[..., Node]) -> None:
    with pytest.raises(ProtocolError):
        start(forever).client.call("ApiVersions", 0, {"nonsense": 1}, 100)
