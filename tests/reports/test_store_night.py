"""The report of a night: failures in plain words, and broken files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from kraftwreck.campaigns.case_file import read_case
from kraftwreck.campaigns.case_text import describe
from kraftwreck.reports.store.breaks import breaks
from kraftwreck.reports.store.entries import StoreReader
from kraftwreck.reports.store.night_page import render_night
from kraftwreck.reports.store.overview import headline
from tests.reports.fake_run import HOSTILE
from tests.reports.made_store import FIRST_DAY, make_night, make_run


def page(store: Path, name: str) -> str:
    """The page of a night."""
    made = render_night(StoreReader(store), name)
    assert made is not None
    return made.text


def nodes_of_case(store: Path, name: str) -> str:
    """The description of the nodes in the case of the first break."""
    saved = read_case(store / "nights" / name / "reds/37/shrunk.json")
    return next(iter(describe(saved.case))).partition(", seed")[0]


@pytest.fixture
def night(tmp_path: Path) -> tuple[Path, str]:
    """A store with one night: a break of the system seen twice, one each of the others."""
    return tmp_path, make_night(tmp_path, 7, 1, FIRST_DAY, runs=150)


def change(store: Path, name: str, number: int, /, **fields: Any) -> None:
    """Change a line of runs.jsonl."""
    path = store / "nights" / name / "runs.jsonl"
    rows = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    rows[number].update(fields)
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def test_the_first_screen_names_the_failure_and_how_to_repeat_it(
    night: tuple[Path, str],
) -> None:
    text = page(*night)
    head = text[: text.index("</header>")]
    assert "1 thing broke" in head
    assert "register: nonlinearizable (found by linearizable)" in head
    assert "had been overwritten by 18" in head
    first = text[text.index('id="break-1"') : text.index('id="break-2"')]
    for part in (
        "the system under test violated a guarantee", "Seed", "kraftwreck sim kraft -w register",
        "Seen", "2 times in this night", "reds/37/shrunk.json", nodes_of_case(*night),
        "kraftwreck replay", "/report.html",
    ):  # fmt: skip
        assert part in first, part


def test_reds_that_are_alike_are_one_break_and_the_clean_build_comes_first(
    night: tuple[Path, str],
) -> None:
    found = StoreReader(night[0]).night(night[1])
    assert found is not None
    all_breaks = breaks(found[1])
    assert [(b.red, b.planted, len(b.runs)) for b in all_breaks[:3]] == [
        ("system", False, 2),
        ("harness", False, 1),
        ("environment", False, 1),
    ]
    assert all(b.planted for b in all_breaks[3:])


def test_the_matrix_counts_every_run_once(night: tuple[Path, str]) -> None:
    from kraftwreck.reports.store.night_page import matrix

    found = StoreReader(night[0]).night(night[1])
    assert found is not None
    cells = [cell for row in matrix(found[1]).cells for cell in row]
    assert sum(cell.runs for cell in cells) == 150
    assert sum(cell.invalid for cell in cells) == sum(
        run.summary.valid is False for run in found[1]
    )


def test_planted_bugs_are_separate_and_missed_ones_come_first(
    night: tuple[Path, str],
) -> None:
    text = page(*night)
    table = text[text.index('id="planted"') :]
    assert table.index("M11") < table.index("C02"), "M11 is never found in this store"
    assert "2 of 3 planted bugs found" in text


def test_a_night_with_nothing_red_says_so(tmp_path: Path) -> None:
    name = make_night(tmp_path, 7, 0, FIRST_DAY, runs=4)
    assert "Nothing broke" in page(tmp_path, name)


def test_only_harness_and_machine_broke(night: tuple[Path, str]) -> None:
    for number in (37, 120):
        change(night[0], night[1], number, valid=True, run=None, **{"class": None})
    text = page(*night)
    assert "The system did not fail; 2 other failures" in text


def test_undecided_runs_are_shown_with_their_reason(tmp_path: Path) -> None:
    name = make_night(tmp_path, 7, 0, FIRST_DAY, runs=4)
    change(tmp_path, name, 2, valid="unknown", why="out of memory")
    text = page(tmp_path, name)
    assert "1 run not decided" in text
    assert "no proof either way" in text
    assert "out of memory" in text[: text.index('id="matrix"')]


def test_a_night_under_way_is_not_the_headline_until_something_breaks(tmp_path: Path) -> None:
    over = make_night(tmp_path, 7, 0, FIRST_DAY, runs=4)
    running = make_night(tmp_path, 7, 3, FIRST_DAY + timedelta(days=1), runs=4)
    path = tmp_path / "nights" / running / "night.json"
    facts = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({**facts, "state": "running", "spent_s": 0}))
    reader = StoreReader(tmp_path)
    assert headline(reader.contents().nights)[0].id == over
    assert "4 runs in 3 min" in page(tmp_path, running)
    change(tmp_path, running, 2, valid=False)
    assert headline(reader.contents().nights)[0].id == running


def test_hostile_lines_stay_text(night: tuple[Path, str]) -> None:
    store, name = night
    evil = HOSTILE + '"><img src=x onerror=alert(1)>'
    change(
        store, name, 37, why=evil, repeat=evil, system=evil, tree=evil, cluster=evil, seed=evil,
        faults=[evil], run=evil, shrunk=f"{evil}.json", workload=evil,
        failures=[{"checker": evil, "type": evil, "explanation": evil}], **{"class": evil},
    )  # fmt: skip
    facts = {"name": evil, "state": evil, "given_up": {evil: evil}, "began": evil, "spent_s": evil}
    (store / "nights" / name / "night.json").write_bytes(msgspec.json.encode(facts))
    (store / "nights" / name / "summary.md").write_text(evil)
    text = page(store, name)
    assert "<script>alert" not in text
    assert "<img" not in text


@pytest.mark.parametrize(
    "line",
    [
        b"{torn", b"[]", b"\xff", b"{}", b'{"n": "x", "faults": "kill", "seconds": "long"}',
        b'{"valid": false, "failures": [7], "at_s": [], "sim_s": true, "run": 7}',
        b'{"class": "system", "valid": null, "shrunk": 7, "n": true}',
    ],
)  # fmt: skip
def test_a_page_is_made_for_any_line(tmp_path: Path, line: bytes) -> None:
    folder = tmp_path / "nights" / "20261101T220000Z-odd"
    folder.mkdir(parents=True)
    (folder / "runs.jsonl").write_bytes(line + b"\n" + b'{"valid": true}\n')
    text = page(tmp_path, folder.name)
    assert "night.json cannot be read" in text
    assert "There is no summary.md" in text
    if not line.startswith(b'{"') and line != b"{}":
        assert "1 unreadable line left out" in text


@pytest.mark.parametrize(
    "file", ["../../../secret.json", "/etc/passwd", "reds/../../../../secret.json", "out.json"]
)
def test_a_case_outside_of_the_night_is_not_shown(night: tuple[Path, str], file: str) -> None:
    store, name = night
    secret = store / "secret.json"
    secret.write_text((store / "nights" / name / "reds/37/shrunk.json").read_text())
    (store / "nights" / name / "out.json").symlink_to(secret)
    change(store, name, 37, shrunk=file)
    text = page(store, name)
    text = text[: text.index('id="matrix"')]
    assert "The case is not shown: it is outside of the night" in text
    assert nodes_of_case(store, name) not in text


def test_a_case_that_is_none_is_said_so(night: tuple[Path, str]) -> None:
    store, name = night
    (store / "nights" / name / "reds/37/shrunk.json").write_text('{"kraftwreck_case": 99}')
    assert "is not a readable case" in page(store, name)


def test_a_night_that_is_none_has_no_page(tmp_path: Path) -> None:
    reader = StoreReader(tmp_path)
    for name in ("nothing", "..", "../..", "", "a/b"):
        assert render_night(reader, name) is None


def test_a_break_is_put_beside_the_latest_valid_run_from_before(night: tuple[Path, str]) -> None:
    store, name = night
    broken = {"system": "kraft", "workload": "register", "cluster": "sim"}
    assert "Compare with a valid run" not in page(store, name), "of this night none was kept"
    make_run(store, 7, 0, FIRST_DAY + timedelta(days=1), **broken)
    make_run(store, 7, 1, FIRST_DAY - timedelta(days=1), **{**broken, "workload": "metadata"})
    assert "Compare with a valid run" not in page(store, name), "later, or of another test"
    make_run(store, 7, 2, FIRST_DAY - timedelta(days=3), **broken)
    path = make_run(store, 7, 3, FIRST_DAY - timedelta(days=2), **broken)
    text = page(store, name)
    assert f"b={quote(path, safe='')}" in text[: text.index("Compare with a valid run")][-400:]
