"""Starting a service on a host that is ending, or has ended, or runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.on_host import agent
from kraftwreck.harness.on_host.process import RefusedError


class Process:
    """A service that is there for so many looks, and again after it was started."""

    def __init__(self, looks: int, lives: bool = True) -> None:
        self.looks, self.lives = looks, lives
        self.spawned = 0

    def pid(self, service: Any) -> int | None:
        if self.spawned:
            return 2 if self.lives else None
        self.looks -= 1
        return 1 if self.looks >= 0 else None

    def spawn(self, service: Any) -> int:
        self.spawned += 1
        return 2

    def port_open(self, ip: str, port: int) -> bool:
        return self.spawned > 0 and self.lives


def start(
    process: Process, monkeypatch: pytest.MonkeyPatch, folder: Path, opens: bool = False
) -> dict[str, Any]:
    monkeypatch.setattr(agent, "service_pid", process.pid)
    monkeypatch.setattr(agent, "spawn", process.spawn)
    monkeypatch.setattr(agent, "process_state", lambda pid: ("S", 1))
    monkeypatch.setattr(agent, "port_open", (lambda ip, port: True) if opens else process.port_open)
    (folder / "log").write_text("disk full\n")
    service = {"log": str(folder / "log")}
    return agent.start({"service": service, "ip": "127.0.0.1", "port": 9, "wait_s": 5.0})


def test_one_that_is_ending_is_started_once_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(looks=3)
    told = start(process, monkeypatch, tmp_path)
    assert (told["pid"], told["started"], process.spawned) == (2, True, 1)


def test_one_that_ends_at_once_says_why_and_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(looks=0, lives=False)
    with pytest.raises(RefusedError, match=r"^the service ended at once: disk full$"):
        start(process, monkeypatch, tmp_path)
    assert process.spawned == 1


def test_one_that_runs_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(looks=100)
    told = start(process, monkeypatch, tmp_path, opens=True)
    assert (told, process.spawned) == ({"pid": 1, "running": True, "started": False}, 0)
