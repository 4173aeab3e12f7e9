"""Pages with an analysis and without one, and parts of an analysis that they refuse."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kraftwreck.reports.store.compare import render_compare
from kraftwreck.reports.store.coverage import Asked, Reached, all_classes, pairs_map, struck_map
from kraftwreck.reports.store.coverage_data import coverage_data
from kraftwreck.reports.store.entries import StoreReader
from kraftwreck.reports.store.gold import Gold
from kraftwreck.reports.store.overview import render_overview
from tests.reports.fake_run import HOSTILE, write_fake_run
from tests.reports.made_store import make_store, reached, write_gold, write_json


def overview(store: Path) -> str:
    """The first page."""
    reader = StoreReader(store)
    return render_overview(reader.contents(), reader.gold).text


def test_without_an_analysis_the_page_names_the_missing_table(tmp_path: Path) -> None:
    text = overview(make_store(tmp_path / "store", 3))
    assert "There is no analysis of this store: run kraftwreck analyze store" in text
    assert "This needs the table recovery_by_fault of the analysis, which is missing" in text
    assert "no coverage.json in runs or nights" in text
    assert "only the analysis knows" in text


def test_tables_of_the_analysis_are_shown(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", 3)
    paths = [run.path for run in StoreReader(store).contents().runs]
    recovery = {
        "system": "kraft", "kind": "kill", "shape": "leader", "simulated": False, "faults": 9,
        "healed": 8, "recovered": 7, "failover_p50_s": 1.0, "failover_p95_s": 2.0,
        "recovery_p50_s": 0.5, "recovery_p95_s": 3.25, "recovery_max_s": None,
    }  # fmt: skip
    flake = {
        "test_key": "k", "tree": "t", "system": "kraft", "workload": HOSTILE, "cluster": "netns",
        "seed": 4, "runs": 2, "valid": 1, "invalid": 1, "unknown": 0, "flaky": True,
        "last_run": paths[0], "repeat": "kraftwreck run",
    }  # fmt: skip
    gone = {
        "run": "kraft-register/20260101T000000.000Z-5", "system": "kraft", "valid": "false",
        "workload": "register", "faults": ["kill"], "cluster": "sim", "seed": 5,
        "day": "2026-01-01", "class": "system", "first_anomaly": "I1", "seconds": 9.5,
    }  # fmt: skip
    items = [
        {"run": path, "counter": "follows", "item": "kill/leader > pause/one"} for path in paths
    ]
    write_gold(
        store,
        {
            "recovery_by_fault": [recovery],
            "flakes": [flake, {**flake, "flaky": False}],
            "runs": [gone],
            "coverage": items,
        },
        [*paths, "kraft-register/20260101T000000.000Z-5"],
        staged="flakes",
    )
    text = overview(store)
    assert "kill/leader" in text
    assert "3.25 s" in text
    assert "50.0 %" in text
    assert "same options, seed and code" in text
    assert "2026-01-01" in text, "a run whose folder is gone stays in the trend"
    assert "the analysis of 3 runs" in text
    assert "kill, pause: 1 of 49 reached" in text
    assert HOSTILE not in text


def test_service_and_latency_of_runs_come_from_the_analysis(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", 3)
    assert "Service and latency are only known for analyzed runs" in overview(store)
    runs = StoreReader(store).contents().runs
    rows = [
        {"run": run.path, "system": "kraft", "availability": 0.25 * n, "p99_ms": 10.0 * n}
        for n, run in enumerate(runs, start=1)
    ]
    write_gold(store, {"runs": rows}, [run.path for run in runs])
    reader = StoreReader(store)
    found = {run.path: (run.availability, run.p99_ms) for run in reader.contents().runs}
    assert found == {row["run"]: (row["availability"], row["p99_ms"]) for row in rows}
    text = overview(store)
    assert "only known for analyzed runs" not in text
    assert "50.0 %" in text
    (store / "analysis" / "manifest.json").unlink()
    assert all(run.p99_ms is None for run in reader.contents().runs), "as long as it is there"


def test_coverage_is_known_per_test(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", 8)
    runs = StoreReader(store).contents().runs
    told, counted = runs[:4], runs[4:6]
    items = [
        {"run": run.path, "counter": "follows", "item": "kill/one > pause/one"} for run in told
    ]
    items += [{"run": told[0].path, "counter": "struck", "item": "leader kill/one"}]
    items += [{"run": told[0].path, "counter": "steps", "item": "a > b"}]
    write_gold(store, {"coverage": items}, [run.path for run in told])
    for run in counted:
        counters = {"runs": 1, "follows": {"kill/one > kill/one": 1}, "struck": {}}
        write_json(store / run.path / "coverage.json", counters)
    found = StoreReader(store).contents().reached
    assert sum(part.runs for part in found.parts.values()) == found.runs == 6
    for run in told:
        assert ("kill/one", "pause/one") in found.parts[Asked.of(run)].pairs
    assert found.parts[Asked.of(told[0])].struck == {("leader", "kill/one")}
    for run in counted:
        assert ("kill/one", "kill/one") in found.parts[Asked.of(run)].pairs


@pytest.mark.parametrize("content", ["", "[7]", "{}", '[{"runs": "x"}]', '[{"faults": 3}]', None])
def test_a_night_without_test_names_counts_only_without_a_filter(
    tmp_path: Path, content: str | None
) -> None:
    store = make_store(tmp_path / "store", 2, nights=1)
    file = next(store.glob("nights/*/coverage_by_test.json"))
    file.unlink() if content is None else file.write_text(content)
    found = StoreReader(store).contents().reached
    assert set(found.parts) == {None}
    names = all_classes(found, [])
    data = coverage_data(found, names)
    assert (data["tests"], data["untold"]) == ([], found.runs)


def test_bits_of_the_page_are_the_pairs_that_were_met() -> None:
    found = Reached()
    test = Asked("kraft", "register", ("kill",), "sim", False)
    found.add({"b > a": 1}, {"leader b": 1})
    found.add_part(test, 3, {"b > a": 1}, {"leader b": 1})
    data = coverage_data(found, ["a", "b"])
    assert data["states"] == ["leader"]
    [row] = data["tests"]
    assert row[:6] == ["kraft", "register", ("kill",), "sim", 0, 3]
    assert [b64decode(text) for text in row[6:]] == [bytes([1 << 2]), bytes([1 << 1])]


@pytest.mark.parametrize(
    "file", ["../../secret.parquet", "/etc/passwd", "gold/link.parquet", "gold/torn.parquet"]
)
def test_files_that_are_no_tables_of_the_analysis_are_refused(tmp_path: Path, file: str) -> None:
    store = make_store(tmp_path / "store", 1)
    folder = store / "analysis" / "gold"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"system": ["SECRET"]}), tmp_path / "secret.parquet")
    (folder / "link.parquet").symlink_to(tmp_path / "secret.parquet")
    (folder / "torn.parquet").write_bytes(b"PAR1")
    tables = {"gold/recovery_by_fault": [file]}
    write_json(store / "analysis" / "manifest.json", {"tables": tables})
    text = overview(store)
    assert "Table recovery_by_fault cannot be read" in text
    assert "SECRET" not in text


@pytest.mark.parametrize("content", ["", "[]", "{torn", '{"tables": 7}', '{"schema": "x"}'])
def test_a_broken_manifest_is_reported(tmp_path: Path, content: str) -> None:
    store = make_store(tmp_path / "store", 1)
    (store / "analysis").mkdir()
    (store / "analysis" / "manifest.json").write_text(content)
    assert "analysis/manifest.json cannot be read" in overview(store)


def test_an_analysis_is_read_again_when_it_changed(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", 1)
    gold = Gold(store)
    gold.refresh()
    assert gold.rows("quarantine", ["run"]) is None
    write_gold(store, {"quarantine": [{"run": "a", "reason": "b"}]}, [])
    gold.refresh()
    assert gold.rows("quarantine", ["run", "reason"]) == [{"run": "a", "reason": "b"}]
    assert gold.quarantined == {"kraft-x/bad": f"torn {HOSTILE}"}
    assert gold.notes == []


def test_coverage_of_runs_is_read_from_their_own_files_where_nothing_else_has_it(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path / "store", 4)
    runs = StoreReader(store).contents().runs
    for run in runs[:2]:
        write_json(store / run.path / "coverage.json", reached(3, 1))
    (store / runs[2].path / "coverage.json").write_text("{torn")
    found = StoreReader(store).contents().reached
    assert found.runs == 2
    assert found.pairs


def test_a_heat_map_counts_pairs_of_shapes() -> None:
    found = Reached(runs=3)
    found.add(
        {"kill/one > pause/one": 2, "kill/all > pause/one": 1, "odd": 4},
        {"leader kill/one": 3, "down pause/one": 1, "odd": 1},
    )
    pairs = pairs_map(found, ["kill/one", "kill/all", "pause/one"])
    assert (pairs.rows, pairs.met, pairs.possible) == (["kill", "pause"], 2, 9)
    assert [[(c.met, c.possible, c.level) for c in row] for row in pairs.cells] == [
        [(0, 4, 0), (2, 2, 5)],
        [(0, 2, 0), (0, 1, 0)],
    ]
    assert pairs.never == ["kill then kill", "pause then kill", "pause then pause"]
    struck = struck_map(found, ["kill/one", "kill/all", "pause/one"])
    assert struck.columns == ["leader", "down"]
    assert [[c.met for c in row] for row in struck.cells] == [[1, 0], [0, 1]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two whole runs, one of them invalid and with hostile names."""
    store = tmp_path_factory.mktemp("pair") / "store"
    write_fake_run(store / "kraft-register" / "20261122T020000.000Z-0", invalid=True)
    write_fake_run(store / "kraft-register" / "20261122T020001.000Z-1", invalid=False)
    return store


