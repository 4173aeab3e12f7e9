"""The lock service as three processes on loopback, one of which is killed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.oracle.ports import free_ports
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
Body = dict[str, Any]


class Trio:
    """Three processes; requests go to the leader."""

    def __init__(self, core: str, folder: Path, ports: list[int]) -> None:
        self.core = core
        self.folder = folder
        self.quorum = dict(enumerate(ports[:3], 1))
        self.clients = dict(enumerate(ports[3:], 1))
        self.members = ",".join(f"{i}@127.0.0.1:{port}" for i, port in self.quorum.items())
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for i in (1, 2, 3):
            self.start(i)

    def start(self, i: int) -> None:
        arguments = ["--id", str(i), "--members", self.members, "--core", self.core]
        arguments += ["--clients", f"127.0.0.1:{self.clients[i]}"]
        arguments += ["--data", str(self.folder / str(i))]
        command = [sys.executable, "-m", "kraftwreck.examples.lock_service.serve", *arguments]
        self.processes[i] = subprocess.Popen(command, cwd=ROOT)

    def kill(self, i: int) -> None:
        process = self.processes.pop(i)
        process.kill()
        process.wait()

    def call(self, i: int, request: Body, timeout_s: float = 5.0) -> Body:
        with socket.create_connection(("127.0.0.1", self.clients[i]), timeout_s) as connection:
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer: Body = json.loads(connection.makefile().readline())
            return answer

    def ask(self, **request: Any) -> tuple[int, Body]:
        """Send a request to the leader; return the leader and its answer."""

        def taken() -> tuple[int, Body] | None:
            for i in list(self.processes):
                try:
                    answer = self.call(i, request)
                except (OSError, ValueError):
                    continue
                if answer.get("error") not in ("not leader", "unknown"):
                    return i, answer
            return None

        found = wait_until(taken, f"the leader takes {request}")
        assert found is not None
        return found


@pytest.fixture(params=["kraft", "raft"])
def trio(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trio]:
    made = Trio(request.param, tmp_path, free_ports(6))
    yield made
    for i in list(made.processes):
        made.kill(i)


def test_a_lock_outlives_the_leader_that_granted_it_and_ends_with_its_session(trio: Trio) -> None:
    assert trio.ask(do="open", session="ann", timeout_ms=8000)[1]["ok"]
    leader, held = trio.ask(do="acquire", session="ann", lock="l")
    assert held["holder"] == "ann"
    trio.kill(leader)
    new, still = trio.ask(do="holder", lock="l")
    assert new != leader
    assert (still["holder"], still["version"]) == ("ann", held["version"])
    trio.start(leader)
    fired = trio.call(new, {"do": "watch", "lock": "l", "version": held["version"]}, 30.0)
    assert fired["holder"] is None, "nobody kept the session alive"


def test_malformed_requests_are_answered_with_one_line(trio: Trio) -> None:
    trio.ask(do="open", session="ann", timeout_ms=1000)
    assert "object" in trio.call(1, {"what": 1})["error"]
