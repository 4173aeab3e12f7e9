"""The list of runs: the files it reads, its cache, and broken files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kraftwreck.reports.run_folder import RunFolderError
from kraftwreck.reports.store import index
from kraftwreck.reports.store.entries import StoreReader
from kraftwreck.reports.store.figures import flakes_of_runs, group, page_data, workloads
from kraftwreck.reports.store.index import StoreIndex
from kraftwreck.reports.store.overview import render_overview
from tests.reports.fake_run import HOSTILE
from tests.reports.made_store import FIRST_DAY, make_night, make_run, make_store, write_json


def write_run(store: Path, name: str, **test: object) -> Path:
    """Write a run that has only a test.json."""
    folder = store / "kraft-register" / name
    write_json(folder / "test.json", {"system": "kraft", "workload": "register", **test})
    return folder


def test_runs_are_listed_newest_first_whatever_their_state(tmp_path: Path) -> None:
    done = write_run(tmp_path, "20261121T020000.000Z-7", seed=7)
    checkers = {
        "epochs": {"valid": False, "anomalies": [{"type": "I1", "explanation": "two leaders"}]},
        "committed": {"valid": "unknown", "error": "no final read"},
    }
    write_json(done / "results.json", {"valid": False, "checkers": checkers})
    (done / "report.html").touch()
    broken = write_run(tmp_path, "20261121T030000.000Z-8")
    (broken / "test.json").write_text("{torn")
    write_run(tmp_path, "20261121T040000.000Z-9.running", seed=9)
    (tmp_path / "latest").symlink_to("kraft-register/20261121T020000.000Z-7")
    runs = StoreIndex(tmp_path).runs()
    assert [(r.run[-9:], r.label) for r in runs] == [
        ("9.running", "unfinished"),
        ("00.000Z-8", "not checked"),
        ("00.000Z-7", "INVALID"),
    ]
    assert runs[1].why == "test.json cannot be read"
    assert runs[2].why == "epochs: 1 anomaly, committed: undecided"
    assert (runs[2].checker, runs[2].kind, runs[2].first) == ("epochs", "I1", "two leaders")
    assert runs[2].day == "2026-11-21"
    assert runs[2].href.endswith("-7/report.html")


def test_a_missing_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no such folder"):
        StoreIndex(tmp_path / "nothing").runs()


def test_unchanged_runs_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_store(tmp_path, 20)
    reader = StoreIndex(tmp_path)
    first = reader.runs()
    read: list[str] = []
    decode = index._decode

    def counting(path: str, largest: int, kind: type[index.T]) -> index.T:
        read.append(path)
        return decode(path, largest, kind)

    monkeypatch.setattr(index, "_decode", counting)
    assert reader.runs() == first
    assert read == []
    changed = tmp_path / first[3].path / "results.json"
    changed.write_text('{"valid": "unknown", "checkers": {}}')
    assert reader.runs()[3].valid == "unknown"
    assert len(read) == 2, "test.json and results.json of one run"
    write_run(tmp_path, "20271121T020000.000Z-7")
    assert len(reader.runs()) == 21
    assert len(read) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"faults": 3, "seed": [1]}',
        b'{"faults": [{"a": 1}], "name": {"x": 2}, "errors": "many", "healed": "late"}',
        b'{"seed": 1e999, "recovered_s": -1, "sim_s": true, "interrupted": 7}',
    ],
)  # fmt: skip
def test_a_page_is_made_for_any_test_json(tmp_path: Path, content: bytes) -> None:
    folder = write_run(tmp_path, "20261121T020000.000Z-7")
    (folder / "test.json").write_bytes(content)
    (folder / "results.json").write_bytes(content)
    reader = StoreReader(tmp_path)
    assert "20261121T020000.000Z-7" in render_overview(reader.contents(), reader.gold).text


def test_files_that_are_too_large_or_links_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    folder = write_run(store, "20261121T020000.000Z-7")
    monkeypatch.setattr(index, "LARGEST_RESULTS", 10)
    write_json(folder / "results.json", {"valid": True, "checkers": {}})
    assert StoreIndex(store).runs()[0].why == "results.json is too large to be listed"
    (folder / "results.json").rename(tmp_path / "results.json")
    (folder / "results.json").symlink_to(tmp_path / "results.json")
    assert StoreIndex(store).runs()[0].why == "no results.json"


def test_the_page_escapes_whatever_runs_call_themselves(tmp_path: Path) -> None:
    evil = HOSTILE + "\u2028'\"><img src=x onerror=alert(1)>"
    at = FIRST_DAY
    for field in ("system", "workload", "cluster", "mutant", "seed", "repeat"):
        make_run(tmp_path, 1, 1, at, name="kraft-evil", **{field: evil})
    make_run(tmp_path, 1, 2, at, name="kraft-evil", faults=[evil], errors=[evil])
    make_run(tmp_path, 1, 3, at, name="<img src=x onerror=alert(1)>")
    (tmp_path / "kraft-evil").rename(tmp_path / "<svg onload=alert(1)>")
    reader = StoreReader(tmp_path)
    text = render_overview(reader.contents(), reader.gold).text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "<svg onload" not in text
    assert "\u2028" not in text


def test_names_that_are_no_unicode_are_no_runs(tmp_path: Path) -> None:
    make_run(tmp_path, 1, 1, FIRST_DAY)
    folder = tmp_path / os.fsdecode(b"kraft-\xff") / os.fsdecode(b"run\xfe")
    write_json(folder / "test.json", {})
    reader = StoreReader(tmp_path)
    assert len(reader.contents().runs) == 1
    render_overview(reader.contents(), reader.gold).text.encode()


def test_groups_count_runs_by_verdict_and_planted_bugs_apart(tmp_path: Path) -> None:
    make_store(tmp_path, 40)
    runs = StoreIndex(tmp_path).runs()
    runs[0].valid, runs[0].mutant = False, "C02"
    groups = group(runs, workloads)
    assert sum(g.runs for g in groups) == 40
    assert sum(g.planted for g in groups) == 1
    for g in groups:
        assert g.runs == g.valid + g.invalid + g.planted + g.unknown


def test_a_flake_is_the_same_test_with_differing_verdicts(tmp_path: Path) -> None:
    make_store(tmp_path, 3)
    runs = StoreIndex(tmp_path).runs()
    first, again, other = runs
    again.system, again.workload, again.faults = first.system, first.workload, first.faults
    again.cluster, again.seed, again.repeat = first.cluster, first.seed, first.repeat
    first.valid, again.valid, other.valid = True, True, False
    assert flakes_of_runs(runs).rate == "0.0 %"
    again.valid = False
    found = flakes_of_runs(runs)
    assert (found.repeated, len(found.flaky), found.rate) == (1, 1, "100.0 %")
    again.valid = "unknown"
    assert flakes_of_runs(runs).rate == "–", "undecided is no verdict that could differ"


def test_runs_beyond_the_page_limit_are_left_out_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftwreck.reports.store.figures.MAX_ROWS", 10)
    make_store(tmp_path, 12)
    reader = StoreReader(tmp_path)
    contents = reader.contents()
    assert len(page_data(contents.runs)["rows"]) == 10
    assert "newest 10 of 12 runs" in render_overview(contents, reader.gold).text


def test_runs_of_nights_without_a_folder_count_as_well(tmp_path: Path) -> None:
    make_store(tmp_path, 5)
    make_night(tmp_path, 7, 1, FIRST_DAY, runs=60)
    runs = StoreReader(tmp_path).contents().runs
    assert len(runs) == 65, "the kept folder of the night's red is not counted twice"
    assert sum(run.path != "" for run in runs) == 6
