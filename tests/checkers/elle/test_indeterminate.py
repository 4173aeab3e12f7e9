"""Transactions that may have happened: ``info`` completions and invocations without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from checkers.elle import check_transactions
from histories.operation import Op

Build = Callable[[Sequence[tuple[Any, ...]]], list[Op]]

SEEN_IN_PART: list[tuple[Any, ...]] = [("begin", 0, "a04 a05"), (1, "r0[5]")]
ENDS: list[list[tuple[Any, ...]]] = [[], [("end", 0, "a04 a05", "info")]]


@pytest.mark.parametrize("end", ENDS, ids=["no completion", "info"])
@pytest.mark.parametrize("model", ["serializable", "strict-serializable"])
def test_append_missing_beside_a_visible_one_is_an_anomaly(
    build: Build, end: list[tuple[Any, ...]], model: str
) -> None:
    ops = build([*SEEN_IN_PART, *end])
    result = check_transactions(ops, "list-append", consistency_models=[model])
    assert result.valid is False
    assert result.stats["elle"]["anomaly-types"] == ["G-single-item"]
    assert result.stats["elle"]["not"] == ["consistent-view", "repeatable-read"]


@pytest.mark.parametrize("end", [[], [("end", 0, "ax1", "info")]], ids=["no completion", "info"])
def test_append_that_no_read_shows_may_not_have_happened(
    build: Build, end: list[tuple[Any, ...]]
) -> None:
    ops = build([("begin", 0, "ax1"), (1, "rx_"), (1, "rx_ ax2"), (1, "rx[2]"), *end])
    assert check_transactions(ops, "list-append").valid is True
