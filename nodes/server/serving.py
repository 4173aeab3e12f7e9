"""A node's process: its sockets, its disk, and the event loop that serves until it stops."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.log import crc
from kraftwreck.nodes.log.files import LogCorruptError
from kraftwreck.nodes.log.format import FormatError, load_meta
from kraftwreck.nodes.log.media import PLAIN, Media
from kraftwreck.nodes.log.partition.checkpoints import CheckpointError
from kraftwreck.nodes.log.quorum_state import QuorumStateError
from kraftwreck.nodes.log.uuids import random_uuid
from kraftwreck.nodes.log.write_loss import WriteLossMedia
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.server import clean_shutdown
from kraftwreck.nodes.server.addresses import ConfigError
from kraftwreck.nodes.server.admission import Admission, backlog
from kraftwreck.nodes.server.calls import Calls
from kraftwreck.nodes.server.clean_shutdown import UNCLEAN
from kraftwreck.nodes.server.connection import Connection, Records, Requests
from kraftwreck.nodes.server.console import say
from kraftwreck.nodes.server.disk_worker import DiskWorker, Elsewhere, at_once
from kraftwreck.nodes.server.exit_status import FATAL, STOPPED
from kraftwreck.nodes.server.gathering import Gathering
from kraftwreck.nodes.server.input_log import InputLog
from kraftwreck.nodes.server.listeners import Listener, bind
from kraftwreck.nodes.server.log_dirs import LogDirs
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.nodes.server.peers import Peers
from kraftwreck.nodes.server.properties import ServerConfig
from kraftwreck.nodes.server.record_requests import ImageTopics, RecordRequests
from kraftwreck.nodes.server.replica_fetches import ReplicaFetches
from kraftwreck.nodes.server.shell import (
    BROKER_SHUTDOWN_LIMIT_S,
    SHUTDOWN_LIMIT_S,
    Shell,
    monotonic_us,
    wall_clock_us,
)
from kraftwreck.nodes.server.storage import Storage, next_incarnation
from kraftwreck.nodes.server.trace_file import TraceFile

IDLE_LIMIT_S: Final = 600.0
SWEEP_S: Final = 60.0
COMPLAINT_S: Final = 10.0
SEND_BUFFER: Final = 102_400
"""Bytes that a connection may have in the kernel, Kafka's ``socket.send.buffer.bytes``. With those
of a tuned buffer, which may be 4 MiB, sendfile takes twice the CPU time."""


def run(config: ServerConfig) -> int:
    """Run the node until it stops; return its exit status.

    Raises ConfigError, and OSError or ValueError for a data directory that cannot be used.
    """
    try:
        meta = load_meta(config.log_dir, config.cluster_id, config.node_id)
    except FormatError as error:
        raise ConfigError(f"{error} (the format command prepares a directory)") from error
    sockets: dict[str, socket.socket] = {}
    try:
        for name, endpoint in config.listeners.items():
            sockets[name] = bind(endpoint)
        return asyncio.run(serve(config, meta.directory_id, sockets))
    except (LogCorruptError, QuorumStateError) as error:
        raise ValueError(str(error)) from error
    finally:
        for bound in sockets.values():
            bound.close()


@dataclass(frozen=True, slots=True)
class Machine:
    """Clocks in microseconds, random ids, a thread for long work on the disk, and the file system,
    which for None is that of the configuration."""

    mono_us: Callable[[], int] = monotonic_us
    wall_us: Callable[[], int] = wall_clock_us
    random_uuid: Callable[[], bytes] = random_uuid
    thread: Callable[[], Executor] = lambda: ThreadPoolExecutor(1, "disk")
    media: Media | None = None


MACHINE: Final = Machine()
"""The machine that this program runs on."""


async def serve(
    config: ServerConfig,
    directory_id: bytes,
    sockets: Mapping[str, socket.socket],
    machine: Machine = MACHINE,
) -> int:
    """Serve on bound ``sockets``, by listener, until the node stops; return its exit status.

    Raises OSError, LogCorruptError and QuorumStateError for a data directory that cannot be used.
    """
    media = machine.media or (WriteLossMedia() if config.write_loss else PLAIN)
    storage = Storage(config.log_dir, config.segment_bytes, config.segment_ms, media)
    try:
        node_config = config.node_config(
            directory_id,
            next_incarnation(config.incarnation_file),
            machine.random_uuid(),
            clean_shutdown.take(config.log_dir),
        )
        status, broker_epoch = await _serve(config, node_config, storage, sockets, media, machine)
        if broker_epoch >= 0:
            # Before the lock is free: a process that starts next must find the mark.
            clean_shutdown.write(config.log_dir, broker_epoch)
        return status
    finally:
        storage.close()


async def _serve(
    config: ServerConfig,
    node_config: NodeConfig,
    storage: Storage,
    sockets: Mapping[str, socket.socket],
    media: Media,
    machine: Machine,
) -> tuple[int, int]:
    """Run the node; return the exit status and the epoch of a broker that stopped cleanly."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_Complaints())
    traces = TraceFile(config.trace_file, config.node_name, node_config.incarnation)
    inputs = InputLog(config.input_log)
    now, wall_us = machine.mono_us(), machine.wall_us()
    started = _start(node_config, storage, traces, inputs, now, wall_us)
    if started is None:
        return FATAL, UNCLEAN
    node, effects = started
    topics = ImageTopics(lambda: node.image.stable)
    worker = DiskWorker(loop, lambda error: shell.work_failed(error), machine.thread())
    elsewhere = worker.run if config.data_plane and not config.write_loss else None
    files = _open_files(config, node_config, topics, media, elsewhere)
    shell = Shell(
        node,
        storage,
        traces,
        inputs,
        BROKER_SHUTDOWN_LIMIT_S if config.broker else SHUTDOWN_LIMIT_S,
        files=files,
        elsewhere=elsewhere,
        mono_us=machine.mono_us,
        wall_us=machine.wall_us,
    )
    if files is not None and elsewhere is not None:
        files.tell = lambda events: shell.submit(*events)
    timeout_ms = node_config.request_timeout_ms
    peers = Peers(config.node_id, config.voters, config.address, timeout_ms, shell.submit)
    calls = Calls(config.node_id, config.address, timeout_ms, shell.submit)
    requests = _requests(config, shell, topics, files)
    full = frozenset() if files is None else files.full
    fetches = ReplicaFetches(
        config.node_id, config.address, topics, timeout_ms, shell.submit, loop.call_soon, full
    )
    shell.fetch, shell.reply_records = fetches.send, requests.reply_records
    shell.send, shell.send_api = peers.send, calls.send
    shell.reply, shell.abandon = requests.reply, requests.abandon
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, shell.shut_down)
    admission = Admission(len(sockets))
    servers = await _listen_all(config, sockets, requests, admission)
    sweeper = loop.create_task(_close_idle(admission))
    shell.begin(effects, now, wall_us)
    for server in servers:
        await server.start_serving()
    _say_ready(config, node_config)
    try:
        status = await shell.exit_status
        # After an fsync that failed another one may succeed without the data.
        whole = worker.close() and _close_files(files, status)
        return status, shell.broker_epoch if whole else UNCLEAN
    finally:
        worker.close()
        sweeper.cancel()
        for server in servers:
            server.close()
        fetches.close()
        await peers.close()
        await calls.close()
        for connection in admission:
            connection.close()


