"""A system under test in memory: a set of topics on three nodes that always agree."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.capabilities import (
    LEADERS,
    PACKETS,
    PROCESSES,
    Capability,
    Environment,
    Grudge,
)
from kraftwreck.harness.client import Answer, Client
from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.layout import Layout
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.harness.workload import ClientSetting

NODES = ("n1", "n2", "n3")


class FakeConnection:
    def __init__(self, system: FakeSystem, node: str) -> None:
        self.system, self.node = system, node

    def send(self, request: Any, timeout_ms: int) -> Answer:
        return self.system.answer(self.node, request.api, request.body)

    def close(self) -> None:
        self.system.closed += 1


class FakeSystem:
    """System, deployed system and environment in one; ``log`` has all requests."""

    name = "fake"
    about = "for tests"
    default_workload = "metadata"
    workloads: Sequence[str] = ("metadata",)
    checkers: Sequence[str] = ()
    offers: Sequence[Capability[Any]] = (PACKETS, PROCESSES, LEADERS)

    def __init__(self) -> None:
        self.log: list[str] = []
        self.topics: set[str] = set()
        self.lost_on: dict[str, int] = {}
        """Node -> how many more times its own reads show nothing."""
        self.answers: Callable[[str, str], Answer | None] = lambda node, api: None
        self.failing: set[str] = set()
        self.closed = 0
        self.beside = 0
        """Nodes that do not elect a leader."""
        self.nodes: Sequence[str] = NODES
        self.env = Environment(NODES, dict.fromkeys((PACKETS, PROCESSES, LEADERS), self))
        self._lock = threading.Lock()

    def layout(self, options: RunOptions) -> Layout:
        return Layout(("node",) * options.nodes + ("other",) * self.beside, options.nodes)

    def _did(self, what: str) -> None:
        self.log.append(what)
        if what.split()[0] in self.failing:
            raise RuntimeError(f"{what} does not work")

    # --- system
    def deploy(self, hosts: Sequence[Host], options: RunOptions, nodes: Path) -> FakeSystem:
        self._did("deploy")
        return self

    def describe(self, nodes: Path) -> Mapping[str, Any]:
        return {"fake": "1"}

    def lacking(self, options: RunOptions) -> Mapping[str, str]:
        return {}

    # --- deployed
    def connect(self, node: str, client_id: str) -> FakeConnection:
        return FakeConnection(self, node)

    def client(self, workload: Any, setting: ClientSetting) -> Client:
        client: Client = workload.client(setting)
        return client

    def clocks(self) -> Mapping[str, int]:
        return dict.fromkeys(NODES, 5)

    def position(self) -> str:
        return "leader n1 epoch 1"

    def ready(self, timeout_s: float) -> str:
        self._did("ready")
        return "leader n1 epoch 1"

    def restore(self) -> list[Trouble]:
        self._did("restore")
        return []

    def stop(self) -> Any:
        self._did("stop")

    def collect(self, run: Path) -> None:
        self._did("collect")
        (run / "nodes" / "n1").mkdir(parents=True)
        (run / "nodes" / "n1" / "stdout.log").write_text("hello\n")

    def close(self) -> None:
        self._did("close")

    # --- environment
    def leader(self) -> str | None:
        return "n1"

    def drop(self, grudge: Grudge) -> dict[str, Any]:
        self._did("drop")
        return {node: {} for node in grudge}

    def heal(self) -> dict[str, Any]:
        self._did("heal")
        return {}

    def kill(self, node: str) -> dict[str, Any]:
        self._did(f"kill {node}")
        return {node: {}}

    def start(self, node: str) -> dict[str, Any]:
        self._did(f"start {node}")
        return {node: {}}

    def pause(self, node: str) -> dict[str, Any]:
        self._did(f"pause {node}")
        return {node: {}}

    def resume(self, node: str) -> dict[str, Any]:
        self._did(f"resume {node}")
        return {node: {}}

    # --- clients
    def answer(self, node: str, api: str, body: dict[str, Any]) -> Answer:
        special = self.answers(node, api)
        if special is not None:
            return special
        with self._lock:
            if api == "CreateTopics":
                name = body["topics"][0]["name"]
                self.topics.add(name)
                return Answer("ok", {"topics": [{"name": name, "error_code": 0}]})
            if api == "DeleteTopics":
                name = body["topics"][0]["name"]
                code = 0 if name in self.topics else 3
                self.topics.discard(name)
                return Answer("ok", {"responses": [{"name": name, "error_code": code}]})
            names = sorted(self.topics) if body["topics"] is None else []
            if names and self.lost_on.get(node, 0) > 0:
                self.lost_on[node] -= 1
                names = []
            found = [{"name": name, "error_code": 0, "partitions": []} for name in names]
            return Answer("ok", {"controller_id": 1, "brokers": [], "topics": found})


class FakeCluster:
    name = "fake"

    def __init__(self, system: FakeSystem) -> None:
        self.system = system

    def up(self) -> list[Host]:
        self.system._did("up")
        return [Host(n, i, "127.0.0.1", "ssh-ed25519 AAAA") for i, n in enumerate(NODES, 1)]

    def heal(self) -> dict[str, dict[str, object]]:
        return {}

    def down(self) -> None:
        self.system._did("down")


@pytest.fixture
def fake() -> FakeSystem:
    return FakeSystem()


@pytest.fixture
def cluster(fake: FakeSystem) -> FakeCluster:
    return FakeCluster(fake)
