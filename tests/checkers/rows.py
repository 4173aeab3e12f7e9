"""Histories as rows (process, type, f, value), one per event, as a test writes them down."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftwreck.histories.operation import Op

Row = tuple[int, str, str, Any]


def history(rows: Iterable[Row]) -> list[Op]:
    """Return the rows as events; indices and times count them."""
    return [
        Op(index=at, process=process, type=kind, f=f, value=value, time=at)  # type: ignore[arg-type]  # a literal
        for at, (process, kind, f, value) in enumerate(rows)
    ]


def done(process: int, f: str, asked: Any, saw: Any = ...) -> list[Row]:
    """An operation during which nothing else happens; it is answered with what it asked."""
    return [(process, "invoke", f, asked), (process, "ok", f, asked if saw is ... else saw)]


def did(process: int, f: str, value: Any) -> list[Row]:
    """As :func:`done`, of a register: what a read asks is not told, ``value`` is its answer."""
    return done(process, f, None if f == "read" else value, value)
