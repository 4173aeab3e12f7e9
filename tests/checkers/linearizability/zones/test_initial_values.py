"""The initial value is a value like any other, for all kinds of values."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.checkers.calls import pair
from kraftwreck.checkers.linearizability.decide import check as search
from kraftwreck.checkers.linearizability.models import Register, freeze
from kraftwreck.checkers.linearizability.zones import searched
from kraftwreck.checkers.linearizability.zones.registers import decide
from kraftwreck.cli.main import status
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import HISTORY_SCHEMA, to_table
from tests.checkers.rows import did, history


def judged(ops: list[Op], initial: Any) -> Any:
    model = Register("cas-register", initial=initial)
    found = decide(to_table(ops, HISTORY_SCHEMA), model, initial=initial)
    return not any(verdict.outcome.valid is False for verdict in found.verdicts)


@pytest.mark.parametrize("many", [0, searched.MANY])
@pytest.mark.parametrize(
    ("seen", "initial", "valid"),
    [
        ([True], 0, False),
        ([True], True, True),
        ([True], 1, False),
        ([1], True, False),
        (["start"], 0, False),
        (["start"], "start", True),
        ([0.5], 0, False),
        ([0.5], 0.5, True),
        ([[1, {"a": None}]], [1, {"a": None}], True),
        ([7], 7, True),
        ([7], 7.0, True),
        ([2**70], 2**70, True),
        ([2**70], 2**70 + 1, False),
        ([None], 7, True),
        ([None], None, True),
        ([7], None, False),
    ],
)
def test_reads_before_any_write_see_the_initial_value(
    monkeypatch: pytest.MonkeyPatch, many: int, seen: list[Any], initial: Any, valid: bool
) -> None:
    monkeypatch.setattr(searched, "MANY", many)
    ops = history(row for value in seen for row in did(0, "read", value))
    assert judged(ops, initial) is valid


def test_a_later_write_of_another_kind_changes_nothing() -> None:
    ops = history([*did(0, "read", 7), *did(0, "write", 0.5)])
    assert judged(ops, 7)
    assert not judged(ops, 0)


KINDS: list[Any] = [0, 1, True, False, "0", "", "start", 0.5, 2**65, [0], {"a": 1}, None]


@pytest.mark.parametrize("many", [0, searched.MANY])
def test_random_histories_agree_with_the_search(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(searched, "MANY", many)
    seen = {True: 0, False: 0}
    for number in range(400):
        rnd = random.Random(number)
        values = rnd.sample(KINDS, 3)
        initial = rnd.choice(values)
        state = freeze(initial)
        rows: list[Any] = []
        for _ in range(rnd.randint(1, 6)):
            f = rnd.choice(["read", "write", "cas"])
            value = rnd.choice(values)
            if f == "read":
                agreeing = [v for v in values if freeze(v) == state]
                value = rnd.choice(agreeing or values) if rnd.random() < 0.6 else value
                rows += did(0, f, value)
            elif f == "write":
                rows += did(0, f, value)
                state = freeze(value)
            else:
                old = next((v for v in values if freeze(v) == state), value)
                rows += did(0, f, [old, value])
                state = freeze(value)
        ops = history(rows)
        expected = search(Register("cas-register", initial=initial), pair(ops)).valid
        assert judged(ops, initial) is expected, (number, initial, rows)
        seen[expected is True] += 1
    assert min(seen.values()) > 30, seen


def test_no_verdict_depends_on_the_other_files_of_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    histories: dict[str, list[tuple[str, Any, Any]]] = {
        "empty-text": [("cas", [0, ""], None), ("read", None, "")],
        "flag": [("read", None, True)],
        "text": [("read", None, "start"), ("write", "start", None), ("write", "start", None)],
        "half": [("read", None, 0), ("write", 0.5, None), ("write", 0.5, None)],
        "number": [("read", None, 0), ("write", 1, None), ("write", 1, None)],
    }
    paths = []
    for name, calls in histories.items():
        rows = [
            {"process": 0, "type": kind, "f": f, "value": seen if kind == "ok" and seen is not None
             else argument}
            for f, argument, seen in calls
            for kind in ("invoke", "ok")
        ]  # fmt: skip
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        paths.append(str(path))
    found = []
    for order in itertools.islice(itertools.permutations(paths), 0, None, 17):
        status(["check", *order, "--model", "cas-register", "--option", "initial=0", "--json"])
        lines = map(json.loads, capsys.readouterr().out.splitlines())
        found.append({line["file"]: line for line in lines})
    assert all(each == found[0] for each in found)
    valid = {Path(path).stem: report["valid"] for path, report in found[0].items()}
    assert valid == {
        "empty-text": True, "flag": False, "text": False, "half": True, "number": True,
    }  # fmt: skip
