"""The ``format`` command: which first voters a node is given, as Kafka's kafka-storage does it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from kraftwreck.nodes.log.format import FormatError
from kraftwreck.nodes.log.snapshots import data_records, read_header
from kraftwreck.nodes.log.uuids import from_text, random_uuid, to_text
from kraftwreck.nodes.protocol.records import decode_record
from kraftwreck.nodes.server.addresses import ConfigError
from kraftwreck.nodes.server.formatting import add_format_options, format_node
from kraftwreck.nodes.server.properties import ServerConfig, server_config

CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
STATIC = {"controller.quorum.voters": "1@h:9093"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "h:9093"}
D1, D2 = (to_text(random_uuid()) for _ in range(2))


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_format_options(parser)
    return parser.parse_args(words)


def config(directory: Path, quorum: dict[str, str], roles: str = "controller") -> ServerConfig:
    listeners = {"controller": "CONTROLLER://h:9093", "broker": "PLAINTEXT://h:9092"}
    values = {
        "process.roles": roles,
        "node.id": "1" if "controller" in roles else "7",
        "cluster.id": "c",
        "listeners": ",".join(listeners[role] for role in roles.split(",")),
        "log.dirs": str(directory / "data"),
    }
    return server_config(values | quorum)


def voters(directory: Path) -> list[tuple[int, bytes]]:
    """Return (id, directory id) of the voters the bootstrap snapshot begins with."""
    header = read_header((directory / "data" / CHECKPOINT).read_bytes())
    assert header.kraft_version == 1
    return [(v["voter_id"], v["voter_directory_id"]) for v in header.voters or ()]


def test_a_static_quorum_needs_no_bootstrap_snapshot(tmp_path: Path) -> None:
    format_node(config(tmp_path, STATIC), options())
    assert not (tmp_path / "data" / CHECKPOINT).exists()


def test_a_standalone_controller_is_the_only_voter(tmp_path: Path) -> None:
    meta = format_node(config(tmp_path, DYNAMIC), options("--standalone"))
    assert voters(tmp_path) == [(1, meta.directory_id)]


def test_initial_controllers_get_the_directories_named(tmp_path: Path) -> None:
    text = f"1@h:9093:{D1},2@i:9093:{D2}"
    meta = format_node(config(tmp_path, DYNAMIC), options("--initial-controllers", text))
    assert meta.directory_id == from_text(D1)
    assert voters(tmp_path) == [(1, from_text(D1)), (2, from_text(D2))]


@pytest.mark.parametrize(
    ("quorum", "roles", "words"),
    [
        (DYNAMIC, "controller", ["--no-initial-controllers"]),
        (DYNAMIC, "broker", []),
        (DYNAMIC, "broker", ["--no-initial-controllers"]),
        (STATIC, "broker", []),
    ],
)
def test_a_node_that_joins_later_begins_without_a_snapshot(
    tmp_path: Path, quorum: dict[str, str], roles: str, words: list[str]
) -> None:
    format_node(config(tmp_path, quorum, roles), options(*words))
    assert not (tmp_path / "data" / CHECKPOINT).exists()


@pytest.mark.parametrize(
    ("text", "level"), [("4.0", 25), ("4.0-IV1", 23), ("3.3-IV3", 7), ("4.1", 27), ("14", 14)]
)
def test_the_release_version_is_the_metadata_version_to_begin_with(
    tmp_path: Path, text: str, level: int
) -> None:
    format_node(config(tmp_path, STATIC), options("--release-version", text))
    content = (tmp_path / "data" / CHECKPOINT).read_bytes()
    [(name, _, fields)] = [decode_record(record) for record in data_records(content)]
    assert name == "FeatureLevelRecord"
    assert fields == {"name": "metadata.version", "feature_level": level}


@pytest.mark.parametrize(
    ("quorum", "roles", "words", "reason"),
    [
        (STATIC, "controller", ["--standalone"], "controller.quorum.voters does not fix"),
        (DYNAMIC, "controller", [], "one of --standalone, --initial-controllers"),
        (DYNAMIC, "broker", ["--standalone"], "is for controllers, this is a broker"),
        (
            DYNAMIC,
            "controller",
            ["--initial-controllers", f"2@h:1:{D1}"],
            "node 1 is not among --initial-controllers",
        ),
        (DYNAMIC, "controller", ["--initial-controllers", "1@h:1"], "is not id@host:port:dir"),
        (STATIC, "controller", ["--release-version", "5.9"], "--release-version 5.9 is not known"),
        (STATIC, "controller", ["--release-version", "99"], "metadata.version 99 is not 7 to 27"),
    ],
)
def test_contradictory_options_are_refused(
    tmp_path: Path, quorum: dict[str, str], roles: str, words: list[str], reason: str
) -> None:
    with pytest.raises((ConfigError, FormatError), match=reason):
        format_node(config(tmp_path, quorum, roles), options(*words))
    assert not (tmp_path / "data").exists()
