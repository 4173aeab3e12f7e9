"""NATS's text protocol: one connection that sends requests and reads their replies.

A request is a message with a reply subject of its own. A server that knows no receiver for it
answers with the status 503, and the message was certainly not delivered.
"""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kraftwreck.api import Place, dial

OPTIONS = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
NO_RESPONDERS = 503


class NotDeliveredError(Exception):
    """The server knew no receiver: the request certainly had no effect."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message that wants a reply; ``headers`` are lines such as ``Name: value``."""

    subject: str
    payload: bytes = b""
    headers: tuple[str, ...] = ()


class Connection:
    """A connection to one server. Raises OSError, also if a reply takes too long."""

    def __init__(self, place: Place, port: int, timeout_s: float) -> None:
        self._socket = dial((place.ip, port), timeout_s, place.gateway)
        self._socket.settimeout(timeout_s)
        self._file = self._socket.makefile("rb")
        self._inbox = f"_INBOX.{secrets.token_hex(8)}"
        self._numbers = itertools.count(1)
        options = json.dumps(OPTIONS).encode()
        self._socket.sendall(b"CONNECT %b\r\nSUB %b.* 1\r\n" % (options, self._inbox.encode()))

    def ask(self, subject: str, payload: bytes = b"", *headers: str) -> dict[str, Any]:
        """Return the reply to one request. Raises :class:`NotDeliveredError`."""
        (reply,) = self.ask_all([Request(subject, payload, headers)])
        return reply

    def ask_all(self, requests: Sequence[Request]) -> list[dict[str, Any]]:
        """Send all requests at once, and return their replies in the same order."""
        numbers = [next(self._numbers) for _ in requests]
        pairs = zip(numbers, requests, strict=True)
        self._socket.sendall(b"".join(self._message(*pair) for pair in pairs))
        replies: dict[int, dict[str, Any]] = {}
        while len(replies) < len(requests):
            number, reply = self._next()
            if number in numbers:
                replies[number] = reply
        return [replies[number] for number in numbers]

    def _message(self, number: int, request: Request) -> bytes:
        to = f"{request.subject} {self._inbox}.{number}"
        if not request.headers:
            return b"PUB %b %d\r\n%b\r\n" % (to.encode(), len(request.payload), request.payload)
        lines = "\r\n".join(("NATS/1.0", *request.headers, "", "")).encode()
        total = len(lines) + len(request.payload)
        head = b"HPUB %b %d %d\r\n" % (to.encode(), len(lines), total)
        return head + lines + request.payload + b"\r\n"

    def _next(self) -> tuple[int, dict[str, Any]]:
        """Return number and content of the next reply; answer the server's pings meanwhile."""
        while True:
            line = self._file.readline()
            if not line.endswith(b"\r\n"):
                raise ConnectionError("the connection was closed")
            verb, *words = line.split()
            if verb == b"PING":
                self._socket.sendall(b"PONG\r\n")
            elif verb == b"-ERR":
                raise ConnectionError(line.decode(errors="replace").strip())
            elif verb in (b"MSG", b"HMSG"):
                size = int(words[-1])
                content = self._file.read(size + 2)[:size]
                ahead = int(words[-2]) if verb == b"HMSG" else 0
                _refuse(content[:ahead])
                return int(words[0].rpartition(b".")[2]), json.loads(content[ahead:])

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def _refuse(headers: bytes) -> None:
    """Raise the error that the status line of ``headers`` means, if it has a status."""
    first = headers.partition(b"\r\n")[0].split()
    if len(first) < 2:
        return
    if int(first[1]) == NO_RESPONDERS:
        raise NotDeliveredError("no responders")
    raise ConnectionError(f"status {b' '.join(first[1:]).decode(errors='replace')}")
