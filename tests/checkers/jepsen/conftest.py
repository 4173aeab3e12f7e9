"""Histories as lists of ``(process, type, f, value)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.catalogue import Report, Settings, find, options_of
from kraftwreck.histories.events import Event
from kraftwreck.histories.source import Events

Row = tuple[Any, str, str, Any]
Judge = Callable[..., Report]


@pytest.fixture
def judge() -> Judge:
    """Judge rows by a model: one millisecond from event to event."""

    def judged(model: str, rows: list[Row], *, independent: bool = False, **options: Any) -> Report:
        events = [
            Event(
                index=position,
                process=process,
                type=kind,  # type: ignore[arg-type]  # spelt out in the tests
                f=f,
                value=value,
                time=position * 1_000_000,
            )
            for position, (process, kind, f, value) in enumerate(rows)
        ]
        if independent:
            for event in events:
                if isinstance(event.value, list):
                    event.key, event.value = event.value
        entry = find(model)
        given = {name.replace("_", "-"): value for name, value in options.items()}
        return entry.judge(
            Events(events), Settings(options=options_of(entry, given), independent=independent)
        )

    return judged


@pytest.fixture
def done() -> Callable[..., list[Row]]:
    """Make the two events of an operation that ended ``ok``."""

    def rows(process: int, f: str, value: Any, saw: Any = ...) -> list[Row]:
        seen = value if saw is ... else saw
        return [(process, "invoke", f, None if saw is not ... else value), (process, "ok", f, seen)]

    return rows
