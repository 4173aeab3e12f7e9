"""Clients of the store: verbs become requests, and answers what became of an operation."""

from __future__ import annotations

import json
import socket
from typing import Any, Final

from kraftwreck.harness.client import Answer, Call, Completion, Invocation
from kraftwreck.harness.clusters.gateway import dial
from kraftwreck.harness.deploy.declaration import Place
from kraftwreck.harness.workload import ClientSetting
from kraftwreck.histories.operation import Op
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.store.service import NOT_LEADER, UNKNOWN

VERBS: Final = ("read", "write", "cas", "add", "txn", "append", "acquire", "release")
PORT: Final = 9094
"""Where members listen for clients."""
_TRIES: Final = 4
"""Nodes that one operation asks for the leader at most."""
_TIMEOUT_MS: Final = 2000
_LINE_BYTES: Final = 1 << 24


def request_of(op: Op) -> dict[str, Any]:
    """Return the request that carries out ``op``. ValueError for a verb that is not ours."""
    match op.f:
        case "read":
            return {"do": "read", "key": op.key}
        case "write" | "add":
            return {"do": op.f, "key": op.key, "value": op.value}
        case "cas":
            old, new = op.value
            return {"do": "cas", "key": op.key, "old": old, "new": new}
        case "txn":
            return {"do": "txn", "ops": op.value}
        case "acquire":
            return {"do": "cas", "key": f"lock-{op.key}", "old": None, "new": op.process}
        case "release":
            return {"do": "cas", "key": f"lock-{op.key}", "old": op.process, "new": None}
    raise ValueError(f"the store has no {op.f!r}; it has {', '.join(VERBS)}")


def outcome(op: Op, answer: dict[str, Any]) -> Completion:
    """Return what became of ``op`` by the answer of a leader."""
    if answer["ok"]:
        value = answer["value"] if op.f in ("read", "txn") else op.value
        return Completion("ok", [] if value is None and op.key == "set" else value)
    if answer["error"] == UNKNOWN:
        return unknown(op, "the leader lost its leadership")
    return Completion("fail", error=answer["error"])


def unknown(op: Op, why: str | None) -> Completion:
    """Return what became of ``op`` if no answer came: a read had no effect at least."""
    return Completion("fail" if op.f == "read" else "info", error=why)


class StoreClient:
    """The client of one thread (:class:`~harness.client.Client`), which looks for the leader."""

    def __init__(self, setting: ClientSetting) -> None:
        self._setting = setting
        self._node = setting.thread % len(setting.nodes)

    def forget(self, number: int) -> None:
        """Sometimes ask another node first, as a new client does."""
        setting = self._setting
        if draw_below(100, setting.seed, "forget", setting.thread, number) < setting.forgets:
            self._node = draw_below(len(setting.nodes), setting.seed, "node", number)

    def invoke(self, op: Op) -> Invocation:
        """Carry out ``op`` at the leader, as far as one is known."""
        request, nodes = request_of(op), self._setting.nodes
        for _ in range(_TRIES):
            node = nodes[self._node]
            answer: Answer = yield Call(node, request, _TIMEOUT_MS)
            if answer.status == "lost":
                self._node = (self._node + 1) % len(nodes)
                return unknown(op, answer.error)
            if answer.status == "ok" and answer.response.get("error") != NOT_LEADER:
                return outcome(op, answer.response)
            leader = answer.response["leader"] if answer.status == "ok" else -1
            self._node = leader - 1 if leader > 0 else (self._node + 1) % len(nodes)
        return Completion("fail", error="no leader was found")

    def reset(self) -> None:
        """Begin as a new process; it keeps what it knows of the nodes."""


class HostClient:
    """A client of one member on a host (:class:`~harness.deploy.clients.NodeClient`).

    It follows the member's word about who leads.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._sockets: dict[str, socket.socket] = {}
        self._count = 0
        self._connected(place.ip)

    def invoke(self, op: Op) -> Completion:
        """Carry out ``op``; a request that was not sent certainly had no effect."""
        where = self._place.ip
        for _ in range(_TRIES):
            try:
                connection = self._connected(where)
            except OSError as error:
                return Completion("fail", error=f"{where}: {error}")
            try:
                answer = self._ask(connection, request_of(op))
            except (OSError, ValueError) as error:
                self._sockets.pop(where).close()
                return unknown(op, f"{where}: {error}")
            if answer.get("error") != NOT_LEADER:
                return outcome(op, answer)
            if answer.get("host") in (None, where):
                break
            where = answer["host"]
        return Completion("fail", error="no leader was found")

    def close(self) -> None:
        """Close the connections."""
        for connection in self._sockets.values():
            connection.close()
        self._sockets.clear()

    def _connected(self, where: str) -> socket.socket:
        if where not in self._sockets:
            timeout_s = _TIMEOUT_MS / 1000
            self._sockets[where] = dial((where, PORT), timeout_s, self._place.gateway)
        return self._sockets[where]

    def _ask(self, connection: socket.socket, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer. Raises OSError and ValueError."""
        self._count += 1
        connection.sendall(json.dumps({**request, "id": self._count}).encode() + b"\n")
        line = bytearray()
        while not line.endswith(b"\n"):
            piece = connection.recv(1 << 16)
            if not piece:
                raise ConnectionResetError("the connection was closed before the answer")
            line += piece
            if len(line) > _LINE_BYTES:
                raise ValueError("an answer without end")
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") != self._count:
            raise ValueError(f"an answer to request {answer.get('id')}, not {self._count}")
        return answer
