"""The input log: exact, and good for running a node again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import (
    ApiRequest,
    AppendLog,
    Event,
    RequestReceived,
    ResponseReceived,
    Shutdown,
    Tick,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.server.input_log import InputLog, config_from_plain, config_to_plain
from kraftwreck.nodes.server.line_file import Seal, encode_line
from kraftwreck.nodes.server.plain import from_plain, to_plain
from kraftwreck.nodes.server.reexecution import Mismatch, replay

D = b"\x01" * 16
CONFIG = NodeConfig(1, "c", D, {1: Endpoint("127.0.0.1", 9093)}, seed=5)

EVENTS: list[Event] = [
    Tick(),
    Shutdown(),
    RequestReceived(7, VoteRequest(None, 2, 7, 1, D, D, 6, 40, True)),
    RequestReceived(8, BeginQuorumEpochRequest("c", 2, D, 1, 7)),
    RequestReceived(9, EndQuorumEpochRequest("c", 1, 7, ((2, D), (3, bytes(16))))),
    RequestReceived(10, FetchRequest("c", 2, D, 500, 1 << 20, 7, 40, 6, 2**63 - 1)),
    ResponseReceived(2, 4, None),
    ResponseReceived(2, 5, VoteResponse(0, 0, 1, 7, True)),
    ResponseReceived(2, 6, FetchResponse(0, 0, 1, 7, 3, 0, -1, -1, -1, -1, bytes(range(256)))),
    ApiRequest(11, "CreateTopics", 7, {"topics": [{"name": "ü", "id": D, "n": None}], "x": True}),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_events_come_back_exactly(event: Event) -> None:
    assert from_plain(json.loads(json.dumps(to_plain(event)))) == event


def test_settings_come_back_exactly() -> None:
    assert config_from_plain(json.loads(json.dumps(config_to_plain(CONFIG)))) == CONFIG


def test_unknown_input_is_refused() -> None:
    with pytest.raises(TypeError):
        to_plain({1, 2})
    with pytest.raises(ValueError, match="unknown kind"):
        from_plain({"$": "Quit"})
    with pytest.raises(ValueError, match="Tick"):
        from_plain({"$": "Tick", "surplus": 1})


class Machine:
    """A single voter with a disk that keeps what the effects say, and an input log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.batches: list[bytes] = []
        self.quorum_state: WriteQuorumState | None = None
        self.incarnation = 0
        self.now = 1000
        self.config = CONFIG

    def wipe(self, directory_id: bytes) -> None:
        """Put an empty disk in place of this one; the input log continues."""
        self.config = replace(self.config, directory_id=directory_id)
        self.batches = []
        self.quorum_state = None

    def boot(self) -> None:
        self.incarnation += 1
        plain = config_to_plain(self.config) | {"incarnation": self.incarnation}
        config = config_from_plain(plain)
        self.log = InputLog(self.path)
        recovered = (config, Recovered(self.quorum_state, list(self.batches)))
        self.node = Node(*recovered, self.now, 0)
        effects = self.node.start(self.now, 0)
        self.log.start(*recovered, self.now, 0, effects)
        self.carry_out(effects)

    def carry_out(self, effects: list[NodeEffect]) -> None:
        for effect in effects:
            if isinstance(effect, AppendLog):
                self.batches.append(effect.batch)
            elif isinstance(effect, WriteQuorumState):
                self.quorum_state = effect

    def step(self, event: Event, *, dies: bool = False) -> None:
        self.now += 10_000
        effects = self.node.step(event, self.now, self.now // 1000)
        self.log.step(event, self.now, self.now, effects)
        if not dies:
            self.carry_out(effects)

    def create(self, name: str, *, dies: bool = False) -> None:
        topic = {
            "name": name,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        body = {"topics": [topic], "timeout_ms": 1000, "validate_only": False}
        self.step(ApiRequest(1, "CreateTopics", 7, body), dies=dies)

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.step(Tick())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A node that has started twice; the last step before was not carried out."""
    machine = Machine(tmp_path / "inputs.log")
    machine.boot()
    machine.ticks(5)
    machine.create("t")
    machine.ticks(5)
    machine.create("u")
    machine.ticks(3)
    machine.boot()
    machine.create("v")
    machine.ticks(5)
    return machine


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def edited(path: Path, number: int, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a line and its seal, as an attacker who knows the format does."""
    content = lines(path)
    change(content[number - 1])
    seal = Seal()
    for line in content:
        del line["sum"]
    path.write_bytes(b"".join(seal.close(encode_line(line)) + b"\n" for line in content))


def test_a_faithful_log_replays_without_a_difference(machine: Machine) -> None:
    assert replay(machine.path).mismatch is None
    assert len(machine.batches) > 3, "the run did something"


def test_a_start_with_another_directory_id_has_an_empty_disk_of_its_own(machine: Machine) -> None:
    machine.wipe(bytes(15) + b"\x02")
    machine.boot()
    machine.create("w")
    machine.ticks(5)
    machine.boot()
    machine.ticks(5)
    assert replay(machine.path).mismatch is None


def test_an_empty_disk_under_the_old_directory_id_is_found(machine: Machine) -> None:
    machine.wipe(machine.config.directory_id)
    machine.boot()
    found = replay(machine.path).mismatch
    assert found is not None
    assert found.reason == "the recovered log is not what the node had written"


def test_a_changed_input_is_found(machine: Machine) -> None:
    creation = next(n for n, line in enumerate(lines(machine.path), 1) if "ApiReq" in str(line))
    edited(machine.path, creation, lambda line: line["event"]["body"]["topics"].clear())
    found = replay(machine.path).mismatch
    assert found is not None
    assert found.line >= creation


def test_a_changed_output_is_found(machine: Machine) -> None:
    edited(machine.path, 4, lambda line: line.update(effects="0" * 16))
    found = replay(machine.path).mismatch
    assert found is not None
    assert found.line == 4


def test_answers_about_the_metadata_are_recorded(machine: Machine) -> None:
    answers = [told for line in lines(machine.path) for told in line.get("answers", ())]
    names = [topic["name"] for _, body in answers for topic in body["topics"]]
    assert names == ["t", "u", "v"]
    assert [token for token, _ in answers] == [1, 1, 1]


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        ("Metadata", 12, {"topics": None}),
        ("ApiVersions", 3, {"client_software_name": "a", "client_software_version": "1"}),
    ],
)
def test_answers_that_are_long_or_the_same_for_all_are_not_recorded(
    machine: Machine, api: str, version: int, body: dict[str, Any]
) -> None:
    before = len(lines(machine.path))
    machine.step(ApiRequest(2, api, version, body))
    machine.ticks(3)
    assert not any("answers" in line for line in lines(machine.path)[before:])


