"""Spark computes over run folders the results of the checkers in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.linearizability.keyed import check_keys, model_of, operations_of
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import check
from kraftwreck.cli import analyze
from kraftwreck.cli.main import status
from kraftwreck.histories.operation import OK
from kraftwreck.pipeline.gold import read
from kraftwreck.pipeline.schemas import GOLD, LOSSES, PER_RUN, SILVER

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark")]


def rows(store: Path, table: str, run: Path | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(store, table).to_pylist()
    if run is None:
        return found
    name = "/".join(run.parts[-2:])
    return [row for row in found if row["run"] == name]


def word(valid: Any) -> str:
    return str(valid).lower()


@pytest.mark.parametrize("name", ["register", "metadata", "bad"])
def test_verdicts_are_the_checkers_own(analyzed: Any, name: str) -> None:
    run = analyzed.runs[name]
    data = RunData.from_folder(run)
    verdict = check(data, data.test["checkers"])
    expected = {
        (checker, word(result.valid), result.error, len(result.anomalies))
        for checker, result in verdict.checkers.items()
    }
    found = rows(analyzed.store, "verdicts", run)
    assert {(r["checker"], r["valid"], r["error"], r["anomalies"]) for r in found} == expected
    assert verdict.valid is (name != "bad")


@pytest.mark.parametrize("name", ["register", "bad"])
def test_keys_are_judged_by_the_same_search(analyzed: Any, name: str) -> None:
    run = analyzed.runs[name]
    data = RunData.from_folder(run)
    verdicts = check_keys(model_of(data.test), operations_of(data.calls))
    expected = {v.key: (word(v.outcome.valid), v.count) for v in verdicts}
    found = {r["key"]: (r["valid"], r["operations"]) for r in rows(analyzed.store, "keys", run)}
    assert found == expected
    assert len(expected) > 1


def test_the_planted_violations_are_seen_by_both(analyzed: Any) -> None:
    run = analyzed.runs["bad"]
    (key,) = [r for r in rows(analyzed.store, "keys", run) if r["valid"] == "false"]
    assert "read → 987654321" in key["explanation"]
    doubled = [r for r in rows(analyzed.store, "leaders", run) if r["count"] > 1]
    assert len(doubled) == 1
    assert len(doubled[0]["leaders"]) == 2
    data = RunData.from_folder(run)
    verdict = check(data, ["linearizable", "invariants"])
    assert verdict.checkers["linearizable"].stats["invalid_keys"] == [key["key"]]
    assert f"Epoch {doubled[0]['epoch']} has two leaders" in str(verdict.checkers["invariants"])
    assert analyzed.summary["invalid"] == ["/".join(run.parts[-2:])]
    assert analyzed.summary["invalid_keys"] == 1
    assert analyzed.summary["epochs_with_two_leaders"] == 1


def test_lost_commits_match_the_checkers_findings(analyzed: Any) -> None:
    expected = {
        ("/".join(run.parts[-2:]), anomaly.type, anomaly.explanation)
        for run in analyzed.runs.values()
        for anomaly in _committed(RunData.from_folder(run))
    }
    found = rows(analyzed.store, "lost_commits")
    assert {(r["run"], r["anomaly"], r["explanation"]) for r in found} == expected


def _committed(data: RunData) -> Any:
    verdict = check(data, data.test["checkers"])
    return [
        anomaly
        for name, result in verdict.checkers.items()
        for anomaly in result.anomalies
        if name == "topics" or anomaly.type in LOSSES
    ]


def test_leaders_per_epoch_are_those_of_the_traces(analyzed: Any) -> None:
    run = analyzed.runs["metadata"]
    expected: dict[int, set[str]] = {}
    for event in RunData.from_folder(run).events:
        if event.state == "leader":
            expected.setdefault(event.epoch, set()).add(event.node)
    found = rows(analyzed.store, "leaders", run)
    assert {r["epoch"]: set(r["leaders"]) for r in found} == expected


def test_operations_per_second_add_up(analyzed: Any) -> None:
    run = analyzed.runs["metadata"]
    calls = RunData.from_folder(run).calls
    expected: dict[tuple[int, str], int] = {}
    for call in calls:
        place = (call.invoked // 1_000_000_000, call.f)
        expected[place] = expected.get(place, 0) + 1
    found = rows(analyzed.store, "rates", run)
    assert {(r["second"], r["f"]): r["invoked"] for r in found} == expected
    assert sum(r["ok"] for r in found) == sum(c.type == OK for c in calls)
    assert all(r["invoked"] == r["ok"] + r["fail"] + r["info"] for r in found)


def test_latency_quantiles_per_second_and_fault_window(analyzed: Any) -> None:
    run = analyzed.runs["register"]
    data = RunData.from_folder(run)
    done = [call for call in data.calls if call.type == OK]
    by_second = rows(analyzed.store, "latency", run)
    for row in by_second:
        own = [c for c in done if c.f == row["f"] and c.invoked // 10**9 == row["second"]]
        _same_quantiles(row, own)
    by_window = rows(analyzed.store, "latency_by_fault", run)
    assert sum(r["count"] for r in by_window) == sum(r["count"] for r in by_second) == len(done)
    assert {r["fault_window"] for r in by_window} > {"none"}, "some operations met a fault"


def _same_quantiles(row: dict[str, Any], own: list[Call]) -> None:
    latencies = [((c.completed or 0) - c.invoked) / 1e6 for c in own]
    assert row["count"] == len(latencies)
    for name, quantile in (("p50_ms", 50), ("p95_ms", 95), ("p99_ms", 99), ("max_ms", 100)):
        assert row[name] == pytest.approx(float(np.percentile(latencies, quantile)))


def test_availability_counts_seconds_with_a_success(analyzed: Any) -> None:
    run = analyzed.runs["register"]
    calls = RunData.from_folder(run).calls
    found = rows(analyzed.store, "availability", run)
    assert sum(r["invoked"] for r in found) == len(calls)
    for row in found:
        assert row["availability"] == pytest.approx(row["available_s"] / row["seconds"])
    (quiet,) = [r for r in found if r["fault_window"] == "none"]
    assert quiet["availability"] > 0.5


def test_the_tables_of_one_run_are_its_part_of_the_stores(analyzed: Any) -> None:
    run = analyzed.runs["register"]
    for name, schema in PER_RUN.items():
        own = pq.read_table(run / "analysis" / f"{name}.parquet")
        assert own.schema.equals(schema)
        of_store = rows(analyzed.store, name, run)
        assert sorted(map(str, own.to_pylist())) == sorted(map(str, of_store)), name


def test_every_table_is_there_in_its_schema(analyzed: Any) -> None:
    for name, schema in {**GOLD, **{f"silver/{n}": s for n, s in SILVER.items()}}.items():
        table = read(analyzed.store, name)
        assert table.schema.equals(schema)
        assert len(table) == analyzed.summary["tables"][name]
        pattern = name if "/" in name else f"gold/{name}"
        assert any((analyzed.store / "analysis" / pattern).glob("*/*.parquet"))


def test_a_run_that_cannot_be_read_is_in_quarantine(analyzed: Any) -> None:
    (row,) = rows(analyzed.store, "quarantine")
    assert row["run"] == "kraft-metadata/broken"
    assert "broken/history.jsonl:1: " in row["reason"]
    assert analyzed.summary["skipped"] == [row["reason"]]
    assert analyzed.summary["runs"] == 3
    assert analyzed.summary["valid"] is False
    assert all(r["run"] != row["run"] for name in PER_RUN for r in rows(analyzed.store, name))


def test_runs_have_their_settings_and_verdicts(analyzed: Any) -> None:
    run = analyzed.runs["bad"]
    (row,) = rows(analyzed.store, "runs", run)
    data = RunData.from_folder(run)
    assert (row["system"], row["workload"], row["seed"]) == ("kraft", "register", 12)
    assert (row["valid"], row["class"], row["tree"]) == ("false", "system", "clean")
    assert row["operations"] == len(data.calls)
    assert row["ok"] == sum(call.type == OK for call in data.calls)
    assert row["trace_events"] == len(data.events)
    assert row["fault_events"] == sum(fault.phase == "start" for fault in data.faults)
    assert row["day"] == row["started"].date().isoformat()
    assert row["anomalies"] == len(rows(analyzed.store, "anomalies", run))
    (good,) = rows(analyzed.store, "runs", analyzed.runs["register"])
    assert (good["valid"], good["class"], good["first_anomaly"]) == ("true", None, None)
    assert good["test_key"] != row["test_key"]


def test_recovery_is_the_first_service_after_a_fault(analyzed: Any) -> None:
    for run in analyzed.runs.values():
        data = RunData.from_folder(run)
        served = [c for c in data.calls if c.type == OK and (c.f != "leader" or c.value)]
        ends = {fault.id: fault.done for fault in data.faults if fault.phase == "stop"}
        starts = {fault.id: fault.done for fault in data.faults if fault.phase == "start"}
        found = rows(analyzed.store, "recoveries", run)
        assert {row["id"] for row in found} == set(starts)
        for row in found:
            for since, column in ((starts, "failover_s"), (ends, "recovery_s")):
                after = [
                    ((c.completed or 0) - since[row["id"]]) / 1e9
                    for c in served
                    if row["id"] in since and c.invoked >= since[row["id"]]
                ]
                assert row[column] == (pytest.approx(min(after)) if after else None)


def test_coverage_is_counted_over_runs(analyzed: Any) -> None:
    items = [r for r in rows(analyzed.store, "coverage") if r["counter"] == "follows"]
    pairs = rows(analyzed.store, "fault_pairs")
    assert sum(row["runs"] for row in pairs) == len(items) > 0
    assert all("/" in row["first"] and "/" in row["second"] for row in pairs)
    struck = rows(analyzed.store, "states_struck")
    assert {row["state"] for row in struck} & {"leader", "follower"}


def test_runs_of_nights_count_with_and_without_a_folder(analyzed: Any) -> None:
    found = rows(analyzed.store, "night_runs")
    assert [row["n"] for row in found] == [0, 1, 2, 3], "the torn line does not count"
    assert json.loads(found[0]["extra"]) == {"digest": "abc"}
    assert found[0]["faults"] == ["kill", "partition"]
    (night,) = rows(analyzed.store, "nights")
    assert (night["runs"], night["valid"], night["invalid"], night["unknown"]) == (4, 2, 1, 1)
    assert (night["day"], night["state"], night["ended"]) == ("2026-01-31", "running", None)
    trend = [r for r in rows(analyzed.store, "trend") if r["fault"] == "*"]
    without = {(r["tree"], r["runs"]) for r in trend if r["day"] == "2026-01-31"}
    assert without == {("mutant:M1", 1), ("clean", 2)}, "the run with a folder counts there"
    assert sum(r["runs"] for r in trend) == 3 + len(analyzed.runs)
    (flake,) = [r for r in rows(analyzed.store, "flakes") if r["flaky"]]
    assert (flake["runs"], flake["valid"], flake["unknown"]) == (2, 1, 1)


def test_the_command_prints_the_summary_without_spark_when_nothing_changed(
    analyzed: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(analyze, "start", None)
    assert status(["analyze", str(analyzed.store), "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["valid"] is False
    assert (summary["runs"], summary["read"]) == (3, 0)
    assert summary["tables"] == analyzed.summary["tables"]
