"""Starting a service on a host that is ending, or has ended, or runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.on_host import services
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

    def unready(self, service: Any, offset: int) -> str:
        return "" if self.spawned > 0 and self.lives else "port 9 is closed"


def start(
    process: Process, monkeypatch: pytest.MonkeyPatch, folder: Path, opens: bool = False
) -> dict[str, Any]:
    monkeypatch.setattr(services, "service_pid", process.pid)
    monkeypatch.setattr(services, "spawn_kept", process.spawn)
    monkeypatch.setattr(services, "process_state", lambda pid: ("S", 1))
    monkeypatch.setattr(services, "members", lambda service: [])
    monkeypatch.setattr(services, "ending", lambda service: {"status": 3})
    monkeypatch.setattr(services, "KNOWN", folder / "known")
    if opens:
        monkeypatch.setattr(services, "unready", lambda service, offset: "")
    else:
        monkeypatch.setattr(services, "unready", process.unready)
    (folder / "log").write_text("disk full\n")
    service = {
        "name": "n1",
        "log": str(folder / "log"),
        "pid_file": str(folder / "pid"),
        "ports": {},
        "settle_s": 0.0,
    }
    return services.open_service({"service": service, "wait_s": 5.0})


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
    with pytest.raises(RefusedError, match=r"^it ended with status 3 .*its last line: disk full$"):
        start(process, monkeypatch, tmp_path)
    assert process.spawned == 1


def test_one_that_runs_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(looks=100)
    told = start(process, monkeypatch, tmp_path, opens=True)
    assert (told, process.spawned) == ({"pid": 1, "running": True, "started": False}, 0)