A, B = "kraft-register/20261122T020000.000Z-0", "kraft-register/20261122T020001.000Z-1"


def test_two_runs_are_laid_side_by_side(pair: Path) -> None:
    made = render_compare(StoreReader(pair), A, B)
    assert made is not None
    text = made.text
    assert "<script" not in text
    service = text[text.index('id="service"') :]
    assert "all: operations" in service
    assert "p50" in service
    assert "p99" in service
    assert "This needs the table availability of the analysis" in text
    assert text.count('class="band ') >= 6
    options = text[text.index('id="options"') :]
    assert "mutant" in options
    assert "schedule" not in options


def test_seconds_with_service_come_from_the_analysis(pair: Path) -> None:
    window = {
        "run": A, "fault_window": "kill", "seconds": 20, "available_s": 5, "availability": 0.25,
        "invoked": 9, "ok": 3,
    }  # fmt: skip
    write_gold(pair, {"availability": [window]}, [A, B])
    made = render_compare(StoreReader(pair), A, B)
    assert made is not None
    assert "25.0 % (5 of 20 s)" in made.text
    assert "This needs the table availability" not in made.text


def test_the_figures_of_a_history_are_right(tmp_path: Path) -> None:
    from kraftwreck.reports.store.service import service

    lines = [
        (0, "invoke", "read", 0), (1, "invoke", "write", 0), (0, "ok", "read", 2_000_000),
        (1, "info", "write", 5_000_000), (0, "invoke", "read", 1_500_000_000),
        (0, "fail", "read", 1_501_000_000), (2, "invoke", "read", 2_000_000_000),
        (2, "ok", "read", 2_004_000_000), (3, "invoke", "write", 2_000_000_001),
    ]  # fmt: skip
    text = "\n".join(
        f'{{"index":{i},"process":{p},"type":"{t}","f":"{f}","time":{time}}}'
        for i, (p, t, f, time) in enumerate(lines)
    )
    (tmp_path / "history.jsonl").write_text(text + '\n{"index": 9, "proc')
    found = service(tmp_path)
    assert found.note == ""
    row = found.rows["read"]
    assert (row.ok, row.fail, row.info) == (2, 1, 0)
    assert row.quantiles[0] == pytest.approx(3000)
    assert row.quantiles[3] == pytest.approx(4000)
    assert found.rows["write"].counts == "0 ok, 0 fail, 2 info"
    assert (found.invoked, found.ok) == ([2, 1, 2], [1, 0, 1])
    assert found.availability == "66.7 % (2 of 3 s)"


@pytest.mark.parametrize(
    ("a", "b"),
    [("", ""), (A, ""), (A, "../x"), ("/etc", "/etc"), (A, "kraft-register"), ("nights", A)],
)
def test_folders_without_a_run_cannot_be_compared(pair: Path, a: str, b: str) -> None:
    assert render_compare(StoreReader(pair), a, b) is None


@pytest.mark.parametrize("content", [b"", b"{torn\n{}\n", b"\xff\xfe\n\n{}", b"[]\n[]"])
def test_a_broken_history_and_broken_faults_are_reported(tmp_path: Path, content: bytes) -> None:
    store = make_store(tmp_path / "store", 2)
    first, second = (run.path for run in StoreReader(store).contents().runs)
    (store / first / "history.jsonl").write_bytes(content)
    (store / first / "faults.jsonl").write_bytes(content)
    made = render_compare(StoreReader(store), first, second)
    assert made is not None
    assert "There is no history" in made.text
    if content:
        assert "The history cannot be read" in made.text
