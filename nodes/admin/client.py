"""A blocking client of a cluster: any broker is good, and one that does not answer is replaced."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from kraftwreck.nodes.admin.failure import NOT_DONE, AdminError
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.protocol.apis import (
    API_KEYS,
    SUPPORTED,
    decode_response,
    encode_request,
)
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.errors import (
    BROKER_NOT_AVAILABLE,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_CONTROLLER,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_VERSION,
    error_name,
)

Body = dict[str, Any]

CLIENT_ID: Final = "kraftwreck-admin"
PASSING: Final = frozenset(
    {
        BROKER_NOT_AVAILABLE,
        LEADER_NOT_AVAILABLE,
        NOT_CONTROLLER,
        REQUEST_TIMED_OUT,
        UNKNOWN_SERVER_ERROR,
    }
)
"""Errors that end by themselves. The request may have been carried out all the same."""
PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 1.0
REQUEST_S: Final = 15.0
MOST_BYTES: Final = 256 << 20


class _Connection:
    """One connection, and the versions that its server has."""

    def __init__(self, server: Endpoint, timeout_s: float) -> None:
        self._correlation = itertools.count(1)
        self.socket = socket.create_connection((server.host, server.port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.versions: dict[int, tuple[int, int]] = {}
        answer = self._exchange("ApiVersions", 0, {})
        if answer["error_code"] != NONE:
            raise ProtocolError(f"ApiVersions: {error_name(answer['error_code'])}")
        self.versions = {
            each["api_key"]: (each["min_version"], each["max_version"])
            for each in answer["api_keys"]
        }

    def version(self, api: str) -> int | None:
        """Return the newest version of ``api`` that both sides have, None if there is none."""
        low, high = SUPPORTED[api]
        theirs = self.versions.get(API_KEYS[api])
        if theirs is None:
            return None
        newest = min(high, theirs[1])
        return newest if newest >= max(low, theirs[0]) else None

    def call(self, api: str, body: Body, timeout_s: float) -> Body | None:
        """Return the answer; None if the server does not have the API."""
        version = self.version(api)
        if version is None:
            return None
        self.socket.settimeout(timeout_s)
        return self._exchange(api, version, body)

    def _exchange(self, api: str, version: int, body: Body) -> Body:
        correlation = next(self._correlation)
        frame = encode_request(api, version, correlation, CLIENT_ID, body)
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(self._exactly(4), "big")
        if size > MOST_BYTES:
            raise ProtocolError(f"a response of {size} bytes: is this a listener of Kafka's?")
        received, answer = decode_response(api, version, self._exactly(size))
        if received != correlation:
            raise ProtocolError(f"{api}: the response belongs to another request")
        return answer

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self.socket.recv(min(count - len(data), 1 << 20))
            if not part:
                raise ConnectionError("the connection was closed")
            data += part
        return bytes(data)


class Client:
    """Requests to a cluster through the brokers at ``servers``.

    A request is repeated, at other servers too, for up to ``patience_s`` seconds; all requests of
    the commands may be carried out twice.
    """

    def __init__(self, servers: Sequence[Endpoint], patience_s: float) -> None:
        self.servers = list(servers)
        self.patience_s = patience_s
        self._connections: dict[Endpoint, _Connection] = {}

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.socket.close()
        self._connections.clear()

    def call(
        self,
        api: str,
        body: Body,
        server: Endpoint | None = None,
        patience_s: float | None = None,
    ) -> Body:
        """Return the answer to a request, sent to ``server`` or to any.

        Raises AdminError if there is none in time, or if servers do not have the API.
        """
        answer = self.call_if_served(api, body, server, patience_s)
        if answer is None:
            at = server or self.servers[0]
            raise AdminError(f"{at}: does not serve {api}; pass the listener of a broker")
        return answer

    def call_if_served(
        self,
        api: str,
        body: Body,
        server: Endpoint | None = None,
        patience_s: float | None = None,
    ) -> Body | None:
        """Return the answer as :meth:`call` does, None if the server does not have the API."""
        patience_s = self.patience_s if patience_s is None else patience_s
        failure = ""
        found: list[Body | None] = []

        def attempt(limit: float) -> bool:
            nonlocal failure
            at = server or self.servers[0]
            try:
                answer = self._once(at, api, body, limit)
            except (OSError, ProtocolError) as error:
                failure = f"{at}: {_reason(error)}"
            else:
                code = NONE if answer is None else _code(answer)
                if code not in PASSING:
                    found.append(answer)
                    return True
                failure = f"{at}: {api} was answered with {error_name(code)}"
            if server is None:
                self.servers.append(self.servers.pop(0))
            return False

        if not wait(attempt, patience_s):
            raise AdminError(
                f"{failure}; no answer to {api} within {patience_s:g} s: check that the "
                "brokers run, and repeat the command",
                NOT_DONE,
            )
        return found[0]

    def _once(self, server: Endpoint, api: str, body: Body, limit: float) -> Body | None:
        timeout_s = max(0.1, min(REQUEST_S, limit - time.monotonic()))
        connection = self._connections.pop(server, None)
        fresh = connection is None
        if connection is None:
            connection = _Connection(server, timeout_s)
        try:
            answer = connection.call(api, body, timeout_s)
        except (ConnectionError, BrokenPipeError):
            connection.socket.close()
            if fresh:
                raise
            return self._once(server, api, body, limit)
        except BaseException:
            connection.socket.close()
            raise
        self._connections[server] = connection
        return answer


def wait(attempt: Callable[[float], bool], patience_s: float) -> bool:
    """Call ``attempt`` with the end of the time until it returns True; False if it never did."""
    limit = time.monotonic() + patience_s
    pause = PAUSE_S
    while not attempt(limit):
        if time.monotonic() + pause > limit:
            return False
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)
    return True


def refused(what: str, code: int, message: str | None) -> AdminError:
    """Return the error for an answer's error code."""
    if code == UNSUPPORTED_VERSION:
        message = message or "the cluster's version is too old"
    return AdminError(f"{what}: {error_name(code)}" + (f", {message}" if message else ""))


def _code(answer: Body) -> int:
    code: int = answer.get("error_code", NONE)
    return code


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
