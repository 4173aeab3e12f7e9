"""The node's configuration: a Kafka-style ``.properties`` file, strictly read.

Properties, with their defaults:

* ``process.roles``: ``controller`` (the default), ``broker`` or ``controller,broker``
* ``node.id``, ``cluster.id``: the identity of the node, both required
* ``controller.quorum.voters``: ``1@host:port,2@host:port,...``, a static quorum, or else
* ``controller.quorum.bootstrap.servers``: ``host:port,...``, through which a node finds a dynamic
  quorum
* ``controller.quorum.auto.join.enable``: the controller adds itself to a dynamic quorum, false
* ``listeners``: ``CONTROLLER://host:port`` of a controller, ``PLAINTEXT://host:port`` of a broker;
  the only addresses bound
* ``advertised.listeners``: the addresses that other nodes use, if they differ
* ``log.dirs``: one data directory
* ``broker.rack``: the broker's rack, none
* ``controller.quorum.*``: timers in ms: ``election.timeout.ms`` 1000, ``fetch.timeout.ms`` 2000,
  ``election.backoff.max.ms`` 1000, ``append.linger.ms`` 25, ``request.timeout.ms`` 2000,
  ``retry.backoff.ms`` 20; and sizes: ``fetch.max.bytes`` 1048576, ``fetch.snapshot.max.bytes``
  1048576
* ``metadata.max.idle.interval.ms``: NoOp record when idle, 500
* ``metadata.log.max.record.bytes.between.snapshots``, ``metadata.log.max.snapshot.interval.ms``:
  when to make a snapshot, 20 MiB and 1 h
* ``metadata.max.retention.bytes``, ``metadata.max.retention.ms``: retention, 100 MiB and 7 d
* ``metadata.log.segment.bytes``, ``metadata.log.segment.ms``: when a segment ends, 1 GiB and 7 d
* ``broker.session.timeout.ms``, ``broker.heartbeat.interval.ms``: 9000 and 2000
* ``initial.broker.registration.timeout.ms``: when a starting broker gives up, 60000
* ``replica.lag.time.max.ms``: how long a replica may lag before it leaves the ISR, 30000
* ``log.retention.check.interval.ms``: time between two checks of retention of user partitions,
  300000
* ``log.segment.bytes``, ``log.roll.ms``, ``log.index.interval.bytes``: when a segment of a user
  partition ends, and how dense its indexes are: 1 GiB, 7 d and 4096
* ``auto.create.topics.enable``: topics come into being as clients ask for them, false
* ``kraftwreck.data.plane``: the broker stores and serves records, true
* ``num.partitions``, ``default.replication.factor``, ``min.insync.replicas``: 1 each
* ``kraftwreck.node.name``: name in traces, ``n<node.id>``
* ``kraftwreck.seed``: key of every random choice, 0
* ``kraftwreck.clean.interval.ms``: time between two checks of retention, 60000
* ``kraftwreck.write.loss``: kill -9 loses unsynced writes, false
* ``kraftwreck.incarnation.file``: counts process starts, ``incarnation`` in the data directory
* ``kraftwreck.trace.file``, ``kraftwreck.input.log``: files to write; none if absent

``controller.listener.names=CONTROLLER``, ``inter.broker.listener.name=PLAINTEXT`` and a
``listener.security.protocol.map`` that maps both to PLAINTEXT are accepted, since Kafka requires
them. Any other property is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.layout import DEFAULT_SEGMENT_BYTES, DEFAULT_SEGMENT_MS
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.server.addresses import (
    BROKER,
    CONTROLLER,
    WILDCARDS,
    ConfigError,
    check_listeners,
    parse_listeners,
    parse_servers,
    parse_voters,
)

if TYPE_CHECKING:
    from kraftwreck.nodes.node_config import NodeConfig

__all__ = ["ConfigError", "ServerConfig", "load_config", "parse_properties", "server_config"]

VOTERS: Final = "controller.quorum.voters"
SERVERS: Final = "controller.quorum.bootstrap.servers"
DATA_PLANE: Final = "kraftwreck.data.plane"
AUTO_CREATE: Final = "auto.create.topics.enable"
AUTO_JOIN: Final = "controller.quorum.auto.join.enable"

_NUMBERS: Final[Mapping[str, tuple[str, int]]] = {
    "controller.quorum.election.timeout.ms": ("election_timeout_ms", 1),
    "controller.quorum.fetch.timeout.ms": ("fetch_timeout_ms", 1),
    "controller.quorum.election.backoff.max.ms": ("election_backoff_max_ms", 1),
    "controller.quorum.append.linger.ms": ("linger_ms", 0),
    "controller.quorum.request.timeout.ms": ("request_timeout_ms", 1),
    "controller.quorum.retry.backoff.ms": ("retry_backoff_ms", 0),
    "controller.quorum.fetch.max.bytes": ("fetch_max_bytes", 1),
    "controller.quorum.fetch.snapshot.max.bytes": ("fetch_snapshot_max_bytes", 1),
    "metadata.max.idle.interval.ms": ("max_idle_ms", 0),
    "metadata.log.max.record.bytes.between.snapshots": ("snapshot_bytes", 1),
    "metadata.log.max.snapshot.interval.ms": ("snapshot_interval_ms", 0),
    "metadata.max.retention.bytes": ("retention_bytes", 0),
    "metadata.max.retention.ms": ("retention_ms", 0),
    "broker.session.timeout.ms": ("session_timeout_ms", 1),
    "broker.heartbeat.interval.ms": ("heartbeat_interval_ms", 1),
    "leader.imbalance.check.interval.seconds": ("leader_imbalance_check_interval_seconds", 0),
    "unclean.leader.election.interval.ms": ("unclean_leader_election_interval_ms", 0),
    "initial.broker.registration.timeout.ms": ("registration_timeout_ms", 1),
    "num.partitions": ("default_partitions", 1),
    "default.replication.factor": ("default_replication", 1),
    "min.insync.replicas": ("min_insync_replicas", 1),
    "replica.lag.time.max.ms": ("replica_lag_time_max_ms", 1),
    "log.retention.check.interval.ms": ("retention_check_interval_ms", 1),
    "kraftwreck.seed": ("seed", 0),
    "kraftwreck.clean.interval.ms": ("clean_interval_ms", 1),
    "kraftwreck.snapshot.piece.records": ("snapshot_piece_records", 1),
}
"""Property → field of NodeConfig and its smallest value."""

_SEGMENT: Final[Mapping[str, int]] = {
    "metadata.log.segment.bytes": DEFAULT_SEGMENT_BYTES,
    "metadata.log.segment.ms": DEFAULT_SEGMENT_MS,
}
_LOG: Final[Mapping[str, tuple[str, int]]] = {
    "log.segment.bytes": ("segment_bytes", 14),
    "log.roll.ms": ("segment_ms", 1),
    "log.index.interval.bytes": ("index_interval_bytes", 0),
}
"""Property → field of LogSettings and its smallest value."""
_FIXED: Final[Mapping[str, str]] = {
    "controller.listener.names": CONTROLLER,
    "inter.broker.listener.name": BROKER,
}
_REQUIRED: Final = ("node.id", "cluster.id", "listeners", "log.dirs")
_OPTIONAL: Final = (
    "process.roles",
    VOTERS,
    SERVERS,
    AUTO_JOIN,
    "advertised.listeners",
    "listener.security.protocol.map",
    "broker.rack",
    "kraftwreck.node.name",
    "kraftwreck.incarnation.file",
    "kraftwreck.trace.file",
    "kraftwreck.input.log",
    "kraftwreck.write.loss",
    DATA_PLANE,
    AUTO_CREATE,
)


@dataclass(slots=True, frozen=True)
class ServerConfig:
    """The configuration of a node process.

    ``listeners`` are the addresses to bind, ``advertised`` those that other nodes connect to, both
    by listener name. ``numbers`` are the fields of NodeConfig that were given.
    """

    node_id: int
    node_name: str
    cluster_id: str
    controller: bool
    broker: bool
    voters: Mapping[int, Endpoint]
    bootstrap_servers: tuple[Endpoint, ...]
    auto_join: bool
    listeners: Mapping[str, Endpoint]
    advertised: Mapping[str, Endpoint]
    rack: str | None
    log_dir: Path
    segment_bytes: int
    segment_ms: int
    write_loss: bool
    incarnation_file: Path
    trace_file: Path | None
    input_log: Path | None
    numbers: Mapping[str, int]
    data_plane: bool
    auto_create_topics: bool
    log_settings: LogSettings

    @property
    def address(self) -> Endpoint:
        """The address that packets from this node carry."""
        return self.listeners[CONTROLLER if self.controller else BROKER]

    def node_config(
        self,
        directory_id: bytes,
        incarnation: int,
        broker_incarnation: bytes = bytes(16),
        previous_broker_epoch: int = -1,
    ) -> NodeConfig:
        """Return the configuration of the pure node."""
        # Formatting needs no node, and loading this takes half of its time.
        from kraftwreck.nodes.node_config import NodeConfig

        config = NodeConfig(
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            directory_id=directory_id,
            voters=dict(self.voters),
            incarnation=incarnation,
            bootstrap_servers=self.bootstrap_servers,
            listener=self.advertised.get(CONTROLLER),
            can_become_voter=self.controller,
            auto_join=self.auto_join,
            controller=self.controller,
            broker=self.broker,
            broker_listener=self.advertised.get(BROKER),
            broker_incarnation=broker_incarnation,
            previous_broker_epoch=previous_broker_epoch,
            rack=self.rack,
            data_plane=self.data_plane,
            auto_create_topics=self.auto_create_topics,
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
    except OSError as refused:
        raise ConfigError(f"cannot read {path}: {refused.strerror}") from refused
    except UnicodeDecodeError as reason:
        raise ConfigError(f"{path}: not UTF-8") from reason
    try:
        return server_config(parse_properties(text))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def server_config(properties: Mapping[str, str]) -> ServerConfig:
    """Return the configuration in ``properties``. Raises :class:`ConfigError`."""
    _check_names(properties)
    node_id = _number("node.id", properties["node.id"], 0)
    controller, broker = _roles(properties.get("process.roles", "controller"))
    voters, servers = _quorum(properties, node_id, controller)
    auto_join = _flag(properties, AUTO_JOIN)
    if auto_join and not (controller and servers):
        raise ConfigError(f"{AUTO_JOIN} needs a controller with {SERVERS}")
    listeners = parse_listeners("listeners", properties["listeners"], bound=True)
    advertised = _advertised(properties, listeners, controller, broker, voters.get(node_id))
    if "," in properties["log.dirs"]:
        raise ConfigError("log.dirs names several directories, a node has one")
    log_dir = Path(properties["log.dirs"])
    trace, inputs = (
        Path(properties[name]) if properties.get(name) else None
        for name in ("kraftwreck.trace.file", "kraftwreck.input.log")
    )
    segment_bytes, segment_ms = (
        _number(name, properties.get(name, str(default)), 1) for name, default in _SEGMENT.items()
    )
    log_numbers: dict[str, Any] = {
        field: _number(name, properties[name], least)
        for name, (field, least) in _LOG.items()
        if name in properties
    }
    return ServerConfig(
        node_id=node_id,
        node_name=properties.get("kraftwreck.node.name") or f"n{node_id}",
        cluster_id=properties["cluster.id"],
        controller=controller,
        broker=broker,
        voters=voters,
        bootstrap_servers=servers,
        auto_join=auto_join,
        listeners=listeners,
        advertised=advertised,
        rack=properties.get("broker.rack") or None,
        log_dir=log_dir,
        segment_bytes=segment_bytes,
        segment_ms=segment_ms,
        write_loss=_flag(properties, "kraftwreck.write.loss"),
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
        data_plane=broker and _flag(properties, DATA_PLANE, "true"),
        auto_create_topics=_flag(properties, AUTO_CREATE),
        log_settings=replace(LogSettings(), **log_numbers),
    )


def _check_names(properties: Mapping[str, str]) -> None:
    known = {*_NUMBERS, *_SEGMENT, *_LOG, *_FIXED, *_REQUIRED, *_OPTIONAL}
    for name in properties:
        if name not in known:
            raise ConfigError(f"unknown property {name}: remove it or correct its name")
    for name in _REQUIRED:
        if not properties.get(name):
            raise ConfigError(f"{name} is missing")
    for name, value in _FIXED.items():
        if properties.get(name, value) != value:
            raise ConfigError(f"{name}={properties[name]} is not supported, use {value}")
    protocols = properties.get("listener.security.protocol.map", "")
    for part in filter(None, map(str.strip, protocols.split(","))):
        if part not in (f"{CONTROLLER}:PLAINTEXT", f"{BROKER}:PLAINTEXT"):
            raise ConfigError(f"listener.security.protocol.map: {part!r} is not supported")


def _roles(text: str) -> tuple[bool, bool]:
    roles = [role.strip() for role in text.split(",")]
    if not {*roles} <= {"controller", "broker"} or len({*roles}) != len(roles):
        raise ConfigError(f"process.roles={text} is not controller, broker or controller,broker")
    return "controller" in roles, "broker" in roles


def _quorum(
    properties: Mapping[str, str], node_id: int, controller: bool
) -> tuple[dict[int, Endpoint], tuple[Endpoint, ...]]:
    """Return the voters of a static quorum, or the bootstrap servers of a dynamic one."""
    static, dynamic = properties.get(VOTERS), properties.get(SERVERS)
    if not static and not dynamic:
        raise ConfigError(f"{VOTERS} is missing, or {SERVERS} for a dynamic quorum")
    if static and dynamic:
        raise ConfigError(f"{VOTERS} and {SERVERS} cannot be combined")
    if not static:
        return {}, parse_servers(SERVERS, dynamic or "")
    voters = parse_voters(VOTERS, static)
    if controller and node_id not in voters:
        raise ConfigError(f"node.id {node_id} is not among {VOTERS}")
    if not controller and node_id in voters:
        raise ConfigError(f"node.id {node_id} is among {VOTERS}, but is not a controller")
    return voters, ()


def _advertised(
    properties: Mapping[str, str],
    listeners: Mapping[str, Endpoint],
    controller: bool,
    broker: bool,
    voter: Endpoint | None,
) -> dict[str, Endpoint]:
    """Return the addresses at which other nodes reach the listeners."""
    given: dict[str, Endpoint] = {}
    if properties.get("advertised.listeners"):
        text = properties["advertised.listeners"]
        given = parse_listeners("advertised.listeners", text, bound=False)
    wanted = [name for name, has in ((CONTROLLER, controller), (BROKER, broker)) if has]
    check_listeners(listeners, given, wanted)
    found: dict[str, Endpoint] = {}
    for name, endpoint in listeners.items():
        if name in given:
            endpoint = given[name]
        elif endpoint.host in WILDCARDS:
            if name != CONTROLLER or voter is None:
                raise ConfigError(f"advertised.listeners must say where {name} is reached")
            endpoint = voter
        found[name] = endpoint
    return found


def _number(name: str, text: str, least: int) -> int:
    if not re.fullmatch(r"-?\d{1,20}", text, re.ASCII) or not least <= int(text) < 2**64:
        raise ConfigError(f"{name}={text} is not a whole number of at least {least}")
    return int(text)


def _flag(properties: Mapping[str, str], name: str, default: str = "false") -> bool:
    text = properties.get(name, default)
    if text not in ("true", "false"):
        raise ConfigError(f"{name}={text} is not true or false")
    return text == "true"
