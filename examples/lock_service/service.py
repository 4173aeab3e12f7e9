"""One member of the lock service: commands in, answers out, sessions that expire, watches.

Pure like the consensus core below it: a shell only calls :meth:`LockService.step`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kraftwreck.examples.lock_service.locks import Command, Locks, encode
from kraftwreck.nodes.consensus.effects import Effect, Event
from kraftwreck.nodes.consensus.embedded import Core, Embedded, NotLeaderError, Outcome

MS: Final = 1000
Answer = Callable[[dict[str, Any]], None]
_UNKNOWN: Final = {"ok": False, "error": "unknown"}


@dataclass(slots=True)
class Watch:
    """A client that waits until the holder of ``lock`` is no longer the one of ``version``."""

    lock: str
    version: int
    answer: Answer


class LockService:
    """A member; ``ask`` takes a client's request and answers it once, in this step or later.

    Requests: ``open`` (session, timeout_ms), ``keep`` (session), ``close`` (session), ``acquire``
    and ``release`` (session, lock), ``holder`` (lock; a linearizable read), ``watch`` (lock,
    version). Answers have ``ok``. If it is false, ``error`` gives the reason and ``leader`` the
    member to use instead; the error ``"unknown"`` means that the command may or may not happen.
    """

    def __init__(self, core: Core, *, snapshot_bytes: int = 1 << 20) -> None:
        self.locks = Locks()
        self.locks.on_change = self._changed
        self.consensus = Embedded(core, self.locks, snapshot_bytes=snapshot_bytes)
        self._watches: list[Watch] = []
        self._due: dict[str, int] = {}
        self._expiring: set[str] = set()
        self._led = False

    @property
    def deadline(self) -> int:
        """The time at which the next Tick is due, monotonic microseconds."""
        return min([self.consensus.deadline, *self._due.values()])

    def start(self, now: int, wall_ms: int) -> list[Effect]:
        """Start from the recovered state."""
        return self.consensus.start(now, wall_ms)

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]:
        """Handle an event of consensus or a Tick."""
        effects = self.consensus.step(event, now, wall_ms)
        self._watch_sessions(now)
        return effects + self.consensus.settle()

    def ask(self, request: Command, answer: Answer, now: int) -> list[Effect]:
        """Handle a client's request."""
        try:
            self._handle(request, answer, now)
        except NotLeaderError:
            answer({"ok": False, "error": "not leader", "leader": self.consensus.leader_id})
        except KeyError as missing:
            answer({"ok": False, "error": f"{missing} is missing"})
        return self.consensus.settle()

    # --- requests ---------------------------------------------------------------------------

    def _handle(self, request: Command, answer: Answer, now: int) -> None:
        kind, session = request["do"], request.get("session")
        if kind == "watch":
            watch = Watch(request["lock"], request["version"], answer)
            self._watches.append(watch)
            self._changed(watch.lock)
        elif kind == "holder":
            self.consensus.barrier(lambda fresh: answer(self._holder(request["lock"], fresh)))
        elif kind == "keep":
            if not self.consensus.leads:
                raise NotLeaderError
            if session in self._due and session not in self._expiring:
                self._due[session] = now + self.locks.sessions[session] * MS
                answer({"ok": True})
            else:
                answer({"ok": False, "error": "no such session"})
        elif kind in ("open", "close", "acquire", "release"):
            if not self.consensus.leads:
                raise NotLeaderError  # Only the leader knows the sessions in use.
            if kind in ("acquire", "release") and session not in self.locks.sessions:
                answer({"ok": False, "error": "no such session"})
                return
            self.consensus.propose([encode(request)], lambda outcome: answer(_answer(outcome)))
        else:
            answer({"ok": False, "error": f"unknown request {kind!r}"})

    def _holder(self, lock: str, fresh: Outcome) -> dict[str, Any]:
        return {"ok": True, **self.locks.holder(lock)} if fresh.certain else dict(_UNKNOWN)

    # --- sessions and watches ---------------------------------------------------------------

    def _watch_sessions(self, now: int) -> None:
        """Propose the expiry of sessions by the leader's clock; the log decides when it applies."""
        if not self.consensus.leads or self.consensus.core.shutting_down:
            self._led = False
            self._due.clear()
            self._expiring.clear()
            return
        sessions = self.locks.sessions
        if not self._led:
            # A new leader has no contact times yet: every session gets its whole timeout again.
            self._led = True
            self._due = {session: now + ms * MS for session, ms in sessions.items()}
        self._due = {s: at for s, at in self._due.items() if s in sessions}
        for session, timeout_ms in sessions.items():
            due = self._due.setdefault(session, now + timeout_ms * MS)
            if due <= now and session not in self._expiring:
                self._expiring.add(session)
                expire = {"do": "expire", "session": session}
                self.consensus.propose([encode(expire)], self._expired(session))
        for session in self._expiring & self._due.keys():
            self._due[session] = now + 1000 * MS

    def _expired(self, session: str) -> Callable[[Outcome], None]:
        return lambda outcome: self._expiring.discard(session)

    def _changed(self, lock: str) -> None:
        held = self.locks.holder(lock)
        for watch in [w for w in self._watches if w.lock == lock and w.version != held["version"]]:
            self._watches.remove(watch)
            watch.answer({"ok": True, **held})


def _answer(outcome: Outcome) -> dict[str, Any]:
    """Return the answer to a command: the result of applying it."""
    return {"ok": True, **outcome.results[0]} if outcome.certain else dict(_UNKNOWN)