def _start(
    node_config: NodeConfig,
    storage: Storage,
    traces: TraceFile,
    inputs: InputLog,
    now: int,
    wall_us: int,
) -> tuple[Node, Sequence[NodeEffect]] | None:
    """Return the node and the effects of its start, None if what it has on the disk is illegal."""
    recovered = (node_config, storage.recovered)
    try:
        node = Node(*recovered, now, wall_us // 1000)
        effects = node.start(now, wall_us // 1000)
    except FatalError as error:
        inputs.start(*recovered, now, wall_us, None)
        say(f"fatal: {error}")
        traces.fatal(str(error), now, wall_us)
        return None
    inputs.start(*recovered, now, wall_us, effects)
    storage.recovered = Recovered()  # the node has its own
    return node, effects


def _say_ready(config: ServerConfig, node_config: NodeConfig) -> None:
    where = ", ".join(f"{e.host}:{e.port}" for e in config.listeners.values())
    say(
        f"{config.node_name}: node {config.node_id} listens on {where}, "
        f"start {node_config.incarnation}, checksums by {crc.SOURCE}"
    )


def _open_files(
    config: ServerConfig,
    node_config: NodeConfig,
    topics: ImageTopics,
    media: Media,
    elsewhere: Elsewhere | None,
) -> PartitionFiles | None:
    """Return the logs of users; they were closed in order if the broker stopped cleanly."""
    if not config.data_plane:
        return None

    def name_of(topic_id: bytes) -> str:
        name = topics.name_of(topic_id)
        assert name is not None, "the image has the topics of its partitions"
        return name

    orderly = node_config.previous_broker_epoch >= 0
    return PartitionFiles(
        config.log_dir,
        name_of,
        config.log_settings,
        media,
        orderly=orderly,
        elsewhere=elsewhere or at_once,
    )


def _requests(
    config: ServerConfig, shell: Shell, topics: ImageTopics, files: PartitionFiles | None
) -> Requests:
    """Return the requests of clients; without logs none are for records or log directories."""
    if files is None:
        return Requests(shell.submit, config.voters)
    gathering = Gathering(shell.submit, asyncio.get_running_loop().call_soon)
    records = Records(RecordRequests(topics, files), gathering)
    log_dirs = LogDirs(config.node_id, config.log_dir, topics.image, files.sizes)
    return Requests(shell.submit, config.voters, records, log_dirs)


def _close_files(files: PartitionFiles | None, status: int) -> bool:
    """Make the logs of users durable at the end; return whether the next start may trust them."""
    if status != STOPPED:
        return False
    if files is not None:
        try:
            return files.close()
        except (OSError, CheckpointError) as error:
            say(f"cannot close the logs of partitions: {error}")
            return False
    return True


async def _listen_all(
    config: ServerConfig,
    sockets: Mapping[str, socket.socket],
    requests: Requests,
    admission: Admission,
) -> list[asyncio.Server]:
    """Return a server for each listener; they do not serve yet."""
    listeners = [Listener.called(name, records=config.data_plane) for name in sockets]
    return [
        await _listen(listener, sockets[listener.name], requests, admission, len(sockets))
        for listener in listeners
    ]


async def _listen(
    listener: Listener,
    bound: socket.socket,
    requests: Requests,
    admission: Admission,
    listeners: int,
) -> asyncio.Server:
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # of its connections, too
    return await asyncio.get_running_loop().create_server(
        lambda: Connection(requests, admission, listener),
        sock=bound,
        backlog=backlog(listeners),
        start_serving=False,
    )


async def _close_idle(admission: Admission) -> None:
    """Close connections that were unused for ten minutes; their clients may be gone."""
    while True:
        await asyncio.sleep(SWEEP_S)
        limit = asyncio.get_running_loop().time() - IDLE_LIMIT_S
        for connection in admission:
            if connection.idle_since < limit:
                connection.close()


class _Complaints:
    """Logs errors that asyncio could not handle, such as running out of descriptors.

    For those asyncio itself stops accepting for a second, but reports each attempt. The same error
    is logged once in ten seconds.
    """

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        text = str(context.get("message"))
        if "exception" in context:
            text += f": {context['exception']!r}"
        if loop.time() - self._said.get(text, -COMPLAINT_S) >= COMPLAINT_S:
            self._said = {text: loop.time()}
            say(text)
