"""The same requests to either kind of controller: encoded in advance, sent over connections."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraftwreck.nodes.protocol.apis import decode_response, encode_request
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.oracle.controller import HOST

TIMEOUT_S: Final = 120.0
_LENGTH: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Request:
    """One request and how many metadata records it makes."""

    api: str
    version: int
    body: dict[str, Any]
    records: int


class _Connection:
    """One connection; it sends its requests one after the other."""

    def __init__(self, port: int, frames: Sequence[bytes]) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers: list[bytes] = []
        self._frames = iter(frames)
        self._received = bytearray()

    def send_next(self) -> bool:
        """Send the next request; False when all are answered."""
        frame = next(self._frames, None)
        if frame is not None:
            self.socket.sendall(frame)
        return frame is not None

    def receive(self) -> bool:
        """Receive data; True when that completes an answer."""
        chunk = self.socket.recv(1 << 20)
        if not chunk:
            raise EOFError("the controller closed the connection")
        self._received += chunk
        if len(self._received) < 4:
            return False
        (length,) = _LENGTH.unpack_from(self._received)
        if len(self._received) < 4 + length:
            return False
        self.answers.append(bytes(self._received[4:]))
        self._received.clear()
        return True


def run(port: int, requests: Sequence[Request], connections: int) -> float:
    """Send all requests, dealt to the connections; return the seconds until all are answered.

    Raises RuntimeError for an answer with an error.
    """
    frames = [_frame(number, request) for number, request in enumerate(requests)]
    opened = [_Connection(port, frames[n::connections]) for n in range(connections)]
    with selectors.DefaultSelector() as selector:
        for connection in opened:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        began = time.monotonic()
        busy = sum(connection.send_next() for connection in opened)
        while busy:
            ready = selector.select(TIMEOUT_S)
            if not ready:
                raise TimeoutError(f"no answer for {TIMEOUT_S:g} s")
            for key, _ in ready:
                if key.data.receive() and not key.data.send_next():
                    busy -= 1
        seconds = time.monotonic() - began
    for first, connection in enumerate(opened):
        connection.socket.close()
        for request, answer in zip(requests[first::connections], connection.answers, strict=True):
            _check(request, answer)
    return seconds


def _frame(correlation: int, request: Request) -> bytes:
    data = encode_request(request.api, request.version, correlation, "bench", request.body)
    return _LENGTH.pack(len(data)) + data


def _check(request: Request, answer: bytes) -> None:
    _, body = decode_response(request.api, request.version, answer)
    wrong = [code for code in _errors(body) if code != NONE]
    if wrong:
        raise RuntimeError(f"{request.api} was answered with the errors {sorted(set(wrong))}")


def _errors(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        if "error_code" in value:
            yield value["error_code"]
        for inner in value.values():
            yield from _errors(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _errors(inner)
