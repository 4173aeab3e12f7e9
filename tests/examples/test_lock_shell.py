"""The shell of the lock service: what is answered is on the disk."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from kraftwreck.examples.lock_service.serve import Process
from kraftwreck.nodes.consensus.effects import AppendLog, Effect, FlushLog
from kraftwreck.nodes.consensus.endpoint import Endpoint
from tests.waiting import wait_in_loop


class Writer:
    """A client's connection that notes what it gets in ``order``."""

    def __init__(self, order: list[str]) -> None:
        self._order = order

    def is_closing(self) -> bool:
        return False

    def write(self, line: bytes) -> None:
        self._order.append("answer" if json.loads(line)["ok"] else line.decode())


@pytest.mark.parametrize("kind", ["kraft", "raft"])
def test_single_member_answers_after_its_disk_has_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    order: list[str] = []

    async def scenario() -> None:
        process = Process(1, {1: Endpoint("127.0.0.1", 1)}, tmp_path, kind)
        carry_out = process._storage.carry_out

        def noted(effects: Any) -> None:
            carry_out(effects)
            durable: list[Effect] = [e for e in effects if isinstance(e, AppendLog | FlushLog)]
            order.extend("disk" for _ in durable[:1])

        process.begin()
        await wait_in_loop(lambda: process.service.consensus.leads)
        monkeypatch.setattr(process._storage, "carry_out", noted)
        order.clear()
        request = {"do": "open", "session": "ann", "timeout_ms": 60_000}
        process.ask(request, cast("asyncio.StreamWriter", Writer(order)))
        await wait_in_loop(lambda: "answer" in order)

    asyncio.run(scenario())
    assert order == ["disk", "answer"]
