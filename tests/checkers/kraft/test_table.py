"""The list of invariants: complete, documented, each with a run that breaks it, none silent."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kraftwreck.checkers.kraft.invariants as invariants
from kraftwreck.checkers.kraft.invariants.table import SECTIONS, TABLE, page
from kraftwreck.checkers.kraft.rule import GROUPS
from kraftwreck.checkers.registry import check
from kraftwreck.nodes.draw import draw

HERE = Path(__file__).parent
PAGE = HERE.parent.parent.parent / "docs" / "invariants.md"


def test_every_id_of_kraft_is_listed_once() -> None:
    ids = [invariant.id for invariant in TABLE]
    wanted = [f"I{n}" for n in range(1, 30)] + ["D7"] + [f"L{n}" for n in range(1, 9)]
    wanted += [f"C{n}" for n in range(1, 17) if n not in (9, 13, 15)]
    wanted += [
        "I30",
        "I31",
        "I32",
        "I33",
        "L9",
        "L10",
        "L11",
        "L12",
        "C15",
        *(f"C{n}" for n in range(17, 25)),
    ]
    assert ids == wanted
    assert all(invariant.statement.endswith(".") for invariant in TABLE)
    assert all(invariant.checks or invariant.steps for invariant in TABLE)


def test_every_id_has_a_test_that_breaks_it() -> None:
    """A test of the name ``test_<id>_...`` in this folder, which names the id as found."""
    found: set[str] = set()
    for path in HERE.glob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                body = ast.get_source_segment(text, node) or ""
                words = node.name.upper().split("_")[1:]
                found |= {word for word in words if f'"{word}"' in body}
    missing = [invariant.id for invariant in TABLE if invariant.id not in found]
    assert missing == []


def test_the_page_has_the_tables_of_the_rules(request: pytest.FixtureRequest) -> None:
    """``pytest --rewrite`` writes them into the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name in SECTIONS:
        wanted = "\n".join(page(name))
        if request.config.getoption("--rewrite"):
            first = next(line for line in wanted.splitlines()[2:])
            row = text.index(first[: first.index("|", 2)])
            begin = text.rindex("| id |", 0, row)
            text = text[:begin] + wanted + text[text.index("\n\n", row) :]
        assert f"\n\n{wanted}\n\n" in text, name
    if request.config.getoption("--rewrite"):
        PAGE.write_text(text, encoding="utf-8")


def test_nothing_is_checked_where_there_is_nothing(make_run: Callable[..., Any]) -> None:
    result = invariants.check(make_run())
    assert result.valid == "unknown"
    assert list(result.stats["invariants"]) == [invariant.id for invariant in TABLE]
    for invariant, told in result.stats["invariants"].items():
        assert told["status"] == "not checked", invariant
        assert told["facts"] == 0 and told["why"], invariant


def test_a_judge_that_fails_makes_its_ids_unknown_and_hides_no_other(
    quorum: Any, make_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum.one_epoch()
    quorum.event("n2", "fatal", {"reason": "boom"})
    group = next(each.checks[0] for each in TABLE if each.id == "I28")
    made = {each if each is not group else _fails: ids for each, ids in GROUPS.items()}
    monkeypatch.setattr(invariants, "GROUPS", made)
    result = invariants.check(make_run(None, quorum))
    assert result.valid is False
    assert {anomaly.type for anomaly in result.anomalies} == {"I29"}
    assert "could not be judged (ValueError: no such luck)" in (result.error or "")


def _fails(evidence: Any, report: Any) -> None:
    raise ValueError("no such luck")


def test_an_anomaly_of_two_checkers_is_reported_once(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.event("n3", "truncate", {"from": 2, "to": 1}, leo=1, hw=1)
    run = make_run(None, quorum, images=[])
    verdict = check(run, ["conformance", "invariants"])
    told = [a.explanation for result in verdict.checkers.values() for a in result.anomalies]
    assert len(told) == len(set(told))
    listed = verdict.checkers["invariants"]
    assert listed.valid is False
    assert listed.stats["invariants"]["I14"]["status"] == "broken"


def test_the_order_of_the_nodes_in_the_trace_changes_nothing(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    events = list(quorum.events)
    first = invariants.check(make_run(None, quorum, ordered=False)).stats
    quorum.events = sorted(events, key=lambda e: draw(1, e.node, e.seq, e.kind) if e.seq else 0)
    quorum.events.sort(key=lambda event: event.seq)
    assert invariants.check(make_run(None, quorum, ordered=False)).stats == first
