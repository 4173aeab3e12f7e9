"""A causal order of five operations, and each way to break it."""

from __future__ import annotations

from typing import Any

import pytest

from kraftwreck.checkers.catalogue import Settings, find
from kraftwreck.histories.events import Event
from kraftwreck.histories.source import Events

GOOD: list[tuple[str, Any, Any, Any]] = [
    ("read-init", 0, 1, "init"),
    ("write", 1, 2, 1),
    ("read", 1, 3, 2),
    ("write", 2, 4, 3),
    ("read", 2, 5, 4),
]


def judged(steps: list[tuple[str, Any, Any, Any]]) -> Any:
    events = [
        Event(
            index=number,
            process=0,
            type="ok",
            f=f,
            value=value,
            time=number,
            fields={"position": position, "link": link},
        )
        for number, (f, value, position, link) in enumerate(steps)
    ]
    return find("causal").judge(Events(events), Settings()).details


def test_a_causal_order() -> None:
    assert judged(GOOD)["valid?"] is True


@pytest.mark.parametrize(
    ("at", "step", "said"),
    [
        (0, ("read-init", 7, 1, "init"), "expected init value 0, read 7"),
        (1, ("write", 2, 2, 1), "expected value 1 attempting to write 2 instead"),
        (2, ("read", 0, 3, 2), "can't read 0 from register 1"),
        (3, ("write", 2, 4, 1), "Cannot link 1 to last-seen position 3"),
    ],
)
def test_violations_of_the_causal_order(
    at: int, step: tuple[str, Any, Any, Any], said: str
) -> None:
    assert judged([*GOOD[:at], step, *GOOD[at + 1 :]])["error"] == said


def test_exceptions_are_counted_by_class() -> None:
    def failed(index: int, kind: str) -> Event:
        fields = {"exception": {"via": [{"type": kind}]}}
        return Event(index=index, process=0, type="info", f="x", time=0, fields=fields)

    events = [failed(1, "A"), failed(2, "B"), failed(3, "B")]
    details = find("UnhandledExceptions").judge(Events(events), Settings()).details
    assert details == {
        "valid?": True,
        "exceptions": [
            {"count": 2, "class": "B", "example": {"op-index": 2}},
            {"count": 1, "class": "A", "example": {"op-index": 1}},
        ],
    }
