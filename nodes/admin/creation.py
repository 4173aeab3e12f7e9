"""Create a cluster from the configuration files of its nodes.

The files are checked against each other, then each data directory is formatted, as ``python3 -m
kraftwreck.nodes.server format`` does for one node, and the processes are started if wanted. Brokers
register themselves: the cluster knows them once they run.

The controllers of a dynamic quorum are its first voters. Their directory ids follow from cluster id
and node id, so that hosts that know the same files format the same quorum by themselves.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kraftwreck.nodes.admin import data_directory
from kraftwreck.nodes.admin.balance import Say
from kraftwreck.nodes.admin.client import Client, wait
from kraftwreck.nodes.admin.cluster import Cluster
from kraftwreck.nodes.admin.failure import NOT_DONE, AdminError
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.format import (
    FormatError,
    InitialVoter,
    Mode,
    format_directory,
    load_meta,
)
from kraftwreck.nodes.log.layout import META_PROPERTIES
from kraftwreck.nodes.log.uuids import draw_uuid
from kraftwreck.nodes.server.addresses import BROKER, CONTROLLER, ConfigError
from kraftwreck.nodes.server.formatting import release_level
from kraftwreck.nodes.server.properties import ServerConfig, load_config

CONNECT_S: Final = 1.0
SERVER: Final = ("-m", "kraftwreck.nodes")


def _start(command: list[str], output: Path) -> int:
    """Start a process that outlives this one, in a session of its own; return its id."""
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(output), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _status(process: int) -> int | None:
    """Return the exit status of a process that this one started, None while it runs."""
    found, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


class Creation:
    """The nodes of a new cluster, by the paths of their configuration files.

    ``own`` are the ids of the nodes on this host; None means all. Raises AdminError if the files do
    not fit together.
    """

    def __init__(self, paths: Sequence[Path], own: Collection[int] | None, say: Say) -> None:
        self._say = say
        self._paths: dict[int, Path] = {}
        self._configs: dict[int, ServerConfig] = {}
        for path in paths:
            try:
                config = load_config(path)
            except ConfigError as error:
                raise AdminError(str(error)) from error
            if config.node_id in self._configs:
                other = self._paths[config.node_id]
                raise AdminError(f"{path}: node.id {config.node_id} is that of {other}, too")
            self._configs[config.node_id], self._paths[config.node_id] = config, path
        self._check_quorum()
        self._check_addresses()
        self._own = sorted(self._configs if own is None else own)
        for node in self._own:
            if node not in self._configs:
                raise AdminError(f"--only {node}: none of the files has this node.id")

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        return next(iter(self._configs.values())).cluster_id

    @property
    def controllers(self) -> dict[int, Endpoint]:
        """The controllers with the addresses that others use."""
        return {n: c.advertised[CONTROLLER] for n, c in self._configs.items() if c.controller}

    @property
    def brokers(self) -> dict[int, Endpoint]:
        """The brokers with the addresses that others use."""
        return {n: c.advertised[BROKER] for n, c in self._configs.items() if c.broker}

    def _check_quorum(self) -> None:
        first, *others = sorted(self._configs.values(), key=lambda config: config.node_id)
        for config in others:
            path, other = self._paths[config.node_id], self._paths[first.node_id]
            if config.cluster_id != first.cluster_id:
                raise AdminError(
                    f"{path}: cluster.id {config.cluster_id} is not that of {other}, "
                    f"{first.cluster_id}"
                )
            if dict(config.voters) != dict(first.voters) or bool(config.bootstrap_servers) != bool(
                first.bootstrap_servers
            ):
                raise AdminError(f"{path}: its quorum is not that of {other}; give all the same")
        if not self.controllers:
            raise AdminError("none of the files has process.roles with controller; add one")
        if first.voters and dict(first.voters) != self.controllers:
            wanted = ",".join(f"{n}@{at}" for n, at in sorted(self.controllers.items()))
            raise AdminError(
                f"{self._paths[first.node_id]}: controller.quorum.voters does not name the "
                f"controllers of the files; use {wanted}"
            )

    def _check_addresses(self) -> None:
        taken: dict[Endpoint, int] = {}
        for node, config in sorted(self._configs.items()):
            for endpoint in config.advertised.values():
                if endpoint in taken:
                    raise AdminError(
                        f"{self._paths[node]}: {endpoint} is an address of node "
                        f"{taken[endpoint]}, too; give each a port of its own"
                    )
                taken[endpoint] = node
        directories: dict[tuple[str, Path], int] = {}
        for node, config in sorted(self._configs.items()):
            place = next(iter(config.advertised.values())).host, config.log_dir
            if place in directories:
                raise AdminError(
                    f"{self._paths[node]}: log.dirs {config.log_dir} is that of node "
                    f"{directories[place]}, too; give each a directory of its own"
                )
            directories[place] = node

    def format(self, release: str | None) -> list[int]:
        """Format the data directories of this host; return the nodes that were not yet."""
        try:
            level = None if release is None else release_level(release)
        except ConfigError as error:
            raise AdminError(str(error)) from error
        fresh = [node for node in self._own if not self._formatted(node)]
        voters = self._first_voters()
        for node in fresh:
            config = self._configs[node]
            mode = Mode.NO_INITIAL_CONTROLLERS
            if config.controller:
                mode = Mode.STATIC if config.voters else Mode.INITIAL_CONTROLLERS
            try:
                format_directory(
                    config.log_dir,
                    config.cluster_id,
                    node,
                    mode=mode,
                    voters=voters if mode is Mode.INITIAL_CONTROLLERS else (),
                    metadata_version=level,
                )
            except FormatError as error:
                raise AdminError(f"{self._paths[node]}: {error}") from error
            except OSError as error:
                where = error.filename or config.log_dir
                text = f"{self._paths[node]}: cannot format {where}: {error.strerror}"
                raise AdminError(text, NOT_DONE) from error
            self._say(f"node {node}: {config.log_dir} is formatted")
        return fresh

    def _formatted(self, node: int) -> bool:
        """Return whether the data directory is complete: its last file is meta.properties."""
        config = self._configs[node]
        if not (config.log_dir / META_PROPERTIES).exists():
            return False
        try:
            load_meta(config.log_dir, config.cluster_id, node)
        except FormatError as error:
            raise AdminError(f"{self._paths[node]}: {error}") from error
        return True

    def _first_voters(self) -> tuple[InitialVoter, ...]:
        voters = []
        for node, at in sorted(self.controllers.items()):
            directory = draw_uuid(0, "first voter", self.cluster_id, node)
            if node in self._own and self._formatted(node):
                directory = load_meta(self._configs[node].log_dir).directory_id
            voters.append(InitialVoter(node, at, directory))
        return tuple(voters)

    def command(self, node: int) -> list[str]:
        """Return the command that runs a node."""
        return [sys.executable, *SERVER, "--config", str(self._paths[node].resolve())]

    def start(self, patience_s: float) -> list[int]:
        """Start the nodes of this host that do not run, in the background; return which.

        Their output goes to a file beside their configuration. Raises AdminError if one ends.
        """
        started: dict[int, int] = {}
        for node in self._own:
            if not data_directory.in_use(self._configs[node].log_dir):
                started[node] = _start(self.command(node), self._output(node))
                self._say(f"node {node}: started as process {started[node]}")
        for node in self._own:
            self._wait_for_port(node, started.get(node), patience_s)
        return sorted(started)

    def _output(self, node: int) -> Path:
        return self._paths[node].with_suffix(".out")

    def _wait_for_port(self, node: int, process: int | None, patience_s: float) -> None:
        at = next(iter(self._configs[node].advertised.values()))
        ended: int | None = None

        def listens(_limit: float) -> bool:
            nonlocal ended
            if process is not None and ended is None:
                ended = _status(process)
            # A node that another call of the command started may have been faster.
            if ended is not None and not data_directory.in_use(self._configs[node].log_dir):
                raise AdminError(
                    f"node {node} ended with status {ended}; read {self._output(node)}", NOT_DONE
                )
            try:
                socket.create_connection((at.host, at.port), CONNECT_S).close()
            except OSError:
                return False
            return True

        if not wait(listens, patience_s):
            raise AdminError(
                f"node {node} does not listen at {at} after {patience_s:g} s; read "
                f"{self._output(node)}",
                NOT_DONE,
            )

    def wait(self, patience_s: float) -> None:
        """Wait until all brokers are members, or, without brokers, a controller is active."""
        if self.brokers:
            self._wait_for_brokers(patience_s)
            return
        client = Client(list(self.controllers.values()), patience_s)
        try:

            def active(_limit: float) -> bool:
                body = {"endpoint_type": 2}
                return bool(client.call("DescribeCluster", body)["controller_id"] >= 0)

            if not wait(active, patience_s):
                raise AdminError(
                    f"no controller is active after {patience_s:g} s; start all nodes, and repeat "
                    "the command",
                    NOT_DONE,
                )
        finally:
            client.close()

    def _wait_for_brokers(self, patience_s: float) -> None:
        client = Client(list(self.brokers.values()), patience_s)
        cluster = Cluster(client)

        def missing() -> list[int]:
            cluster_id, known = cluster.brokers()
            if cluster_id != self.cluster_id:
                raise AdminError(
                    f"{client.servers[0]}: a node of cluster {cluster_id} answers, not of "
                    f"{self.cluster_id}; check the addresses"
                )
            return [n for n in sorted(self.brokers) if n not in known or known[n].fenced]

        try:
            cluster.wait_until(
                lambda: not missing(),
                patience_s,
                lambda: (
                    f"brokers {missing()} are no members after {patience_s:g} s; start them, "
                    "and repeat the command"
                ),
            )
        finally:
            client.close()

    def result(self, formatted: list[int], started: list[int]) -> Mapping[str, Any]:
        """Return the numbers for ``--json``."""
        return {
            "cluster_id": self.cluster_id,
            "formatted": formatted,
            "started": started,
            "controllers": {node: str(at) for node, at in sorted(self.controllers.items())},
            "brokers": {node: str(at) for node, at in sorted(self.brokers.items())},
            "commands": {node: self.command(node) for node in self._own},
        }