def test_a_changed_answer_is_found(machine: Machine) -> None:
    given = next(n for n, line in enumerate(lines(machine.path), 1) if "answers" in line)
    edited(machine.path, given, lambda line: line["answers"][0][1]["topics"].clear())
    found = replay(machine.path).mismatch
    assert found is not None
    assert (found.line, "recorded" in found.reason) == (given, True)


def test_a_log_that_was_not_recovered_as_written_is_found(machine: Machine) -> None:
    restart = [n for n, line in enumerate(lines(machine.path), 1) if "start" in line][1]
    edited(machine.path, restart, lambda line: line.update(log="0" * 16))
    assert replay(machine.path).mismatch == Mismatch(
        restart, "the recovered log is not what the node had written"
    )


def test_the_wrong_log_to_start_from_is_found(machine: Machine) -> None:
    found = replay(machine.path, machine.batches).mismatch
    assert found == Mismatch(1, "the log given is not the one the node started with")


def test_a_run_can_be_replayed_from_a_log_on_disk(tmp_path: Path, machine: Machine) -> None:
    machine.path = tmp_path / "second.log"
    before = list(machine.batches)
    machine.boot()
    machine.ticks(3)
    assert replay(machine.path, before).mismatch is None


def test_a_step_cut_short_by_a_crash_is_understood(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "inputs.log")
    machine.boot()
    machine.ticks(5)
    machine.create("t", dies=True)  # in the log, but the disk never saw it
    machine.boot()
    machine.ticks(5)
    assert replay(machine.path).mismatch is None


def test_a_torn_line_is_left_out(machine: Machine) -> None:
    with machine.path.open("ab") as file:
        file.write(b'{"now": 17, "ev')
    assert replay(machine.path).mismatch is None
    machine.boot()
    machine.ticks(2)
    assert replay(machine.path).mismatch is None
    assert machine.path.read_text().count("\n") > 10


def test_files_that_are_no_input_log(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="no process start"):
        replay(tmp_path / "empty")
    (tmp_path / "other").write_bytes(Seal().close(b'{"now":1}') + b"\n")
    with pytest.raises(ValueError, match="not a process start"):
        replay(tmp_path / "other")


def test_without_a_path_nothing_is_written(tmp_path: Path) -> None:
    InputLog(None).step(Tick(), 1, 1, [])
    assert list(tmp_path.iterdir()) == []
