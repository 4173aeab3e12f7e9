"""The configuration file: accepted properties, and refusals in one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.server.properties import (
    ConfigError,
    load_config,
    parse_properties,
    server_config,
)

GOOD = {
    "process.roles": "controller",
    "node.id": "2",
    "cluster.id": "abc",
    "controller.quorum.voters": "1@10.77.0.1:9093, 2@10.77.0.2:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://10.77.0.2:9093",
    "log.dirs": "/data",
}


def test_a_minimal_configuration_takes_the_defaults() -> None:
    config = server_config(GOOD)
    assert config.voters == {1: Endpoint("10.77.0.1", 9093), 2: Endpoint("10.77.0.2", 9093)}
    assert config.listeners == {"CONTROLLER": Endpoint("10.77.0.2", 9093)}
    assert (config.controller, config.broker, config.write_loss) == (True, False, False)
    assert (config.segment_bytes, config.segment_ms) == (1 << 30, 7 * 24 * 3600 * 1000)
    assert config.node_name == "n2"
    assert config.incarnation_file == Path("/data/incarnation")
    assert (config.trace_file, config.input_log) == (None, None)
    node = config.node_config(bytes(16), 3)
    assert (node.node_id, node.incarnation, node.linger_ms, node.max_idle_ms) == (2, 3, 25, 500)
    assert node.listener == Endpoint("10.77.0.2", 9093)
    assert (node.controller, node.broker, node.can_become_voter) == (True, False, True)
    assert node.broker_listener is None


def test_given_properties_reach_the_node() -> None:
    extra = {
        "controller.quorum.election.timeout.ms": "100",
        "controller.quorum.append.linger.ms": "0",
        "kraftwreck.seed": str(2**64 - 1),
        "default.replication.factor": "3",
        "kraftwreck.node.name": "alpha",
        "kraftwreck.trace.file": "/t",
        "kraftwreck.input.log": "/i",
        "kraftwreck.incarnation.file": "/c",
    }
    config = server_config(GOOD | extra)
    node = config.node_config(bytes(16), 1)
    assert (node.election_timeout_ms, node.linger_ms, node.seed) == (100, 0, 2**64 - 1)
    assert node.default_replication == 3
    assert config.node_name == "alpha"
    assert (config.trace_file, config.input_log) == (Path("/t"), Path("/i"))
    assert config.incarnation_file == Path("/c")


BROKER = {
    "process.roles": "broker",
    "node.id": "5",
    "cluster.id": "abc",
    "controller.quorum.voters": "1@10.77.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "listeners": "PLAINTEXT://10.77.0.5:9092",
    "log.dirs": "/data",
}
DYNAMIC = {name: value for name, value in GOOD.items() if name != "controller.quorum.voters"} | {
    "controller.quorum.bootstrap.servers": "10.77.0.1:9093,[fd00::1]:9093"
}


def test_settings_of_snapshots_retention_and_brokers_reach_the_node() -> None:
    numbers = {
        "metadata.log.max.record.bytes.between.snapshots": ("snapshot_bytes", 4096),
        "metadata.log.max.snapshot.interval.ms": ("snapshot_interval_ms", 0),
        "metadata.max.retention.bytes": ("retention_bytes", 65536),
        "metadata.max.retention.ms": ("retention_ms", 1000),
        "broker.session.timeout.ms": ("session_timeout_ms", 3000),
        "broker.heartbeat.interval.ms": ("heartbeat_interval_ms", 500),
        "initial.broker.registration.timeout.ms": ("registration_timeout_ms", 7000),
        "min.insync.replicas": ("min_insync_replicas", 2),
        "controller.quorum.fetch.snapshot.max.bytes": ("fetch_snapshot_max_bytes", 512),
        "kraftwreck.clean.interval.ms": ("clean_interval_ms", 200),
    }
    given = {name: str(value) for name, (_, value) in numbers.items()}
    node = server_config(GOOD | given).node_config(bytes(16), 1)
    assert {field: getattr(node, field) for field, _ in numbers.values()} == dict(numbers.values())


def test_settings_of_the_disk_are_kept() -> None:
    config = server_config(
        GOOD
        | {
            "metadata.log.segment.bytes": "8192",
            "metadata.log.segment.ms": "5000",
            "kraftwreck.write.loss": "true",
        }
    )
    assert (config.segment_bytes, config.segment_ms, config.write_loss) == (8192, 5000, True)


def test_a_broker_observes_the_quorum_and_listens_for_clients() -> None:
    config = server_config(BROKER | {"broker.rack": "r1"})
    assert config.address == Endpoint("10.77.0.5", 9092)
    node = config.node_config(bytes(16), 1, b"i" * 16, 42)
    assert (node.controller, node.broker, node.can_become_voter) == (False, True, False)
    assert node.listener is None
    assert node.broker_listener == Endpoint("10.77.0.5", 9092)
    assert (node.rack, node.broker_incarnation, node.previous_broker_epoch) == ("r1", b"i" * 16, 42)


def test_both_roles_listen_on_two_ports() -> None:
    config = server_config(
        GOOD
        | {
            "process.roles": "controller,broker",
            "listeners": "CONTROLLER://:9093, PLAINTEXT://0.0.0.0:9092",
            "advertised.listeners": "PLAINTEXT://outside:19092",
        }
    )
    assert config.listeners["PLAINTEXT"] == Endpoint("0.0.0.0", 9092)  # not bound
    node = config.node_config(bytes(16), 1)
    assert (node.controller, node.broker) == (True, True)
    assert node.broker_listener == Endpoint("outside", 19092)
    # Where nothing is advertised, the voters say where this one is reached.
    assert node.listener == Endpoint("10.77.0.2", 9093)


def test_a_dynamic_quorum_is_found_by_its_bootstrap_servers() -> None:
    config = server_config(DYNAMIC | {"controller.quorum.auto.join.enable": "true"})
    node = config.node_config(bytes(16), 1)
    assert node.voters == {}
    assert node.bootstrap_servers == (Endpoint("10.77.0.1", 9093), Endpoint("fd00::1", 9093))
    assert node.auto_join


@pytest.mark.parametrize(
    ("base", "change", "reason"),
    [
        (GOOD, {"proces.roles": "controller"}, "unknown property proces.roles"),
        (GOOD, {"process.roles": "zookeeper"}, "process.roles=zookeeper is not controller"),
        (GOOD, {"process.roles": "controller,controller"}, "process.roles=.* is not controller"),
        (GOOD, {"node.id": ""}, "node.id is missing"),
        (GOOD, {"node.id": "two"}, "node.id=two is not a whole number"),
        (GOOD, {"node.id": "-1"}, "node.id=-1 is not a whole number of at least 0"),
        (GOOD, {"node.id": "9"}, "node.id 9 is not among controller.quorum.voters"),
        (GOOD, {"controller.quorum.voters": "1:9093"}, "'1:9093' is not id@host:port"),
        (GOOD, {"controller.quorum.voters": "2@h:99999"}, "is not id@host:port"),
        (GOOD, {"controller.quorum.voters": "2@:9093"}, "is not id@host:port"),
        (GOOD, {"controller.quorum.voters": "2@h:1,2@i:1"}, "names node 2 twice"),
        (GOOD, {"controller.quorum.voters": ""}, "voters is missing, or controller.quorum.boot"),
        (GOOD, {"controller.quorum.bootstrap.servers": "h:1"}, "cannot be combined"),
        (GOOD, {"controller.quorum.auto.join.enable": "true"}, "join.enable needs a controller"),
        (GOOD, {"controller.quorum.auto.join.enable": "yes"}, "enable=yes is not true or false"),
        (GOOD, {"controller.listener.names": "QUORUM"}, "use CONTROLLER"),
        (GOOD, {"listener.security.protocol.map": "CONTROLLER:SSL"}, "'CONTROLLER:SSL' is not"),
        (GOOD, {"listeners": "PLAINTEXT://h:1"}, "listeners has no CONTROLLER://"),
        (GOOD, {"listeners": "h:1"}, "'h:1' is not NAME://host:port"),
        (GOOD, {"listeners": "CONTROLLER://a:1,CONTROLLER://b:1"}, "a listener CONTROLLER twice"),
        (GOOD, {"listeners": "CONTROLLER://a:1,PLAINTEXT://a:2"}, "no use for the listener PLAIN"),
        (GOOD, {"advertised.listeners": "PLAINTEXT://a:2"}, "PLAINTEXT is not among listeners"),
        (GOOD, {"advertised.listeners": "CONTROLLER://:2"}, "is not NAME://host:port"),
        (GOOD, {"log.dirs": "/a,/b"}, "a node has one"),
        (GOOD, {"controller.quorum.fetch.timeout.ms": "0"}, "of at least 1"),
        (GOOD, {"kraftwreck.seed": "1e3"}, "kraftwreck.seed=1e3 is not a whole number"),
        (GOOD, {"kraftwreck.seed": "9" * 5000}, "is not a whole number"),
        (GOOD, {"kraftwreck.write.loss": "1"}, "kraftwreck.write.loss=1 is not true or false"),
        (BROKER, {"node.id": "1"}, "node.id 1 is among controller.quorum.voters, but is not a"),
        (BROKER, {"listeners": "CONTROLLER://a:1"}, "listeners has no PLAINTEXT://"),
        (BROKER, {"listeners": "PLAINTEXT://:9092"}, "must say where PLAINTEXT is reached"),
        (
            GOOD,
            {
                "process.roles": "broker,controller",
                "listeners": "CONTROLLER://a:1,PLAINTEXT://a:1",
            },
            "a port of its own",
        ),
        (DYNAMIC, {"controller.quorum.bootstrap.servers": "h"}, "'h' is not host:port"),
        (DYNAMIC, {"controller.quorum.bootstrap.servers": "h:1,h:1"}, "names h:1 twice"),
        (DYNAMIC, {"listeners": "CONTROLLER://:9093"}, "must say where CONTROLLER is reached"),
    ],
)
def test_unusable_values_are_named(
    base: dict[str, str], change: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        server_config(base | change)


def test_comments_and_spaces_are_skipped() -> None:
    text = "# a comment\n! another\n\n a.b = c=d \ne=\n"
    assert parse_properties(text) == {"a.b": "c=d", "e": ""}


@pytest.mark.parametrize(
    ("text", "reason"),
    [("a=1\nnonsense", "line 2: expected key=value"), ("a=1\na=2", "line 2: a is given twice")],
)
def test_lines_that_mean_nothing_are_named(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_properties(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(tmp_path / "binary")
