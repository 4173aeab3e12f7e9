"""Locks by ephemeral nodes: a process that creates the node holds the lock while its session lasts.

The operations of a process go to the servers in turn, so the session of a holder is kept for the
process and not for a server. A lock whose session has expired was lost at some moment before: the
release is then ``info``, and an acquisition that succeeded before it began shows two holders.
Source: ZooKeeper recipes, "Locks".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from jute import EPHEMERAL, NODE_EXISTS, Session, SessionExpiredError, ZooKeeperError

from kraftwreck.api import Completion, Op

LOCKS = ("acquire", "release")
Open = Callable[..., Session]
"""Opens a session with one server, or resumes one by its key."""


class Locks:
    """The locks that processes hold, with the session of each."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[str, Session]] = {}

    def invoke(self, op: Op, opened: Open) -> Completion:
        """Acquire or release the lock of the operation's key."""
        if op.f == "acquire":
            return self._acquire(f"/lock-{op.key}", op.process, opened)
        return self._release(op.process, opened)

    def _acquire(self, path: str, process: int, opened: Open) -> Completion:
        if process in self._held:
            return Completion("fail", error=f"the process holds {self._held[process][0]}")
        try:
            session = opened()
        except (OSError, SessionExpiredError) as error:
            return Completion("fail", error=f"no session: {error}")
        try:
            session.create(path, str(process).encode(), EPHEMERAL)
        except (OSError, ZooKeeperError) as error:
            _end(session)
            refused = isinstance(error, ZooKeeperError) and error.code == NODE_EXISTS
            return Completion("fail" if refused else "info", error=str(error))
        self._held[process] = (path, session)
        return Completion("ok")

    def _release(self, process: int, opened: Open) -> Completion:
        held = self._held.pop(process, None)
        if held is None:
            return Completion("fail", error="the process holds no lock")
        path, session = held
        try:
            session.delete(path)
        except OSError:
            session.close()
            return self._released_elsewhere(path, session.key, opened)
        except ZooKeeperError as error:
            session.close()
            return Completion("info", error=str(error))
        _end(session)
        return Completion("ok")

    def _released_elsewhere(self, path: str, key: tuple[int, bytes], opened: Open) -> Completion:
        """Release by another connection of the same session."""
        try:
            session = opened(key)
        except (OSError, SessionExpiredError) as error:
            return Completion("info", error=f"the session was lost: {error}")
        try:
            session.delete(path)
        except (OSError, ZooKeeperError) as error:
            session.close()
            return Completion("info", error=str(error))
        _end(session)
        return Completion("ok")


def _end(session: Session) -> None:
    """End a session that is no longer needed; if that fails it expires."""
    with contextlib.suppress(OSError, ZooKeeperError):
        session.end()
    session.close()
