"""The table of all runs is made from a store, and so is the one on the front page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.cli.main import status
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS
from kraftwreck.reports.store.verdict_table import BEGIN, END

ROOT = Path(__file__).resolve().parent.parent.parent
HEAD = """\
| system | workload | faults | runs | valid | INVALID | unknown | anomalies (runs) | last run |
|---|---|---|--:|--:|--:|--:|---|---|
"""
DIFFER, CYCLE = "members-differ", "G-single-item"


def add(
    store: Path, day: int, valid: Any = True, *kinds: str, running: bool = False, **test: Any
) -> None:
    """Add a run to a store."""
    stamp = f"202501{day:02}T030405.678Z-7" + (".running" if running else "")
    folder = store / "some-test" / stamp
    folder.mkdir(parents=True)
    told = {"system": "etcd", "workload": "txn", "faults": ["kill"], **test}
    (folder / "test.json").write_bytes(msgspec.json.encode(told))
    if valid is not None:
        anomalies = [{"type": kind, "explanation": "…"} for kind in kinds]
        checkers = {"members": {"valid": valid, "anomalies": anomalies}}
        results = {"valid": valid, "checkers": checkers}
        (folder / "results.json").write_bytes(msgspec.json.encode(results))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    old: dict[str, Any] = {"system_options": ["version=3.5.0"]}
    add(made, 3, False, DIFFER, DIFFER, CYCLE, **old)
    add(made, 1, False, DIFFER, **old)
    add(made, 2, True, **old)
    add(made, 4, "unknown", **old)
    add(made, 5, None, **old)
    add(made, 6, running=True)
    add(made, 7, faults=[], workload="register")
    add(made, 8, False, "aa", *"bcdef", system="kraft", faults=["kill", "pause"], mutant="M01")
    return made


ROWS = f"""\
| etcd | register | none | 1 | 1 | 0 | 0 | – | 2025-01-07 |
| etcd version=3.5.0 | txn | kill | 5 | 1 | 2 | 2 | {DIFFER} (2), {CYCLE} (1) | 2025-01-05 |
| kraft with M01 | txn | kill, pause | 1 | 0 | 1 | 0 | aa (1), b (1), c (1), d (1), 2 more | \
2025-01-08 |
"""


def test_a_store_becomes_a_table(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["table", str(store)]) == 0
    assert capsys.readouterr().out == HEAD + ROWS


def test_several_stores_are_one_table(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(tmp_path / "other", 9, faults=[], workload="register")
    assert status(["table", str(store), str(tmp_path / "other")]) == 0
    assert "| etcd | register | none | 2 | 2 | 0 | 0 | – | 2025-01-09 |" in capsys.readouterr().out


def test_the_table_of_the_front_page_is_written_by_the_command(store: Path, tmp_path: Path) -> None:
    front = (ROOT / "README.md").read_text()
    before, _, rest = front.partition(BEGIN)
    old, _, after = rest.partition(END)
    page = tmp_path / "README.md"
    page.write_text(front)
    assert status(["table", str(store), "--into", str(page)]) == 0
    assert page.read_text() == f"{before}{BEGIN}\n{HEAD}{ROWS}{END}{after}"
    assert old.startswith("\n" + HEAD), "the columns of README.md are not those of the command"
    for line in old.removeprefix("\n" + HEAD).splitlines():
        cells = line.strip("| ").split(" | ")
        assert int(cells[3]) == sum(map(int, cells[4:7])) > 0
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", cells[8])


def test_a_page_without_a_place_and_no_store_are_one_line(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n")
    assert status(["table", str(store), "--into", str(page)]) == BAD_ARGUMENTS
    assert f"{page} has no lines {BEGIN} and {END}" in capsys.readouterr().err
    assert page.read_text() == "# A page\n"
    assert status(["table", str(tmp_path / "none")]) == BAD_ARGUMENTS
    assert "no such folder" in capsys.readouterr().err
