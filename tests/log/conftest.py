"""Batches to write."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.batch import encode_batch

LEADER = b"\0\0\0\2"
"""The key of a LeaderChange control record."""

MakeBatch = Callable[[int, int], bytes]


def make_batch(base_offset: int, epoch: int) -> bytes:
    """One batch of one to three records, the same for the same arguments.

    Of leader changes: those may begin an epoch.
    """
    count = 1 + draw_below(3, 0, base_offset, epoch)
    size = draw_below(40, 1, base_offset, epoch)
    value = f"{epoch}:{base_offset}:".encode() + b"x" * size
    return encode_batch(base_offset, epoch, 1_700_000_000_000, [(LEADER, value)] * count, True)


@pytest.fixture
def batch_at() -> MakeBatch:
    return make_batch


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A directory in memory where there is one: for tests that fsync thousands of times."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        yield Path(directory)
