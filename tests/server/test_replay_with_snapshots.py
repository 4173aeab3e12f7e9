"""A node that makes snapshots, cleans its log and is killed can be run again from its input log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kraftwreck.nodes.consensus.effects import ApiRequest, Event, Tick
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.format import Mode, format_directory
from kraftwreck.nodes.log.write_loss import WriteLossMedia
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.server.input_log import InputLog
from kraftwreck.nodes.server.line_file import Seal, encode_line
from kraftwreck.nodes.server.reexecution import Mismatch, replay
from kraftwreck.nodes.server.storage import Storage

HERE = Endpoint("127.0.0.1", 9093)


class Process:
    """One life of a single voter on a real disk in write-loss mode."""

    def __init__(self, folder: Path, config: NodeConfig, now: int) -> None:
        self.now = now
        self.inputs = InputLog(folder / "inputs.log")
        self.storage = Storage(folder / "data", 2000, media=WriteLossMedia(1e9))
        found = (config, self.storage.recovered)
        self.start = self.storage.recovered.start_offset
        self.snapshots = len(self.storage.recovered.snapshots)
        self.node = Node(*found, now, now // 1000)
        effects = self.node.start(now, now // 1000)
        self.inputs.start(*found, now, now, effects)
        self.storage.carry_out(effects)

    def step(self, event: Event, *, dies: bool = False) -> None:
        self.now += 20_000
        effects = self.node.step(event, self.now, self.now // 1000)
        self.inputs.step(event, self.now, self.now, effects)
        kept = draw_below(len(effects) + 1, self.now) if dies else len(effects)
        self.storage.carry_out(effects[:kept])

    def kill(self) -> int:
        self.storage._log.close()  # nothing is written back
        return self.now


def creation(number: int) -> ApiRequest:
    topic = {
        "name": f"t{number}",
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    body = {"topics": [topic], "timeout_ms": 1000, "validate_only": False}
    return ApiRequest(number, "CreateTopics", 7, body)


@pytest.mark.parametrize("mode", [Mode.STATIC, Mode.STANDALONE], ids=lambda mode: mode.value)
def test_replay_follows_snapshots_and_cleaning(tmp_path: Path, mode: Mode) -> None:
    listener = HERE if mode is Mode.STANDALONE else None
    meta = format_directory(
        tmp_path / "data", "c", 1, mode=mode, listener=listener, metadata_version=25
    )
    config = NodeConfig(
        1,
        "c",
        meta.directory_id,
        {1: HERE} if mode is Mode.STATIC else {},
        listener=HERE,
        seed=5,
        snapshot_bytes=1500,
        clean_interval_ms=100,
        retention_bytes=1,
        max_idle_ms=100,
    )
    now, starts, snapshots = 1000, [], []
    for life in range(1, 6):
        process = Process(tmp_path, replace(config, incarnation=life), now)
        starts.append(process.start)
        snapshots.append(process.snapshots)
        for number in range(150):
            process.step(creation(number) if number % 5 == 4 else Tick())
        process.step(creation(1000 + life), dies=True)
        now = process.kill()
    assert snapshots[0] == 1, "the bootstrap snapshot"
    assert starts == sorted(starts)
    assert starts[-1] > 0, "the log was cleaned"
    assert replay(tmp_path / "inputs.log").mismatch is None
    # And what does not follow is noticed.
    path = tmp_path / "inputs.log"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    restart = [n for n, line in enumerate(lines) if "start" in line][-1]
    lines[restart]["latest"] = "0" * 16
    seal = Seal()
    for line in lines:
        del line["sum"]
    path.write_bytes(b"".join(seal.close(encode_line(line)) + b"\n" for line in lines))
    assert replay(path).mismatch == Mismatch(
        restart + 1, "the recovered log is not what the node had written"
    )
