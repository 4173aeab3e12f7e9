"""The replicated state: sessions, and the holder of each lock.

Deterministic: no clock and no randomness. The leader decides that a session has expired and
proposes ``expire``; every member then applies it at the same offset.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

Command = dict[str, Any]


def encode(command: Command) -> bytes:
    """Return the record of a command."""
    return json.dumps(command, separators=(",", ":"), sort_keys=True).encode()


class Locks:
    """Sessions with their timeouts (ms), and the holder and the queue of each lock.

    ``version`` of a lock is the offset of the record that changed its holder last: a fencing token
    that only grows. ``on_change`` is called with each lock whose holder has changed.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, int] = {}
        self.holders: dict[str, tuple[str, int]] = {}
        self.queues: dict[str, list[str]] = {}
        self.on_change: Callable[[str], None] = lambda lock: None

    # --- required by nodes.consensus.embedded.StateMachine -----------------------------------

    def apply(self, offset: int, record: bytes) -> dict[str, Any]:
        """Apply a committed command, and return the lock's holder for the answer.

        A command that is no longer valid does nothing.
        """
        command = json.loads(record)
        session = command["session"]
        match command["do"]:
            case "open":
                self.sessions[session] = command["timeout_ms"]
            case "close" | "expire":
                self._end(session, offset)
            case "acquire" if session in self.sessions:
                self._acquire(command["lock"], session, offset)
            case "release":
                self._release(command["lock"], session, offset)
        return self.holder(command["lock"]) if "lock" in command else {}

    def snapshot(self) -> Iterable[bytes]:
        """Return the whole state as one record."""
        state = {"sessions": self.sessions, "holders": self.holders, "queues": self.queues}
        yield json.dumps(state, sort_keys=True).encode()

    def restore(self, records: Iterable[bytes]) -> None:
        """Restore the state of a snapshot."""
        for record in records:
            state = json.loads(record)
            self.sessions = state["sessions"]
            self.holders = {lock: (held[0], held[1]) for lock, held in state["holders"].items()}
            self.queues = state["queues"]
        for lock in self.holders:
            self.on_change(lock)

    # --- queries ----------------------------------------------------------------------------

    def holder(self, lock: str) -> dict[str, Any]:
        """Return the session that holds ``lock`` (None: it is free), and the lock's version."""
        holder, version = self.holders.get(lock, (None, -1))
        return {"holder": holder, "version": version}

    # --- rules ------------------------------------------------------------------------------

    def _acquire(self, lock: str, session: str, offset: int) -> None:
        holder = self.holders.get(lock)
        queue = self.queues.setdefault(lock, [])
        if holder is None:
            self._grant(lock, session, offset)
        elif holder[0] != session and session not in queue:
            queue.append(session)

    def _release(self, lock: str, session: str, offset: int) -> None:
        queue = self.queues.get(lock, [])
        if session in queue:
            queue.remove(session)
        holder = self.holders.get(lock)
        if holder is None or holder[0] != session:
            return
        if queue:
            self._grant(lock, queue.pop(0), offset)
        else:
            del self.holders[lock]
            self.on_change(lock)

    def _grant(self, lock: str, session: str, offset: int) -> None:
        self.holders[lock] = (session, offset)
        self.on_change(lock)

    def _end(self, session: str, offset: int) -> None:
        if self.sessions.pop(session, None) is None:
            return
        for lock in sorted({*self.holders, *self.queues}):
            self._release(lock, session, offset)
