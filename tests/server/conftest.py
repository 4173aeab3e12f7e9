"""Real node processes on loopback, and a client that speaks the protocol by hand."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.format import Mode, format_directory
from kraftwreck.nodes.protocol.apis import decode_response, encode_request
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.oracle.ports import free_ports
from tests import waiting

ROOT = Path(__file__).resolve().parents[2]
FAST = {
    "controller.quorum.election.timeout.ms": 250,
    "controller.quorum.fetch.timeout.ms": 500,
    "controller.quorum.election.backoff.max.ms": 200,
    "controller.quorum.append.linger.ms": 2,
}
"""Short timers: loopback answers at once."""
UNHURRIED: dict[str, object] = {
    "controller.quorum.fetch.timeout.ms": 60_000,
    "broker.session.timeout.ms": 60_000,
}
"""For clusters whose leaders stay: nobody is missed on a busy machine either."""
CLUSTER_ID = "loopback-cluster"
PROCESSES = {"make_cluster", "shared", "shared_brokers", "brokers", "combined"}
"""Fixtures that start node processes, whose timers run by the wall."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Try a test of node processes once more before it counts as failed, as those of hosts."""
    for item in items:
        starts = PROCESSES & set(getattr(item, "fixturenames", ()))
        if starts and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))


def eventually(check: Callable[[], Any], what: str) -> Any:
    """Call ``check`` until it returns something true; a connection error counts as false."""

    def answered() -> Any:
        with contextlib.suppress(OSError, ProtocolError):
            return check()
        return None

    return waiting.wait_until(answered, what)


