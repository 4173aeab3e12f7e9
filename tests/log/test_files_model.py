"""MetadataLogFiles against the simplest log there is: a list of batches."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.files import MetadataLogFiles
from kraftwreck.nodes.log.layout import (
    EPOCH_CHECKPOINT,
    METADATA_DIRECTORY,
    segment_name,
    segment_offsets,
)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.batches: list[bytes] = []
        self.epoch = 1

    @initialize(segment_bytes=st.integers(1, 600))
    def open(self, segment_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        self.log = MetadataLogFiles(self.root, segment_bytes)
        assert self.log.recover() == []

    @property
    def end(self) -> int:
        return parse_header(self.batches[-1]).last_offset + 1 if self.batches else 0

    @rule(count=st.integers(1, 4), size=st.integers(0, 80), control=st.booleans())
    def append(self, count: int, size: int, control: bool) -> None:
        control = control or self.epoch > self.log.last_epoch  # only those begin an epoch
        batch = encode_batch(self.end, self.epoch, 0, [(None, b"v" * size)] * count, control)
        self.log.append(batch)
        self.batches.append(batch)

    @rule(step=st.integers(1, 3))
    def new_epoch(self, step: int) -> None:
        self.epoch += step

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        keep = data.draw(st.integers(0, len(self.batches)))
        del self.batches[keep:]
        self.log.truncate(self.end)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = MetadataLogFiles(self.root, self.segment_bytes)
        assert self.log.recover() == self.batches

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def tear(self, data: st.DataObject) -> None:
        """Cut the last file anywhere, or append garbage to it, while it is closed."""
        self.log.close()
        directory = self.root / METADATA_DIRECTORY
        last = segment_offsets(path.name for path in directory.iterdir())[-1]
        path = directory / segment_name(last)
        length = data.draw(st.integers(0, path.stat().st_size))
        if data.draw(st.booleans()):
            os.truncate(path, length)
            size = 0
            kept = [b for b in self.batches if parse_header(b).base_offset < last]
            for batch in self.batches[len(kept) :]:
                size += len(batch)
                if size > length:
                    break
                kept.append(batch)
            self.batches = kept
        else:
            with path.open("ab") as file:
                file.write(bytes(data.draw(st.integers(1, 100))))
        self.log = MetadataLogFiles(self.root, self.segment_bytes)
        assert self.log.recover() == self.batches

    @invariant()
    def offsets_and_epochs_are_those_of_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        epochs: list[tuple[int, int]] = []
        for batch in self.batches:
            header = parse_header(batch)
            if not epochs or epochs[-1][0] < header.epoch:
                epochs.append((header.epoch, header.base_offset))
        assert self.log.end_offset == self.end
        assert self.log.epochs == tuple(epochs)
        checkpoint = (self.root / METADATA_DIRECTORY / EPOCH_CHECKPOINT).read_text().split("\n")
        assert checkpoint == ["0", str(len(epochs)), *(f"{e} {o}" for e, o in epochs), ""]

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
        shutil.rmtree(self.root)


TestLogAgainstAList = LogMachine.TestCase
TestLogAgainstAList.settings = settings(
    max_examples=150,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
