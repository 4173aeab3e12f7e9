"""The embedded quorum at work: a lock service of three members, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.examples.lock_service.locks import Locks, encode
from kraftwreck.examples.lock_service.service import LockService
from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    CleanLog,
    Effect,
    FinishSnapshot,
    InstallSnapshot,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    Tick,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.embedded import Core
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.core import KraftCore
from kraftwreck.nodes.consensus.raft.config import RaftConfig
from kraftwreck.nodes.consensus.raft.core import RaftCore
from kraftwreck.nodes.consensus.recovered import Recovered, SnapshotFile
from kraftwreck.nodes.log.batch import parse_header

MS = 1000
Body = dict[str, Any]


class Ensemble:
    """Three members on one imaginary network; a dead one keeps its disk."""

    def __init__(self, kind: str, snapshot_bytes: int = 1 << 20) -> None:
        self.kind = kind
        self.now = 0
        self.members: dict[int, LockService] = {}
        self.disks: dict[int, Recovered] = {i: Recovered(batches=[]) for i in (1, 2, 3)}
        self.files: dict[int, dict[tuple[int, int], bytearray]] = {i: {} for i in (1, 2, 3)}
        self.lives = dict.fromkeys((1, 2, 3), 0)
        self.snapshot_bytes = snapshot_bytes
        self._queue: list[Callable[[], None]] = []
        self._asked: dict[int, tuple[int, int, int]] = {}
        for i in (1, 2, 3):
            self.start(i)

    def start(self, i: int) -> None:
        self.lives[i] += 1
        voters = {v: Endpoint(f"m{v}", 1) for v in (1, 2, 3)}
        core: Core
        if self.kind == "raft":
            raft = RaftConfig(i, "locks", voters, incarnation=self.lives[i])
            core = RaftCore(raft, self.disks[i], self.now, 0)
        else:
            config = QuorumConfig(i, "locks", bytes([i] * 16), voters, incarnation=self.lives[i])
            core = KraftCore(config, self.disks[i], self.now, 0)
        service = LockService(core, snapshot_bytes=self.snapshot_bytes)
        self.members[i] = service
        self.carry_out(i, service.start(self.now, 0))

    def kill(self, i: int) -> None:
        del self.members[i]

    def carry_out(self, i: int, effects: list[Effect]) -> None:
        disk = self.disks[i]
        for effect in effects:
            if isinstance(effect, AppendLog):
                disk.batches = [*disk.batches, effect.batch]
            elif isinstance(effect, WriteQuorumState):
                disk.quorum_state = effect
            elif isinstance(effect, TruncateLog):
                disk.batches = [
                    b for b in disk.batches if parse_header(b).last_offset < effect.end_offset
                ]
            elif isinstance(effect, AppendSnapshot):
                part = self.files[i].setdefault((effect.end_offset, effect.epoch), bytearray())
                part += effect.data
            elif isinstance(effect, FinishSnapshot):
                key = (effect.end_offset, effect.epoch)
                disk.latest = bytes(self.files[i][key])
                disk.snapshots = [*disk.snapshots, SnapshotFile(*key, len(disk.latest))]
            elif isinstance(effect, InstallSnapshot):
                disk.batches, disk.start_offset = [], effect.end_offset
            elif isinstance(effect, CleanLog):
                disk.batches = [
                    b for b in disk.batches if parse_header(b).last_offset >= effect.start_offset
                ]
                disk.start_offset = effect.start_offset
        for effect in effects:
            if isinstance(effect, Send):
                self._send(i, effect)
            elif isinstance(effect, Reply):
                source, life, correlation = self._asked.pop(effect.token)
                answer = ResponseReceived(i, correlation, effect.message)
                self._queue.append(lambda s=source, n=life, a=answer: self._deliver(s, n, a))  # type: ignore[misc]

    def _send(self, i: int, effect: Send) -> None:
        life, target = self.lives[i], effect.destination
        token = len(self._asked) + self.now * 1000 + len(self._queue)
        while token in self._asked:
            token += 1
        self._asked[token] = (i, life, effect.correlation)

        def deliver() -> None:
            if target in self.members:
                self._step(target, RequestReceived(token, effect.message))
            else:
                self._deliver(i, life, ResponseReceived(target, effect.correlation, None))

        self._queue.append(deliver)

    def _deliver(self, i: int, life: int, event: ResponseReceived) -> None:
        if i in self.members and self.lives[i] == life:
            self._step(i, event)

    def _step(self, i: int, event: Any) -> None:
        self.carry_out(i, self.members[i].step(event, self.now, self.now // MS))

    def run(self, milliseconds: int, until: Callable[[], bool] = lambda: False) -> bool:
        for _ in range(milliseconds):
            if until():
                return True
            self.now += MS
            for i, member in list(self.members.items()):
                if member.deadline <= self.now:
                    self._step(i, Tick())
            while self._queue:
                self._queue.pop(0)()
        return until()

    @property
    def leader(self) -> int:
        assert self.run(10_000, lambda: any(m.consensus.leads for m in self.members.values()))
        return next(i for i, m in self.members.items() if m.consensus.leads)

    def later(self, i: int, **request: Any) -> list[Body]:
        """Ask member ``i``; the list receives the answer."""
        answers: list[Body] = []
        self.carry_out(i, self.members[i].ask(request, answers.append, self.now))
        return answers

    def ask(self, **request: Any) -> Body:
        answers = self.later(self.leader, **request)
        assert self.run(3000, lambda: bool(answers)), f"no answer to {request}"
        return answers[0]

    def alive(self, milliseconds: int, *sessions: str) -> None:
        """Let time pass while the clients of ``sessions`` keep them alive."""
        for _ in range(milliseconds // 100):
            self.run(100)
            for session in sessions:
                self.ask(do="keep", session=session)


@pytest.fixture(params=["kraft", "raft"])
def kind(request: pytest.FixtureRequest) -> str:
    """The consensus core."""
    return str(request.param)


@pytest.fixture
def ensemble(kind: str) -> Ensemble:
    made = Ensemble(kind)
    for session in ("ann", "bob"):
        assert made.ask(do="open", session=session, timeout_ms=1500)["ok"]
    return made


def test_one_holder_at_a_time_and_the_next_in_the_queue_follows(ensemble: Ensemble) -> None:
    first = ensemble.ask(do="acquire", session="ann", lock="l")
    assert first["holder"] == "ann"
    assert ensemble.ask(do="acquire", session="bob", lock="l")["holder"] == "ann"
    after = ensemble.ask(do="release", session="ann", lock="l")
    assert after["holder"] == "bob"
    assert after["version"] > first["version"], "a fencing token that only grows"


def test_a_session_that_is_not_kept_alive_loses_its_locks(ensemble: Ensemble) -> None:
    """The stand-in for ZooKeeper's ephemeral nodes."""
    ensemble.ask(do="acquire", session="ann", lock="l")
    ensemble.ask(do="acquire", session="bob", lock="l")
    ensemble.alive(3000, "bob")
    assert ensemble.ask(do="holder", lock="l")["holder"] == "bob"
    assert ensemble.ask(do="acquire", session="ann", lock="l")["error"] == "no such session"