class Client:
    """One connection, requests by hand."""

    def __init__(self, port: int, timeout_s: float = waiting.LIMIT_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self.correlation = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def send(self, api: str, version: int, body: dict[str, Any]) -> int:
        self.correlation += 1
        self.frame(encode_request(api, version, self.correlation, "test", body))
        return self.correlation

    def frame(self, data: bytes) -> None:
        self.socket.sendall(len(data).to_bytes(4, "big") + data)

    def receive(self, api: str, version: int) -> tuple[int, dict[str, Any]]:
        size = int.from_bytes(self._exactly(4), "big")
        return decode_response(api, version, self._exactly(size))

    def call(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        sent = self.send(api, version, body)
        received, answer = self.receive(api, version)
        assert received == sent
        return answer

    def closed(self) -> bool:
        """Whether the node hangs up on us, without another word."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("the node closed the connection")
            data += part
        return data


class Cluster:
    """Node processes; node ids count from 1, those of ``brokers`` follow the controllers'.

    ``ports`` are where the controllers of nodes listen, ``broker_ports`` where their brokers
    do; with ``combined`` every node has both. The quorum of a ``dynamic`` cluster begins with
    node 1 and grows as controllers join.
    """

    def __init__(
        self,
        directory: Path,
        size: int,
        brokers: int = 0,
        combined: bool = False,
        dynamic: bool = False,
        extra: dict[str, object] | None = None,
    ) -> None:
        self.directory = directory
        self.ports = dict(enumerate(free_ports(size), 1))
        clients = range(1, size + 1) if combined else range(size + 1, size + brokers + 1)
        self.broker_ports = dict(zip(clients, free_ports(len(clients)), strict=True))
        self.nodes = sorted({*self.ports, *self.broker_ports})
        self.extra = extra or {}
        self.dynamic = dynamic
        self.voters = ",".join(f"{i}@127.0.0.1:{port}" for i, port in self.ports.items())
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for node in self.nodes:
            self.configure(node)
            self.format(node)

    def format(self, node: int) -> None:
        mode, listener = Mode.NO_INITIAL_CONTROLLERS, None
        if node in self.ports and not self.dynamic:
            mode = Mode.STATIC
        elif self.dynamic and node == 1:
            mode, listener = Mode.STANDALONE, Endpoint("127.0.0.1", self.ports[1])
        format_directory(self.path(node, "data"), CLUSTER_ID, node, mode=mode, listener=listener)

    def configure(self, node: int) -> None:
        self.config(node).write_text(self.properties(node))

    def path(self, node: int, name: str) -> Path:
        return self.directory / f"n{node}" / name

    def config(self, node: int) -> Path:
        path = self.path(node, "node.properties")
        path.parent.mkdir(exist_ok=True)
        return path

    def properties(self, node: int) -> str:
        listeners = {
            f"{role} {name}": f"{name}://127.0.0.1:{ports[node]}"
            for role, name, ports in (
                ("controller", "CONTROLLER", self.ports),
                ("broker", "PLAINTEXT", self.broker_ports),
            )
            if node in ports
        }
        values: dict[str, object] = {
            "process.roles": ",".join(key.partition(" ")[0] for key in listeners),
            "node.id": node,
            "cluster.id": CLUSTER_ID,
            **self.quorum(node),
            "listeners": ",".join(listeners.values()),
            "log.dirs": self.path(node, "data"),
            "kraftwreck.node.name": f"n{node}",
            "kraftwreck.seed": 11,
            "kraftwreck.trace.file": self.path(node, "trace.jsonl"),
            "kraftwreck.input.log": self.path(node, "inputs.log"),
            **FAST,
            **self.extra,
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())

    def quorum(self, node: int) -> dict[str, object]:
        if not self.dynamic:
            return {"controller.quorum.voters": self.voters}
        servers = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        values: dict[str, object] = {"controller.quorum.bootstrap.servers": servers}
        if node in self.ports:
            values["controller.quorum.auto.join.enable"] = "true"
        return values

    def command(self, node: int) -> list[str]:
        return [sys.executable, "-m", "kraftwreck.nodes.server", "--config", str(self.config(node))]

    def start(self, *nodes: int) -> None:
        for node in nodes or tuple(self.nodes):
            with self.path(node, "stderr").open("ab") as output:
                self.processes[node] = subprocess.Popen(
                    self.command(node),
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=output,
                )

    def kill(self, node: int) -> None:
        self.processes[node].send_signal(signal.SIGKILL)
        self.processes.pop(node).wait()

    def stop(self, node: int) -> int:
        self.processes[node].send_signal(signal.SIGTERM)
        return self.processes.pop(node).wait(waiting.LIMIT_S)

    def close(self) -> None:
        for node in list(self.processes):
            self.kill(node)

    def client(self, node: int) -> Client:
        return Client(self.ports[node])

    def call(self, node: int, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        with self.client(node) as client:
            return client.call(api, version, body)

    def ask_broker(self, node: int, api: str, version: int, body: dict[str, Any]) -> Any:
        """Send a request to the broker of a node."""
        with Client(self.broker_ports[node]) as client:
            return client.call(api, version, body)

    def alive(self, node: int) -> list[int]:
        """Return the unfenced brokers as the broker of ``node`` knows them."""
        answer = self.ask_broker(node, "Metadata", 12, {"topics": []})
        return [broker["node_id"] for broker in answer["brokers"]]

    def serving(self) -> None:
        """Wait until every broker that runs knows all those that run to be unfenced."""
        brokers = [node for node in self.broker_ports if node in self.processes]

        def unfenced() -> bool:
            for node in brokers:
                status = self.processes[node].poll()
                assert status is None, f"{node}: {status}, {self.path(node, 'stderr').read_text()}"
            return all(self.alive(node) == brokers for node in brokers)

        eventually(unfenced, f"brokers {brokers} are unfenced")

    def described(self, node: int, topic: str) -> dict[str, Any]:
        """Return partition 0 of a topic as the broker of ``node`` knows it."""
        body = {"topics": [{"name": topic}]}
        found = self.ask_broker(node, "Metadata", 12, body)["topics"][0]
        unknown = {"leader_id": -1, "isr_nodes": []}
        partition: dict[str, Any] = found["partitions"][0] if found["partitions"] else unknown
        return partition

    def leading(self, topic: str) -> None:
        """Wait until every broker that runs knows one leader of partition 0, and it serves.

        The metadata name a leader before its log is open. Until then it refuses requests, and a
        produce with acks=0 would be lost.
        """
        brokers = [node for node in self.broker_ports if node in self.processes]
        part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}
        body = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": topic, "partitions": [part]}],
        }

        def serves() -> bool:
            leaders = {self.described(node, topic)["leader_id"] for node in brokers}
            if len(leaders) > 1 or not leaders <= set(brokers):
                return False
            answer = self.ask_broker(leaders.pop(), "ListOffsets", 7, body)
            return bool(answer["topics"][0]["partitions"][0]["error_code"] == 0)

        eventually(serves, f"a leader of {topic} serves")

    def controller(self) -> int:
        """Return the active controller; it is waited for."""

        def find() -> int | None:
            for node in self.processes.keys() & self.ports.keys():
                with contextlib.suppress(OSError):
                    answer = self.call(node, "DescribeCluster", 1, {"endpoint_type": 2})
                    if answer["controller_id"] == node:
                        return node
            return None

        try:
            found: int = eventually(find, "a controller is active")
        except AssertionError as error:
            said = {node: self.stderr(node)[-500:] for node in self.processes}
            raise AssertionError(f"{error}; the nodes said {said}") from None
        return found

    def complete(self) -> None:
        """Wait until every controller that runs answers, not only the active one."""
        nodes = self.processes.keys() & self.ports.keys()

        def answer() -> bool:
            found = [self.call(n, "DescribeCluster", 1, {"endpoint_type": 2}) for n in nodes]
            return len(found) == len(nodes)

        eventually(answer, "all controllers answer")

    def topics(self, node: int) -> list[str]:
        answer = self.call(node, "Metadata", 12, {"topics": None})
        return [topic["name"] for topic in answer["topics"]]

    def create(self, name: str) -> int:
        """Create a topic through the controller; return the error code."""
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
        body = {"topics": [topic], "timeout_ms": waiting.LIMIT_MS}
        answer = self.call(self.controller(), "CreateTopics", 7, body)
        code: int = answer["topics"][0]["error_code"]
        return code

    def traces(self, node: int) -> list[dict[str, Any]]:
        lines = self.path(node, "trace.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def stderr(self, node: int) -> str:
        return self.path(node, "stderr").read_text()


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    clusters: list[Cluster] = []

    def make(size: int, **shape: Any) -> Cluster:
        directory = tmp_path / f"cluster{len(clusters)}"
        directory.mkdir()
        clusters.append(Cluster(directory, size, **shape))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture
def three(make_cluster: Callable[..., Any]) -> Any:
    """A running cluster of three that has a controller."""
    cluster = make_cluster(3)
    cluster.start()
    cluster.controller()
    cluster.complete()
    return cluster


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A running cluster of three for the tests of one file that do it no harm."""
    cluster = Cluster(tmp_path_factory.mktemp("shared"), 3, extra=UNHURRIED)
    cluster.start()
    cluster.controller()
    cluster.complete()
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def shared_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Three controllers and three brokers for the tests of one file that do them no harm."""
    cluster = Cluster(tmp_path_factory.mktemp("brokers"), 3, brokers=3, extra=UNHURRIED)
    cluster.start()
    cluster.controller()
    cluster.complete()
    cluster.serving()
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., Any]:
    return eventually


@pytest.fixture(scope="session")
def cluster_class() -> type[Cluster]:
    return Cluster
