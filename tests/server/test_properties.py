"""The configuration file: what is understood, and what is refused in one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.consensus.endpoint import Endpoint
from nodes.server.properties import ConfigError, load_config, parse_properties, server_config

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
    assert config.listener == Endpoint("10.77.0.2", 9093)
    assert config.node_name == "n2"
    assert config.incarnation_file == Path("/data/incarnation")
    assert (config.trace_file, config.input_log) == (None, None)
    node = config.node_config(bytes(16), 3)
    assert (node.node_id, node.incarnation, node.linger_ms, node.max_idle_ms) == (2, 3, 25, 500)


def test_what_is_given_reaches_the_node() -> None:
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


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"proces.roles": "controller"}, "unknown property proces.roles"),
        ({"process.roles": "broker"}, "process.roles=broker is not supported"),
        ({"node.id": ""}, "node.id is missing"),
        ({"node.id": "two"}, "node.id=two is not a whole number"),
        ({"node.id": "-1"}, "node.id=-1 is not a whole number of at least 0"),
        ({"node.id": "9"}, "node.id 9 is not among controller.quorum.voters"),
        ({"controller.quorum.voters": "1:9093"}, "'1:9093' is not id@host:port"),
        ({"controller.quorum.voters": "2@h:99999"}, "is not id@host:port"),
        ({"controller.quorum.voters": "2@h:1,2@i:1"}, "names node 2 twice"),
        ({"listeners": "PLAINTEXT://h:1"}, "is not one CONTROLLER://host:port"),
        ({"listeners": "CONTROLLER://a:1,CONTROLLER://b:1"}, "is not one CONTROLLER://"),
        ({"log.dirs": "/a,/b"}, "a controller has one"),
        ({"controller.quorum.fetch.timeout.ms": "0"}, "of at least 1"),
        ({"kraftwreck.seed": "1e3"}, "kraftwreck.seed=1e3 is not a whole number"),
        ({"kraftwreck.seed": "9" * 5000}, "is not a whole number"),
    ],
)
def test_what_cannot_be_used_is_named(change: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        server_config(GOOD | change)


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
