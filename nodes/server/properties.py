"""The node's configuration: a Kafka-style ``.properties`` file, strictly read.

| property | meaning, default |
|---|---|
| ``process.roles`` | ``controller`` |
| ``node.id`` | id of this node, one of the voters |
| ``cluster.id`` | id of the cluster, required |
| ``controller.quorum.voters`` | ``1@host:port,2@host:port,...``, required |
| ``listeners`` | ``CONTROLLER://host:port``: the only address bound |
| ``log.dirs`` | one data directory |
| ``controller.quorum.*`` | timers in ms: ``election.timeout.ms`` 1000, ``fetch.timeout.ms`` 2000, \
``election.backoff.max.ms`` 1000, ``append.linger.ms`` 25, ``request.timeout.ms`` 2000, \
``retry.backoff.ms`` 20; ``fetch.max.bytes`` 1048576 |
| ``metadata.max.idle.interval.ms`` | NoOp record when idle, 500 |
| ``num.partitions``, ``default.replication.factor`` | defaults of CreateTopics, 1 and 1 |
| ``kraftwreck.node.name`` | name in traces, ``n<node.id>`` |
| ``kraftwreck.seed`` | key of every random choice, 0 |
| ``kraftwreck.incarnation.file`` | counts process starts, ``incarnation`` in the data directory |
| ``kraftwreck.trace.file``, ``kraftwreck.input.log`` | where to write; nothing if absent |

``controller.listener.names=CONTROLLER`` and a ``listener.security.protocol.map`` that maps
it to PLAINTEXT are accepted, as Kafka wants them. Any other property is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from nodes.consensus.endpoint import Endpoint
from nodes.node import NodeConfig

LISTENER: Final = "CONTROLLER"
_VOTER: Final = re.compile(r"(?P<id>\d{1,10})@(?P<host>[^@,\s]+):(?P<port>\d{1,5})")
_LISTENER: Final = re.compile(rf"{LISTENER}://(?P<host>[^/\s]*):(?P<port>\d{{1,5}})")

_NUMBERS: Final[Mapping[str, tuple[str, int]]] = {
    "controller.quorum.election.timeout.ms": ("election_timeout_ms", 1),
    "controller.quorum.fetch.timeout.ms": ("fetch_timeout_ms", 1),
    "controller.quorum.election.backoff.max.ms": ("election_backoff_max_ms", 1),
    "controller.quorum.append.linger.ms": ("linger_ms", 0),
    "controller.quorum.request.timeout.ms": ("request_timeout_ms", 1),
    "controller.quorum.retry.backoff.ms": ("retry_backoff_ms", 0),
    "controller.quorum.fetch.max.bytes": ("fetch_max_bytes", 1),
    "metadata.max.idle.interval.ms": ("max_idle_ms", 1),
    "num.partitions": ("default_partitions", 1),
    "default.replication.factor": ("default_replication", 1),
    "kraftwreck.seed": ("seed", 0),
}
"""Property → field of NodeConfig and its smallest value."""

_FIXED: Final[Mapping[str, str]] = {
    "process.roles": "controller",
    "controller.listener.names": LISTENER,
    "listener.security.protocol.map": f"{LISTENER}:PLAINTEXT",
}
_REQUIRED: Final = ("node.id", "cluster.id", "controller.quorum.voters", "listeners", "log.dirs")
_OPTIONAL: Final = (
    "kraftwreck.node.name",
    "kraftwreck.incarnation.file",
    "kraftwreck.trace.file",
    "kraftwreck.input.log",
)


class ConfigError(Exception):
    """The configuration cannot be used; the text is one line that says what to change."""


@dataclass(slots=True, frozen=True)
class ServerConfig:
    """What a node process is told. ``numbers`` are the fields of NodeConfig that were given."""

    node_id: int
    node_name: str
    cluster_id: str
    voters: Mapping[int, Endpoint]
    listener: Endpoint
    log_dir: Path
    incarnation_file: Path
    trace_file: Path | None
    input_log: Path | None
    numbers: Mapping[str, int]

    def node_config(self, directory_id: bytes, incarnation: int) -> NodeConfig:
        """Return what the pure node is configured with."""
        config = NodeConfig(
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            directory_id=directory_id,
            voters=dict(self.voters),
            incarnation=incarnation,
        )
        numbers: dict[str, Any] = dict(self.numbers)
        return replace(config, **numbers)


def parse_properties(text: str) -> dict[str, str]:
    """Return the ``key=value`` lines of ``text``; ``#`` and ``!`` begin a comment line.

    Raises :class:`ConfigError` for a line without ``=`` and for a key given twice.
    """
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        key, equals, value = line.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError(f"line {number}: expected key=value, found {line!r}")
        if key in properties:
            raise ConfigError(f"line {number}: {key} is given twice")
        properties[key] = value.strip()
    return properties


def load_config(path: Path) -> ServerConfig:
    """Read the configuration file at ``path``. Raises :class:`ConfigError`."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8") from error
    try:
        return server_config(parse_properties(text))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def server_config(properties: Mapping[str, str]) -> ServerConfig:
    """Return the configuration in ``properties``. Raises :class:`ConfigError`."""
    known = {*_NUMBERS, *_FIXED, *_REQUIRED, *_OPTIONAL}
    for name in properties:
        if name not in known:
            raise ConfigError(f"unknown property {name}: remove it or correct its name")
    for name in _REQUIRED:
        if not properties.get(name):
            raise ConfigError(f"{name} is missing")
    for name, value in _FIXED.items():
        if properties.get(name, value) != value:
            raise ConfigError(f"{name}={properties[name]} is not supported, use {value}")
    node_id = _number("node.id", properties["node.id"], 0)
    voters = _voters(properties["controller.quorum.voters"])
    if node_id not in voters:
        raise ConfigError(f"node.id {node_id} is not among controller.quorum.voters")
    match = _LISTENER.fullmatch(properties["listeners"])
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(f"listeners={properties['listeners']} is not one {LISTENER}://host:port")
    if "," in properties["log.dirs"]:
        raise ConfigError("log.dirs names several directories, a controller has one")
    log_dir = Path(properties["log.dirs"])
    trace, inputs = (
        Path(properties[name]) if properties.get(name) else None
        for name in ("kraftwreck.trace.file", "kraftwreck.input.log")
    )
    return ServerConfig(
        node_id=node_id,
        node_name=properties.get("kraftwreck.node.name") or f"n{node_id}",
        cluster_id=properties["cluster.id"],
        voters=voters,
        listener=Endpoint(match["host"], int(match["port"])),
        log_dir=log_dir,
        incarnation_file=Path(
            properties.get("kraftwreck.incarnation.file") or log_dir / "incarnation"
        ),
        trace_file=trace,
        input_log=inputs,
        numbers={
            field: _number(name, properties[name], least)
            for name, (field, least) in _NUMBERS.items()
            if name in properties
        },
    )


def _number(name: str, text: str, least: int) -> int:
    if not re.fullmatch(r"-?\d{1,20}", text, re.ASCII) or not least <= int(text) < 2**64:
        raise ConfigError(f"{name}={text} is not a whole number of at least {least}")
    return int(text)


def _voters(text: str) -> dict[int, Endpoint]:
    voters: dict[int, Endpoint] = {}
    for part in text.split(","):
        match = _VOTER.fullmatch(part.strip())
        if match is None or not 0 < int(match["port"]) <= 65535:
            raise ConfigError(f"controller.quorum.voters: {part.strip()!r} is not id@host:port")
        voter = int(match["id"])
        if voter in voters:
            raise ConfigError(f"controller.quorum.voters names node {voter} twice")
        voters[voter] = Endpoint(match["host"], int(match["port"]))
    return voters
