"""F17: a controller fetches from where its log is flushed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import AppendLog, FlushLog, Send, TruncateLog
from kraftwreck.nodes.consensus.kraft.messages import ApiVersionsRequest, FetchRequest
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.disk import Disk
from tests.simulation.watched import Watched, batch

pytestmark = pytest.mark.interpreted


class Fetcher:
    """n2 fetches; it is a controller unless said otherwise."""

    def __init__(self, *, controller: bool = True) -> None:
        self.run = Watched()
        node: Any = Node.__new__(Node)
        node.broker = None
        node.replica = SimpleNamespace(config=SimpleNamespace(can_become_voter=controller))
        self.run.host(2).node = node
        self.run.host(2).disk = Disk(bytes([2]) * 16)  # Its log has one segment.

    def send(self, message: Any) -> list[str]:
        """Send ``message`` to n1; return the rules that were broken until then."""
        for told in self.run.world.wires.on_send:
            told(self.run.host(2), Send(1, 1, message))
        return self.run.found

    def fetch(self, offset: int) -> list[str]:
        return self.send(FetchRequest(None, 2, bytes([2]) * 16, 0, 1, 1, offset, 1, -1))


@pytest.mark.parametrize(
    ("flushed", "offset", "early"), [(3, 3, False), (3, 4, True), (3, 2, False), (0, 1, True)]
)
def test_a_controller_flushes_before_it_fetches(flushed: int, offset: int, early: bool) -> None:
    fetcher = Fetcher()
    appends = [AppendLog(batch(base)) for base in range(6)]
    fetcher.run.disk(2, *appends[:flushed], FlushLog(), *appends[flushed:])
    assert fetcher.fetch(offset) == ["F17"] * early


def test_a_cut_is_durable() -> None:
    fetcher = Fetcher()
    fetcher.run.disk(2, *(AppendLog(batch(base)) for base in range(6)), TruncateLog(4))
    assert fetcher.fetch(4) == []


def test_a_broker_need_not_flush() -> None:
    fetcher = Fetcher(controller=False)
    fetcher.run.disk(2, AppendLog(batch(0)))
    assert fetcher.fetch(1) == []


def test_only_fetches_are_judged() -> None:
    fetcher = Fetcher()
    fetcher.run.disk(2, AppendLog(batch(0)))
    assert fetcher.send(ApiVersionsRequest()) == []
    fetcher.run.host(2).node = None
    assert fetcher.fetch(1) == []
