"""``kraftwreck check --report``: the page of any history."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.cli.main import status
from kraftwreck.histories.convert import write
from kraftwreck.histories.operation import Op
from kraftwreck.reports.linearization import Window, windows_of
from tests.checkers.linearizability.machines.random_machines import judged
from tests.checkers.linearizability.zones.test_registers import random_history
from tests.checkers.rows import Row, did, done, history
from tests.reports.pictured_runs import cycle_ops, stale_read_ops


def page_of(folder: Path, ops: list[Op], model: str, *options: str) -> str:
    """Check ``ops`` by the command and return the page that it writes."""
    path, page = folder / "h.jsonl", folder / "page.html"
    write(ops, path, "jsonl")
    status(["check", str(path), "--model", model, "--report", str(page), *options])
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("model", "ops", "words"),
    [
        ("cas-register", stale_read_ops(), ["INVALID", "bar ok stuck", "does not fit", "timeline"]),
        ("list-append", cycle_ops(), ["INVALID", "edge rw", "T1 must come before T2"]),
        ("stats", stale_read_ops(), ["valid", "found no anomaly in 8 operations."]),
        ("set-full", history([*done(0, "add", 1), *done(0, "read", None, [])]), ["lost"]),
    ],
)
def test_any_history_has_a_page(
    tmp_path: Path, model: str, ops: list[Op], words: list[str]
) -> None:
    page = page_of(tmp_path, ops, model)
    assert [word for word in words if word not in page] == []
    assert not re.search(r'(?:src|href)="(?!#)', page), "no other file is needed"
    for word in ("seed", "trace event", "No fault was injected", "test.json", "Downloads"):
        assert word not in page.split("<script")[0], "a history has no run"


def test_positions_are_not_shown_as_times(tmp_path: Path) -> None:
    page = page_of(tmp_path, history([*did(0, "write", 1), *did(1, "read", 2)]), "register")
    assert "INVALID" in page
    assert 'id="charts"' not in page
    assert "Show on the timeline" not in page
    assert "0.000 s" not in page


def test_hostile_texts_stay_text(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    ops = stale_read_ops()
    for op in ops:
        op.key = op.node = hostile
        op.value = None if op.value is None else f"{hostile}{op.value}"
    page = page_of(tmp_path, ops, "cas-register", "--option", f"initial={hostile}")
    assert "<script>alert" not in page
    assert page.lower().count("<script") == 4


def test_a_torn_line_is_part_of_the_page(tmp_path: Path) -> None:
    path, page = tmp_path / "h.jsonl", tmp_path / "page.html"
    write(stale_read_ops()[:4], path, "jsonl")
    path.write_text(path.read_text() + '{"process": 0, "ty')
    assert status(["check", str(path), "-m", "register", "--report", str(page)]) == 0
    said = "found no anomaly in 2 operations without line 5, which is torn."
    assert said in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{tmp}/h.jsonl", "{tmp}/h.jsonl", "--report", "{tmp}/p.html"], "is for one history"),
        (["{tmp}/run", "--report", "{tmp}/p.html"], "kraftwreck report "),
        (["{tmp}/h.jsonl", "--report", "{tmp}/no/p.html"], "no: not a directory"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "test.json").write_text("{}")
    write(stale_read_ops(), tmp_path / "h.jsonl", "jsonl")
    filled = [argument.format(tmp=tmp_path) for argument in arguments]
    assert status(["check", *filled, "--model", "cas-register"]) == 254
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_an_order_that_nothing_contradicts_is_not_shown_as_a_contradiction() -> None:
    rows = [*done(0, "append", "a"), *done(1, "append", "b"), *done(2, "read", None, ["b", "a"])]
    assert window_of("log", rows).orders == []


def test_completions_alone_are_operations(tmp_path: Path) -> None:
    txns = [[["append", a, 1], ["r", b, [1]]] for a, b in ("xy", "yx")]
    ops = history([(process, "ok", "txn", txn) for process, txn in enumerate(txns)])
    page = page_of(tmp_path, ops, "list-append")
    assert "1 anomaly in 2 operations" in page
    assert "Not found" not in page
    assert "<caption>Operations that prove it</caption>" in page


PUT, FULL = done(0, "put", "a"), done(0, "enqueue", 1)
SEEN = done(0, "txn", [["read", "x", 1]])


def window_of(model: str, rows: list[Row], **options: Any) -> Window:
    (window,) = windows_of(judged(model, rows, **options), history(rows)).values()
    return window


@pytest.mark.parametrize(
    ("model", "options", "rows"),
    [
        ("register", {"initial": 5}, [*did(0, "read", 5), *did(0, "write", 6), *did(1, "read", 5)]),
        ("key-value", {}, [*PUT, *done(0, "append", "b"), *done(1, "get", None, "b")]),
        ("fifo-queue", {}, [*FULL, *done(0, "enqueue", 2), *done(1, "dequeue", None, 2)]),
        ("lock", {"owned": True}, [*done(0, "acquire", None), *done(1, "release", None)]),
        ("multi-register", {"initial": {"x": 1}}, [*SEEN, *done(0, "txn", [["read", "x", 2]])]),
    ],
)  # fmt: skip
def test_orders_know_the_state_after_each_step(
    model: str, options: dict[str, Any], rows: list[Row]
) -> None:
    window = window_of(model, rows, **options)
    assert window.orders
    for order in window.orders:
        assert all(order.states), "the model was stepped through"
        assert order.blocked
    assert window.stuck not in window.orders[0].calls


def test_the_end_of_a_long_history_is_ordered_again() -> None:
    ops = random_history(random.Random(602), 6, 300)
    rows: list[Row] = [(op.process, op.type, op.f, op.value) for op in ops]
    for at, op in enumerate(ops):
        op.index = at
    window = window_of("cas-register", rows)
    assert window.placed > 64, "only the end of the checker's order is in its verdict"
    assert window.earlier, "operations of the contradiction that lie far back are drawn"
    for order in window.orders:
        assert all(order.states)
        assert not window.earlier & {*order.calls, *(start for start, _ in order.blocked)}
    assert window.stuck in {start for start, _ in window.orders[0].blocked}


def test_the_command_is_repeated_with_its_options(tmp_path: Path) -> None:
    ops = history([*did(0, "read", 5), *did(1, "read", 6)])
    page = page_of(tmp_path, ops, "register", "-o", "initial=5", "--format", "jsonl")
    (command,) = re.findall(r'<code id="repeat">(.*?)</code>', page)
    assert command.endswith("--option initial=5")
    assert "--format jsonl" in command
