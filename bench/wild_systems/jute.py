"""ZooKeeper's client protocol: frames of the record format jute, one request at a time."""

from __future__ import annotations

import struct
from typing import Any

from kraftwreck.api import Place, dial

CREATE, DELETE, GET_DATA, SET_DATA, GET_CHILDREN, SYNC, CLOSE = 1, 2, 4, 5, 8, 9, -11
PERSISTENT, EPHEMERAL = 0, 1
"""Kinds of nodes; an ephemeral one is removed with the session that created it."""
NO_NODE, BAD_VERSION, NODE_EXISTS = -101, -103, -110
_STAT = struct.Struct(">qqqqiiiqiiq")
"""czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, length, children, pzxid."""
_OPEN_ACL = struct.pack(">ii", 1, 31)


class ZooKeeperError(Exception):
    """The server answered with an error ``code``."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


class SessionExpiredError(Exception):
    """The ensemble has ended the session, and removed its ephemeral nodes."""


def _text(value: str | bytes) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return struct.pack(">i", len(encoded)) + encoded


class Session:
    """A session with the server of one host. Raises OSError, and :class:`ZooKeeperError`."""

    def __init__(
        self,
        place: Place,
        port: int,
        timeout_s: float,
        session_ms: int,
        resumed: tuple[int, bytes] = (0, bytes(16)),
    ) -> None:
        """Open a session, or connect to ``resumed``, the key of an open one.

        Raises OSError, and :class:`SessionExpiredError` for a session that has ended.
        """
        self._socket = dial((place.ip, port), timeout_s, place.gateway)
        self._file = self._socket.makefile("rb")
        self._sent = 0
        self.zxid = 0
        """The last transaction that the server had applied when it answered."""
        try:
            number, password = resumed
            hello = struct.pack(">iqiq", 0, 0, session_ms, number) + _text(password) + b"\0"
            self._send(hello)
            answer = self._frame()
            _, left_ms, number, length = struct.unpack_from(">iiqi", answer)
            if left_ms <= 0:
                raise SessionExpiredError("the session has expired")
            self.key = (number, answer[20 : 20 + length])
            """Number and password; another connection needs them to resume the session."""
        except BaseException:
            self.close()
            raise

    def get(self, path: str) -> tuple[bytes, int]:
        """Return the data of a node as this server has it, and their version."""
        answer = self._ask(GET_DATA, _text(path) + b"\0")
        (length,) = struct.unpack_from(">i", answer)
        data = answer[4 : 4 + length]
        return data, int(_STAT.unpack_from(answer, 4 + length)[4])

    def set(self, path: str, data: bytes, version: int) -> None:
        """Change the data of a node if they have this version."""
        self._ask(SET_DATA, _text(path) + _text(data) + struct.pack(">i", version))

    def create(self, path: str, data: bytes, kind: int = PERSISTENT) -> None:
        """Create a node that anybody may change."""
        acl = _OPEN_ACL + _text("world") + _text("anyone")
        self._ask(CREATE, _text(path) + _text(data) + acl + struct.pack(">i", kind))

    def delete(self, path: str) -> None:
        """Remove a node, whatever its version."""
        self._ask(DELETE, _text(path) + struct.pack(">i", -1))

    def end(self) -> None:
        """End the session itself: its ephemeral nodes are removed at once."""
        self._ask(CLOSE, b"")
        self.close()

    def sync(self, path: str) -> None:
        """Wait until the server has applied what its leader had committed."""
        self._ask(SYNC, _text(path))

    def children(self, path: str) -> list[str]:
        """Return the names of the nodes below ``path`` as this server has them."""
        answer = self._ask(GET_CHILDREN, _text(path) + b"\0")
        (count,) = struct.unpack_from(">i", answer)
        place, names = 4, []
        for _ in range(count):
            (length,) = struct.unpack_from(">i", answer, place)
            names.append(answer[place + 4 : place + 4 + length].decode())
            place += 4 + length
        return names

    def close(self) -> None:
        """End the connection; the session ends when it expires."""
        self._file.close()
        self._socket.close()

    def _ask(self, kind: int, request: bytes) -> bytes:
        self._sent += 1
        self._send(struct.pack(">ii", self._sent, kind) + request)
        answer = self._frame()
        number, self.zxid, code = struct.unpack_from(">iqi", answer)
        if number != self._sent:
            raise ConnectionError(f"answer {number} to request {self._sent}")
        if code:
            raise ZooKeeperError(code)
        return answer[16:]

    def _send(self, frame: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def _frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)

    def _read(self, length: int) -> bytes:
        data: Any = self._file.read(length)
        if data is None or len(data) < length:
            raise ConnectionError("the connection was closed")
        return bytes(data)
