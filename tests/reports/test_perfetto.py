"""The Perfetto trace and the other files beside a report."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, cast

import pytest

from kraftwreck.histories.convert import load
from kraftwreck.reports.downloads import EDN, JSON, PERFETTO, write_downloads
from kraftwreck.reports.perfetto import CLIENTS, FAULTS, FIRST_NODE, NEMESIS, ROLE, write_perfetto
from kraftwreck.reports.run_folder import Run, load_run
from kraftwreck.reports.run_report import write_report
from tests.reports.fake_run import write_fake_run

REQUIRED = {
    "X": {"name", "pid", "tid", "ts", "dur"},
    "i": {"name", "pid", "tid", "ts", "s"},
    "C": {"name", "pid", "ts", "args"},
    "M": {"name", "pid", "tid", "args"},
}
"""The fields that the format requires of each kind of event (phase)."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return load_run(write_fake_run(tmp_path_factory.mktemp("perfetto") / "run", invalid=True))


@pytest.fixture(scope="module")
def events(run: Run) -> list[dict[str, Any]]:
    with gzip.open(write_perfetto(run, run.folder / PERFETTO), "rt", encoding="utf-8") as file:
        return cast("list[dict[str, Any]]", json.load(file)["traceEvents"])


def test_every_event_is_as_the_format_wants_it(events: list[dict[str, Any]]) -> None:
    for event in events:
        assert REQUIRED[event["ph"]] <= event.keys(), event
        assert isinstance(event.get("ts", 0), int)
        assert event.get("dur", 0) >= 0
        assert event["ph"] == "M" or event["ts"] >= 0


def test_nodes_and_clients_are_processes_with_names(run: Run, events: list[dict[str, Any]]) -> None:
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    nodes = {FIRST_NODE + i: node for i, node in enumerate(run.nodes)}
    assert names == {CLIENTS: "clients", NEMESIS: "faults", **nodes}


def test_every_operation_is_a_slice_of_its_client(run: Run, events: list[dict[str, Any]]) -> None:
    slices = [e for e in events if e["ph"] == "X" and e["pid"] == CLIENTS]
    assert len(slices) == sum(op.type == "invoke" for op in run.ops)
    first = next(e for e in slices if e["args"]["index"] == run.ops[0].index)
    assert first["ts"] == run.ops[0].time // 1000
    assert first["tid"] == run.ops[0].process + 1


def test_slices_of_a_client_never_overlap(events: list[dict[str, Any]]) -> None:
    """A viewer draws overlapping slices of a thread as if one were called by the other."""
    ends: dict[tuple[int, int], int] = {}
    for e in sorted((e for e in events if e["ph"] == "X"), key=lambda e: int(e["ts"])):
        thread = e["pid"], e["tid"]
        if e["pid"] in (CLIENTS, NEMESIS) or e["tid"] == ROLE:
            assert e["ts"] >= ends.get(thread, 0), e
            ends[thread] = e["ts"] + e["dur"]


def test_roles_and_faults_are_slices_of_their_nodes(run: Run, events: list[dict[str, Any]]) -> None:
    roles = [e for e in events if e["ph"] == "X" and e["tid"] == ROLE and e["pid"] >= FIRST_NODE]
    assert any(e["name"].startswith("leader e") for e in roles)
    start = next(f for f in run.faults if f.phase == "start")
    hit = FIRST_NODE + run.nodes.index(start.targets[0])
    assert any(
        e["pid"] == hit and e["tid"] == FAULTS and e["ts"] == start.time // 1000
        for e in events
        if e["ph"] == "X"
    )
    counters = [e["args"] for e in events if e["ph"] == "C"]
    assert counters
    assert all(args["log end offset"] >= args["high watermark"] for args in counters)


def test_edn_and_json_are_read_back_as_the_same_history(run: Run) -> None:
    write_downloads(run)
    for name in (EDN, JSON):
        back = load(run.folder / name)
        assert [(o.index, o.type, o.f, o.time) for o in back] == [
            (o.index, o.type, o.f, o.time) for o in run.ops
        ]


def test_a_long_run_gets_them_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftwreck.reports.downloads.MANY", 100)
    folder = write_fake_run(tmp_path / "run", count=200)
    page = write_report(folder).read_text(encoding="utf-8")
    assert not (folder / EDN).exists()
    assert "kraftwreck report --downloads" in page
    page = write_report(folder, all_downloads=True).read_text(encoding="utf-8")
    for name in (EDN, JSON, PERFETTO):
        assert (folder / name).exists()
        assert f'href="{name}"' in page
