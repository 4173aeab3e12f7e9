"""The machines of a run over sockets: each runs one process of ``nodes.server``, or none."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.format import format_directory
from kraftwreck.nodes.log.uuids import draw_uuid
from kraftwreck.nodes.server import clean_shutdown
from kraftwreck.nodes.server.addresses import BROKER, CONTROLLER
from kraftwreck.nodes.server.properties import ServerConfig, server_config
from kraftwreck.nodes.server.serving import Machine, serve
from kraftwreck.simulation.unsynced import UnsyncedMedia
from kraftwreck.systems.kraft.sockets.network import Network, Port

CLUSTER: Final = "sockets"
IDS: Final = (1, 2, 3)
CONTROLLER_PORT: Final = 9093
BROKER_PORT: Final = 9092
LONGEST_WORK_S: Final = 0.02
WALL_S: Final = 1_700_000_000
"""The wall clock at the loop's time 0."""


def host_of(node_id: int) -> str:
    """Return the host of a node."""
    return f"10.0.0.{node_id}"


class _Thread(Executor):
    """One thread in virtual time: work begins a while after it was submitted, and ends at once."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._queue.append((future, partial(fn, *args, **kwargs)))
        if len(self._queue) == 1:
            self._wait()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for future, _ in self._queue:
            future.cancel()
        self._queue.clear()

    def _wait(self) -> None:
        delay = self._network.dice.random() * LONGEST_WORK_S
        self._network.call_later(delay, self._work)

    def _work(self) -> None:
        if not self._queue:
            return
        future, work = self._queue.popleft()
        if self._queue:
            self._wait()
        if future.set_running_or_notify_cancel():
            try:
                result = work()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)


class Machines:
    """Three machines with combined nodes, whose data is below ``directory``.

    ``starts`` has how often each process was started, ``ended`` the exit status or the exception of
    each that ended by itself.
    """

    def __init__(self, network: Network, directory: Path, seed: int) -> None:
        self._network = network
        self._seed = seed
        self._uuids = 0
        self._tasks: dict[int, asyncio.Task[int]] = {}
        self.starts = dict.fromkeys(IDS, 0)
        self.ended: list[tuple[int, int | BaseException]] = []
        self._configs: dict[int, tuple[ServerConfig, bytes]] = {}
        self._media: dict[int, UnsyncedMedia] = {}
        voters = ",".join(f"{each}@{host_of(each)}:{CONTROLLER_PORT}" for each in IDS)
        for node_id in IDS:
            config = server_config(_properties(node_id, voters, directory / f"n{node_id}", seed))
            meta = format_directory(
                config.log_dir, CLUSTER, node_id, self._uuid(), media=UnsyncedMedia()
            )
            self._configs[node_id] = config, meta.directory_id

    @property
    def running(self) -> set[int]:
        """The nodes whose process runs."""
        return {node_id for node_id, task in self._tasks.items() if not task.done()}

    def start(self, node_id: int) -> None:
        """Start the process of a node unless it runs."""
        if node_id in self.running:
            return
        config, directory_id = self._configs[node_id]
        ports: Any = {
            name: Port((endpoint.host, endpoint.port))
            for name, endpoint in config.listeners.items()
        }
        network = self._network
        self._media[node_id] = UnsyncedMedia()
        machine = Machine(
            mono_us=network.micros,
            wall_us=lambda: WALL_S * 1_000_000 + network.micros(),
            random_uuid=self._uuid,
            thread=lambda: _Thread(network),
            media=self._media[node_id],
        )
        task = network.create_task(serve(config, directory_id, ports, machine))
        self._tasks[node_id] = task
        self.starts[node_id] += 1
        task.add_done_callback(lambda done: self._end(node_id, done))

    def break_disk(self, node_id: int) -> None:
        """Let the process of a node fail to make its records durable from now on."""
        self._media[node_id].broken = True

    def has_mark(self, node_id: int) -> bool:
        """Return whether the process of a node has left the mark of a clean stop."""
        return (self._configs[node_id][0].log_dir / clean_shutdown.NAME).exists()

    def terminate(self, node_id: int) -> None:
        """Send SIGTERM to the process of a node, if it runs and listens to signals."""
        stop = self._network.signals.get(self._tasks[node_id])
        if node_id in self.running and stop is not None:
            stop()

    async def kill(self, node_id: int) -> None:
        """End the process of a node: nothing leaves it any longer, and its files stay."""
        if node_id not in self.running:
            return
        host, task = host_of(node_id), self._tasks[node_id]
        self._network.cut(lambda wire: host in (wire.source, wire.target[0]))
        task.cancel()
        await asyncio.wait([task])

    async def stopped(self, limit_s: float) -> set[int]:
        """Wait until all processes have ended; return those that run after ``limit_s``."""
        tasks = [self._tasks[node_id] for node_id in self.running]
        if tasks:
            await asyncio.wait(tasks, timeout=limit_s)
        return self.running

    def _end(self, node_id: int, task: asyncio.Task[int]) -> None:
        self._network.signals.pop(cast("asyncio.Task[Any]", task), None)
        if not task.cancelled():
            self.ended.append((node_id, task.exception() or task.result()))

    def _uuid(self) -> bytes:
        self._uuids += 1
        return draw_uuid(self._seed, "sockets", self._uuids)


def broker_of(node_id: int) -> Endpoint:
    """Return where clients reach a node."""
    return Endpoint(host_of(node_id), BROKER_PORT)


def _properties(node_id: int, voters: str, directory: Path, seed: int) -> dict[str, str]:
    host = host_of(node_id)
    return {
        "process.roles": "controller,broker",
        "node.id": str(node_id),
        "cluster.id": CLUSTER,
        "controller.quorum.voters": voters,
        "listeners": (f"{CONTROLLER}://{host}:{CONTROLLER_PORT},{BROKER}://{host}:{BROKER_PORT}"),
        "log.dirs": str(directory),
        "log.segment.bytes": "1000000",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": "4000",
        "metadata.log.max.record.bytes.between.snapshots": "20000",
        "kraftwreck.trace.file": str(directory / "trace.jsonl"),
        "kraftwreck.seed": str(seed),
    }