def test_a_watch_fires_when_the_holder_changes_on_any_member(ensemble: Ensemble) -> None:
    held = ensemble.ask(do="acquire", session="ann", lock="l")
    follower = next(i for i in ensemble.members if i != ensemble.leader)
    ensemble.run(600)
    fired = ensemble.later(follower, do="watch", lock="l", version=held["version"])
    ensemble.run(100)
    assert fired == []
    ensemble.ask(do="release", session="ann", lock="l")
    assert ensemble.run(2000, lambda: bool(fired))
    assert fired[0]["holder"] is None


def test_locks_and_sessions_survive_the_leader(ensemble: Ensemble) -> None:
    ensemble.ask(do="acquire", session="ann", lock="l")
    old = ensemble.leader
    ensemble.kill(old)
    assert ensemble.run(10_000, lambda: any(m.consensus.leads for m in ensemble.members.values()))
    assert ensemble.ask(do="holder", lock="l")["holder"] == "ann", "the session has its whole time"
    ensemble.start(old)
    ensemble.alive(3000, "ann")
    assert ensemble.ask(do="holder", lock="l")["holder"] == "ann"
    assert ensemble.members[old].locks.holders["l"][0] == "ann"


def test_a_follower_names_the_leader(ensemble: Ensemble) -> None:
    follower = next(i for i in ensemble.members if i != ensemble.leader)
    answers = ensemble.later(follower, do="holder", lock="l")
    assert answers == [{"ok": False, "error": "not leader", "leader": ensemble.leader}]


def test_a_follower_does_not_say_which_sessions_there_are(ensemble: Ensemble) -> None:
    follower = next(i for i in ensemble.members if i != ensemble.leader)
    answers = ensemble.later(follower, do="acquire", session="opened a moment ago", lock="l")
    assert answers == [{"ok": False, "error": "not leader", "leader": ensemble.leader}]


def test_a_lost_leadership_leaves_the_outcome_unknown(ensemble: Ensemble) -> None:
    old = ensemble.leader
    for other in [i for i in ensemble.members if i != old]:
        ensemble.kill(other)
    answers = ensemble.later(old, do="acquire", session="ann", lock="l")
    assert ensemble.run(6000, lambda: bool(answers))
    assert answers == [{"ok": False, "error": "unknown"}]


def test_members_start_from_snapshots(kind: str) -> None:
    ensemble = Ensemble(kind, snapshot_bytes=300)
    ensemble.ask(do="open", session="ann", timeout_ms=60_000)
    for k in range(10):
        ensemble.ask(do="acquire", session="ann", lock=f"l{k}")
    ensemble.run(600)
    assert all(disk.snapshots for disk in ensemble.disks.values())
    for i in (1, 2, 3):
        ensemble.kill(i)
        ensemble.start(i)
    assert all(len(m.locks.holders) > 5 for m in ensemble.members.values()), "before any message"
    assert ensemble.ask(do="holder", lock="l9")["holder"] == "ann"


def test_a_snapshot_holds_the_whole_state() -> None:
    locks, other = Locks(), Locks()
    commands: tuple[Body, ...] = (
        {"do": "open", "session": "a", "timeout_ms": 1},
        {"do": "open", "session": "b", "timeout_ms": 2},
        {"do": "acquire", "session": "a", "lock": "l"},
        {"do": "acquire", "session": "b", "lock": "l"},
        {"do": "expire", "session": "nobody"},
    )
    for offset, command in enumerate(commands):
        locks.apply(offset, encode(command))
    other.restore(locks.snapshot())
    state = (other.sessions, other.holders, other.queues)
    assert state == (locks.sessions, locks.holders, locks.queues)
    assert state == ({"a": 1, "b": 2}, {"l": ("a", 2)}, {"l": ["b"]})
