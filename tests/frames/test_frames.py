"""Damaged frames end no node, and valid clients are answered all the same.

``--frames N`` sends N frames for each seed in place of 3,000; ``--frames-seed S`` chooses the
first seed. A failure prints both, with the number and the bytes of the last frame.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftwreck.nodes.server.listeners import SERVED
from tests.frames.cluster import CLUSTER_ID, IDS, Body, Cluster, DeathError
from tests.frames.drawing import Drawing, Known

SEEDS = 5
CHECK_EVERY = 1000
LISTENERS = {name: sorted(apis) for name, apis in SERVED.items()}


class Attack:
    """Sends frames to a cluster; ``last`` is what to print when it fails."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.seed = seed
        self.dice = random.Random(seed)
        self.number = 0
        self.last = ""
        self.answers = 0
        self.known = Known(CLUSTER_ID, IDS)
        self.known.directories = [p.directory_id for p in cluster.processes.values()]
        self.drawing = Drawing(self.dice, self.known)

    def look(self) -> None:
        """Learn what any client can."""
        process = self.dice.choice(list(self.cluster.processes.values()))
        replica, image = process.node.replica, process.node.image
        self.known.epoch = max(0, replica.epoch)
        self.known.leader = replica.leader_id
        self.known.end_offset = replica.log.end_offset
        names = sorted(image.stable.topics)[:20]
        self.known.topics = [(name, image.stable.topics[name].topic_id) for name in names]

    async def send(self) -> None:
        """Send one frame to a listener of a node."""
        node_id = self.dice.choice(IDS)
        listener = self.dice.choice(sorted(LISTENERS))
        self.look()
        frame = self.drawing.frame(LISTENERS[listener])
        self.number += 1
        self.last = f"node {node_id}, {listener}: {frame[:4000].hex()}"
        heard: list[bytes] = []
        connection, _ = self.cluster.processes[node_id].connect(listener, heard.append)
        connection.data_received(frame)
        await self.cluster.run(2)
        connection.connection_lost(None)
        self.answers += len(heard)

    def lie(self, api: str, body: Body) -> None:
        if self.dice.random() < 0.1:
            self.drawing.lie(body)

    def damage(self, data: bytes) -> bytes:
        return self.drawing.damaged(data) if self.dice.random() < 0.05 else data

    async def run(self, frames: int) -> None:
        """Send ``frames`` frames, and look again and again whether valid clients are served."""
        cluster = self.cluster
        await cluster.serves()
        for part in range(0, frames, CHECK_EVERY):
            cluster.lie, cluster.damage = self.lie, self.damage
            for _ in range(min(CHECK_EVERY, frames - part)):
                await self.send()
            cluster.lie, cluster.damage = lambda api, body: None, lambda data: data
            await cluster.serves()


def attack(directory: Path, seed: int, frames: int) -> Attack:
    """Attack a new cluster. Raises DeathError that says how to repeat it."""

    async def run() -> Attack:
        cluster = Cluster(directory)
        attacker = Attack(cluster, seed)
        try:
            await attacker.run(frames)
        except Exception as error:
            raise DeathError(
                f"{type(error).__name__}: {error}\n"
                f"frame {attacker.number} of seed {seed}, {attacker.last}\n"
                f"repeat: pytest tests/frames --frames {frames} --frames-seed {seed}"
            ) from error
        finally:
            cluster.close()
        return attacker

    return asyncio.run(run())


def first_seed(config: pytest.Config) -> int:
    return int(config.getoption("--frames-seed"))


@pytest.mark.parametrize("place", range(SEEDS))
def test_frames_end_no_node(pytestconfig: pytest.Config, tmp_path: Path, place: int) -> None:
    frames = int(pytestconfig.getoption("--frames"))
    attacker = attack(tmp_path, first_seed(pytestconfig) + place, frames)
    assert attacker.number == frames
    assert attacker.answers > frames // 4, "most frames are good enough to be answered"


def test_a_seed_repeats_the_run(tmp_path: Path) -> None:
    ends = []
    for name in ("first", "second"):
        attacker = attack(tmp_path / name, 99, 300)
        position = [
            (p.node.replica.epoch, p.node.replica.log.end_offset, sorted(p.kinds.items()))
            for p in attacker.cluster.processes.values()
        ]
        ends.append((attacker.last, attacker.answers, position))
    assert ends[0] == ends[1]


def test_a_death_is_reported_with_its_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyError("a defect")

    fail: Callable[..., None] = die
    monkeypatch.setattr("kraftwreck.nodes.metadata.answers.Answers.local", fail)
    with pytest.raises(DeathError, match=r"(?s)defect.*frame \d+ of seed 1.*--frames-seed 1"):
        attack(tmp_path, 1, 1000)
