"""One process, one node: ``python3 -m nodes.server [format] --config FILE``.

Exit status: 0 stopped as asked, 1 the disk failed, 3 an illegal state was reached,
254 the configuration cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from nodes.consensus.effects import FatalError
from nodes.consensus.recovered import Recovered
from nodes.log.files import LogCorruptError
from nodes.log.format import FormatError, format_directory, load_meta
from nodes.log.quorum_state import QuorumStateError
from nodes.node import Node
from nodes.server.connection import Connection, Requests
from nodes.server.console import say
from nodes.server.input_log import InputLog
from nodes.server.peers import Peers
from nodes.server.properties import ConfigError, ServerConfig, load_config
from nodes.server.shell import DISK_FAILED, FATAL, Shell, monotonic_us
from nodes.server.storage import Storage, next_incarnation
from nodes.server.trace_file import TraceFile

BAD_CONFIG: Final = 254
IDLE_LIMIT_S: Final = 600.0
SWEEP_S: Final = 60.0
BACKLOG: Final = 128
COMPLAINT_S: Final = 10.0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        say(f"{self.prog}: {message}")
        raise SystemExit(BAD_CONFIG)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a node or format its data directory; return the exit status."""
    parser = _Parser(prog="kraftwreck-node", description="One KRaft controller.")
    parser.add_argument(
        "command", nargs="?", choices=("run", "format"), default="run", help="default: run"
    )
    parser.add_argument("--config", type=Path, required=True, help="a .properties file")
    arguments = parser.parse_args(argv)
    # What a node writes is nobody else's to read.
    os.umask(0o077)
    try:
        config = load_config(arguments.config)
        if arguments.command == "format":
            meta = format_directory(config.log_dir, config.cluster_id, config.node_id)
            say(f"{config.log_dir} belongs to node {meta.node_id} of cluster {meta.cluster_id}")
            return 0
        return _run(config)
    except (ConfigError, FormatError) as error:
        say(f"kraftwreck-node: {error}")
        return BAD_CONFIG
    except (OSError, LogCorruptError, QuorumStateError, ValueError) as error:
        say(f"kraftwreck-node: cannot use {config.log_dir}: {error}")
        return DISK_FAILED


def _run(config: ServerConfig) -> int:
    try:
        meta = load_meta(config.log_dir, config.cluster_id, config.node_id)
    except FormatError as error:
        raise ConfigError(f"{error} (the format command prepares a directory)") from error
    listener = _bind(config)
    storage = Storage(config.log_dir)
    try:
        incarnation = next_incarnation(config.incarnation_file)
        return asyncio.run(_serve(config, meta.directory_id, incarnation, storage, listener))
    finally:
        storage.close()
        listener.close()


def _bind(config: ServerConfig) -> socket.socket:
    """Bind the one address this node listens on."""
    host, port = config.listener.host, config.listener.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.setblocking(False)
    return listener


async def _serve(
    config: ServerConfig,
    directory_id: bytes,
    incarnation: int,
    storage: Storage,
    listener: socket.socket,
) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_Complaints())
    node_config = config.node_config(directory_id, incarnation)
    traces = TraceFile(config.trace_file, config.node_name, incarnation)
    inputs = InputLog(config.input_log)
    now, wall_us = monotonic_us(), time.time_ns() // 1000
    recovered = (node_config, storage.recovered)
    try:
        node = Node(*recovered, now, wall_us // 1000)
        effects = node.start(now, wall_us // 1000)
    except FatalError as error:
        inputs.start(*recovered, now, wall_us // 1000, None)
        say(f"fatal: {error}")
        traces.fatal(str(error), now, wall_us)
        return FATAL
    inputs.start(*recovered, now, wall_us // 1000, effects)
    storage.recovered = Recovered()  # the node has its own
    shell = Shell(node, storage, traces, inputs)
    peers = Peers(
        config.node_id,
        config.voters,
        config.listener,
        node_config.request_timeout_ms,
        shell.submit,
    )
    requests = Requests(shell.submit, config.voters)
    shell.send, shell.reply = peers.send, requests.reply
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, shell.shut_down)
    connections: set[Connection] = set()
    server = await loop.create_server(
        lambda: Connection(requests, connections),
        sock=listener,
        backlog=BACKLOG,
        start_serving=False,
    )
    sweeper = loop.create_task(_close_idle(connections))
    shell.begin(effects, now, wall_us)
    await server.start_serving()
    say(
        f"{config.node_name}: node {config.node_id} listens on "
        f"{config.listener.host}:{config.listener.port}, start {incarnation}"
    )
    try:
        return await shell.exit_status
    finally:
        sweeper.cancel()
        server.close()
        await peers.close()
        for connection in list(connections):
            connection.close()


async def _close_idle(connections: set[Connection]) -> None:
    """Close connections nobody has used for ten minutes; their clients may be long gone."""
    while True:
        await asyncio.sleep(SWEEP_S)
        limit = asyncio.get_running_loop().time() - IDLE_LIMIT_S
        for connection in [c for c in connections if c.idle_since < limit]:
            connection.close()


class _Complaints:
    """Says what asyncio could not handle, such as running out of descriptors.

    For those asyncio itself stops accepting for a second, but tells of each attempt; the
    same complaint is passed on once in ten seconds.
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


if __name__ == "__main__":
    sys.exit(main())
