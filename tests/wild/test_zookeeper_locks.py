"""Locks by ephemeral nodes: their holders, and the loss of a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from jute import NO_NODE, NODE_EXISTS, SessionExpiredError, ZooKeeperError
from zookeeper_locks import Locks

from kraftwreck.checkers.modelled import by_model, parse
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.operation import Op
from kraftwreck.histories.verdict import Validity


@dataclass
class Ensemble:
    """Nodes and their sessions, as the leader has them."""

    nodes: dict[str, int] = field(default_factory=dict)
    sessions: set[int] = field(default_factory=set)
    opened: int = 0
    cut: set[int] = field(default_factory=set)
    """Sessions whose present connection is gone."""

    def open(self, *resumed: tuple[int, bytes]) -> FakeSession:
        """Open a session, or resume one."""
        if not resumed:
            self.opened += 1
            self.sessions.add(self.opened)
            return FakeSession(self, self.opened)
        number = resumed[0][0]
        if number not in self.sessions:
            raise SessionExpiredError("the session has expired")
        self.cut.discard(number)
        return FakeSession(self, number)

    def expire(self, number: int) -> None:
        """End a session, with its nodes and its connection."""
        self.sessions.discard(number)
        self.cut.add(number)
        self.nodes = {path: owner for path, owner in self.nodes.items() if owner != number}


class FakeSession:
    """The part of a session that locks use."""

    def __init__(self, ensemble: Ensemble, number: int) -> None:
        self.ensemble, self.number = ensemble, number
        self.key = (number, b"")

    def _reach(self) -> None:
        if self.number in self.ensemble.cut:
            raise ConnectionError("the connection was closed")

    def create(self, path: str, data: bytes, kind: int) -> None:
        self._reach()
        if path in self.ensemble.nodes:
            raise ZooKeeperError(NODE_EXISTS)
        self.ensemble.nodes[path] = self.number

    def delete(self, path: str) -> None:
        self._reach()
        if path not in self.ensemble.nodes:
            raise ZooKeeperError(NO_NODE)
        del self.ensemble.nodes[path]

    def end(self) -> None:
        self._reach()
        self.ensemble.expire(self.number)

    def close(self) -> None:
        """The session stays."""


class History:
    """Operations one after the other, and what became of them."""

    def __init__(self) -> None:
        self.ensemble, self.locks = Ensemble(), Locks()
        self.ops: list[Op] = []

    def do(self, process: int, f: str, key: int = 0) -> str:
        """Carry out one operation; return its outcome."""
        at = len(self.ops)
        begun = Op(index=at, process=process, type="invoke", f=f, key=key, time=at)
        ended = self.locks.invoke(begun, cast(Any, self.ensemble.open))
        kind = ended.type
        self.ops += [
            begun,
            Op(index=at + 1, process=process, type=kind, f=f, key=key, time=at + 1),
        ]
        return kind

    def valid(self) -> Validity:
        """Return the verdict of the workload's own checker."""
        return parse(by_model("lock", owned=True))(
            RunData.from_memory(self.ops, [], [], [], {})
        ).valid


@pytest.fixture
def history() -> History:
    return History()


def test_one_process_at_a_time_holds_the_lock(history: History) -> None:
    assert [history.do(1, "acquire"), history.do(2, "acquire")] == ["ok", "fail"]
    assert [history.do(2, "release"), history.do(1, "release")] == ["fail", "ok"]
    assert [history.do(2, "acquire"), history.do(2, "acquire")] == ["ok", "fail"]
    assert history.valid() is True


def test_a_lost_connection_does_not_lose_the_lock(history: History) -> None:
    history.do(1, "acquire")
    history.ensemble.cut.add(1)
    assert history.do(2, "acquire") == "fail"
    assert history.do(1, "release") == "ok"
    assert history.do(2, "acquire") == "ok"
    assert history.valid() is True


def test_a_lock_that_was_lost_with_its_session_shows_two_holders(history: History) -> None:
    history.do(1, "acquire")
    history.ensemble.expire(1)
    assert history.do(2, "acquire") == "ok"
    assert history.do(1, "release") == "info"
    assert history.valid() is False


def test_an_expired_session_alone_is_no_violation(history: History) -> None:
    history.do(1, "acquire")
    history.ensemble.expire(1)
    assert history.do(1, "release") == "info"
    assert history.do(2, "acquire") == "ok"
    assert history.valid() is True


def test_a_lost_answer_leaves_the_acquisition_open(history: History) -> None:
    history.ensemble.cut.add(1)
    assert history.do(1, "acquire") == "info"
    assert history.do(3, "release") == "fail"
