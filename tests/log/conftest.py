"""Batches to write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodes.draw import draw_below
from nodes.log.batch import encode_batch

MakeBatch = Callable[[int, int], bytes]


def make_batch(base_offset: int, epoch: int) -> bytes:
    """One batch of one to three records, the same for the same arguments."""
    count = 1 + draw_below(3, 0, base_offset, epoch)
    size = draw_below(40, 1, base_offset, epoch)
    value = f"{epoch}:{base_offset}:".encode() + b"x" * size
    return encode_batch(base_offset, epoch, 1_700_000_000_000, [(None, value)] * count, False)


@pytest.fixture
def batch_at() -> MakeBatch:
    return make_batch
