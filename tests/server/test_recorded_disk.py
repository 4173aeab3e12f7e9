"""The disk at a start can be derived from the effects before it, after any crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    CleanLog,
    DropSnapshot,
    Effect,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.format import format_directory
from kraftwreck.nodes.log.snapshots import footer_batch, header_batch
from kraftwreck.nodes.log.write_loss import WriteLossMedia
from kraftwreck.nodes.server.recorded_disk import RecordedDisk, recovered_to_plain
from kraftwreck.nodes.server.storage import Storage

SEGMENT = 400


def content(epoch: int) -> bytes:
    return header_batch(epoch, 0, epoch) + footer_batch(1, epoch, 0)


def written(recovered: Recovered) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(json.dumps(recovered_to_plain(recovered)))
    return line


class Author:
    """Makes the effects of one step after the other, as a node would."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.number = 0
        self.epoch = 0

    def begin(self, recovered: Recovered) -> None:
        """Go on from what a start has found."""
        headers = [parse_header(batch) for batch in recovered.batches]
        self.boundaries = [(h.last_offset + 1, h.epoch) for h in headers]
        self.start = recovered.start_offset
        self.snapshots = [file.id for file in recovered.snapshots]
        self.new_epoch = True
        self.epoch += 1

    @property
    def end(self) -> int:
        return self.boundaries[-1][0] if self.boundaries else self.start

    def append(self) -> AppendLog:
        count = 1 + draw_below(3, self.seed, "count", self.number, self.end)
        batch = encode_batch(self.end, self.epoch, 0, [(None, b"v" * 30)] * count, self.new_epoch)
        self.new_epoch = False
        self.boundaries.append((self.end + count, self.epoch))
        return AppendLog(batch)

    def snapshot(self, end: int, epoch: int) -> Iterator[Effect]:
        yield AppendSnapshot(end, epoch, 0, content(epoch)[:40])
        yield AppendSnapshot(end, epoch, 40, content(epoch)[40:])
        yield FinishSnapshot(end, epoch)
        self.snapshots.append((end, epoch))

    def step(self) -> list[Effect]:
        """Return the effects of the next step."""
        self.number += 1
        dice = draw_below(16, self.seed, "kind", self.number)
        latest = self.snapshots[-1][0] if self.snapshots else 0
        if dice < 7:
            effects: list[Effect] = [self.append() for _ in range(1 + dice % 3)]
            return [*effects, FlushLog()] if dice % 2 else effects
        if dice < 9:
            ahead = [b for b in self.boundaries if b[0] > latest]
            keep = draw_below(len(ahead), self.seed, "keep", self.number) if ahead else 0
            dropped = ahead[max(keep, len(ahead) - 3) :]
            self.boundaries = self.boundaries[: len(self.boundaries) - len(dropped)]
            self.epoch += 1
            self.new_epoch = True
            return [TruncateLog(self.end), WriteQuorumState(self.epoch, -1, 1, bytes(16), (1,))]
        if dice < 12 and self.end > latest and self.boundaries:
            return [FlushLog(), *self.snapshot(*self.boundaries[-1])]
        if dice < 13:
            return [AppendSnapshot(self.end + 9, 99, 0, b"dropped"), DropSnapshot(self.end + 9, 99)]
        if dice < 15 and latest:
            self.snapshots = [s for s in self.snapshots if s[0] >= latest]
            return [CleanLog(latest)]
        self.epoch += 1
        identity = self.end + 5, self.epoch
        effects = [*self.snapshot(*identity), InstallSnapshot(*identity)]
        self.boundaries, self.start, self.snapshots = [], identity[0], [identity]
        self.epoch += 1
        self.new_epoch = True
        return effects


@pytest.mark.parametrize("seed", range(12))
def test_every_start_after_any_crash_is_derived(tmp_path: Path, seed: int) -> None:
    """Kills in the middle of a step, and losses of power, in turn."""
    format_directory(tmp_path, "c", 1, metadata_version=25 if seed % 3 else None)
    disk = RecordedDisk()
    author = Author(seed)
    starts = set()
    for life in range(12):
        lossy = draw_below(2, seed, "lossy", life) == 1
        media = WriteLossMedia(1e9) if lossy else WriteLossMedia(-1.0)
        storage = Storage(tmp_path, SEGMENT, media=media)
        found = storage.recovered
        assert disk.recovered_as(written(found)) == Recovered(
            found.quorum_state,
            tuple(found.batches),
            found.start_offset,
            tuple(found.snapshots),
            found.latest,
        )
        starts.add(found.start_offset)
        author.begin(found)
        for _ in range(draw_below(14, seed, "steps", life)):
            effects = author.step()
            disk.carry_out(effects)
            storage.carry_out(effects)
        effects = author.step()
        disk.carry_out(effects)
        storage.carry_out(effects[: draw_below(len(effects) + 1, seed, "part", life)])
        if not lossy:
            media.close()
        storage._log.close()  # killed: nothing is written back that is not durable yet
    assert len(starts) > 2


@pytest.mark.parametrize(
    "change",
    [
        {"log_start": 1},
        {"log_end": 1},
        {"log": "0" * 16},
        {"snapshots": []},
        {"snapshots": [[3, 1, 10, 0]]},
        {"latest": "0" * 16},
    ],
)
def test_a_disk_that_lost_flushed_data_is_not_derived(change: dict[str, Any]) -> None:
    batches = [encode_batch(n, 1, 0, [(None, b"v")], n == 0) for n in range(4)]
    made = content(1)
    steps: list[list[Effect]] = [
        [AppendLog(batch) for batch in batches],
        [FlushLog(), AppendSnapshot(2, 1, 0, made), FinishSnapshot(2, 1)],
        [],
    ]

    def after_the_steps() -> RecordedDisk:
        disk = RecordedDisk()
        for effects in steps:
            disk.carry_out(effects)
        return disk

    line = written(Recovered(None, batches, 0)) | {
        "snapshots": [[2, 1, len(made), 1]],
        "latest": written(Recovered(latest=made))["latest"],
    }
    assert after_the_steps().recovered_as(line) is not None
    assert after_the_steps().recovered_as(line | change) is None
