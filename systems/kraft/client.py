"""A blocking Kafka client for one node that reports the outcome of a request exactly.

It only implements the wire format; the workload handles retries, leaders and meaning.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from pathlib import Path
from typing import Any

from kraftwreck.harness.client import Answer
from kraftwreck.harness.clusters.gateway import dial
from kraftwreck.nodes.protocol.apis import decode_response, encode_request
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.request import KafkaRequest

_LENGTH = struct.Struct(">i")
_MAX_FRAME = 64 << 20


class KafkaClient:
    """One connection to one node, opened on first use. For one thread.

    It is closed after any outcome except a response: a late response must not be taken for that of
    the next request.
    """

    def __init__(
        self, host: str, port: int, client_id: str = "kraftwreck", gateway: Path | None = None
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self._gateway = gateway
        self._socket: socket.socket | None = None
        self._correlation = 0

    def send(self, request: KafkaRequest, timeout_ms: int) -> Answer:
        """Send ``request`` as :meth:`call` does."""
        return self.call(request.api, request.version, request.body, timeout_ms)

    def call(self, api: str, version: int, body: dict[str, Any], timeout_ms: int) -> Answer:
        """Send one request and wait for its response, ``timeout_ms`` in all.

        The status is ``refused`` if no byte was sent, ``lost`` if bytes were sent and no response
        came, otherwise ``ok``. Raises ProtocolError when ``body`` does not fit ``api``.
        """
        self._correlation = (self._correlation + 1) & 0x7FFF_FFFF
        frame = encode_request(api, version, self._correlation, self.client_id, body)
        data = memoryview(_LENGTH.pack(len(frame)) + frame)
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            connection = self._connected(deadline)
            # A first send that raises has passed nothing to the kernel.
            sent = connection.send(data)
        except OSError as error:
            self.close()
            return Answer("refused", error=_words(error))
        try:
            _set_timeout(connection, deadline)
            connection.sendall(data[sent:])
            (length,) = _LENGTH.unpack(_receive(connection, 4, deadline))
            if not 4 <= length <= _MAX_FRAME:
                raise ProtocolError(f"a frame of {length} bytes")
            correlation, answer = decode_response(
                api, version, _receive(connection, length, deadline)
            )
            if correlation != self._correlation:
                raise ProtocolError(f"response to request {correlation}, not {self._correlation}")
        except (OSError, EOFError, ProtocolError) as error:
            self.close()
            return Answer("lost", error=_words(error))
        return Answer("ok", answer)

    def _connected(self, deadline: float) -> socket.socket:
        """Return the open connection, or a new one; raises OSError."""
        if self._socket is not None:
            # Idle and readable: the node has closed it, or violated the protocol.
            if not select.select([self._socket], [], [], 0)[0]:
                _set_timeout(self._socket, deadline)
                return self._socket
            self.close()
        remaining = max(0.001, deadline - time.monotonic())
        connection = dial((self.host, self.port), remaining, self._gateway)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        _set_timeout(connection, deadline)
        return connection

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _set_timeout(connection: socket.socket, deadline: float) -> None:
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("timed out")
    connection.settimeout(remaining)


def _receive(connection: socket.socket, count: int, deadline: float) -> bytes:
    """Return exactly ``count`` bytes; raises EOFError, TimeoutError, OSError."""
    data = bytearray()
    while len(data) < count:
        _set_timeout(connection, deadline)
        chunk = connection.recv(min(count - len(data), 1 << 20))
        if not chunk:
            raise EOFError("the node closed the connection")
        data += chunk
    return bytes(data)


def _words(error: Exception) -> str:
    """Describe an error in words that are the same on every run."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)
