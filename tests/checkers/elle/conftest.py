"""Histories of transactions written by hand, shortly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kraftwreck.histories.operation import Op, OpType

Mop = tuple[str, Any, Any]
Written = tuple[Any, ...]
Build = Callable[[Sequence[Written]], list[Op]]


def mops(text: str) -> list[list[Any]]:
    """Read ``"ax1 rx[1,2] wy3 ry_"``: appends, reads, writes of one-letter keys."""
    found: list[list[Any]] = []
    for word in text.split():
        f, key, value = word[0], word[1], word[2:]
        if value == "_":
            seen: Any = None
        elif value.startswith("["):
            seen = [int(item) for item in value[1:-1].split(",") if item]
        else:
            seen = int(value)
        found.append([{"a": "append", "w": "w", "r": "r"}[f], key, seen])
    return found


def _asked(value: list[list[Any]]) -> list[list[Any]]:
    return [[f, key, None if f == "r" else item] for f, key, item in value]


def history(lines: Sequence[Written]) -> list[Op]:
    """Return the operations of ``lines``.

    ``(process, text)`` is a committed transaction during which nothing else begins or ends,
    ``(process, text, "fail" | "info")`` one that ended so. ``("begin", process, text)`` and
    ``("end", process, text[, type])`` are one event each.
    """
    ops: list[Op] = []

    def add(process: int, kind: OpType, value: list[list[Any]]) -> None:
        at = len(ops)
        ops.append(Op(index=at, process=process, type=kind, f="txn", value=value, time=at * 1000))

    for line in lines:
        if line[0] == "begin":
            add(line[1], "invoke", _asked(mops(line[2])))
        elif line[0] == "end":
            add(line[1], line[3] if len(line) > 3 else "ok", mops(line[2]))
        else:
            add(line[0], "invoke", _asked(mops(line[1])))
            kind: OpType = line[2] if len(line) > 2 else "ok"
            add(line[0], kind, mops(line[1]) if kind == "ok" else _asked(mops(line[1])))
    return ops


@pytest.fixture
def build() -> Build:
    """Return :func:`history`."""
    return history
