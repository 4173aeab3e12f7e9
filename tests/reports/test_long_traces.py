"""Traces too long to be drawn: frequent kinds are thinned out, with a note; rare ones are not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kraftwreck.histories.parquet import write_table
from kraftwreck.histories.tables import TRACE_SCHEMA, to_table
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.reports import long_traces
from kraftwreck.reports.run_folder import RunFolderError, load_run
from kraftwreck.reports.run_report import write_report
from tests.reports.fake_run import write_fake_run


def event(node: str, seq: int, kind: str) -> TraceEvent:
    return TraceEvent(
        node=node, incarnation=1, seq=seq, mono=seq, wall=seq, kind=kind, state="follower",
        epoch=1, leader=1, voted=-1, leo=seq, hw=-1, detail={"number": seq},
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of 3000 commits and 7 elections, where 1000 events are many and 100 of a kind."""
    monkeypatch.setattr(long_traces, "MANY", 1000)
    monkeypatch.setattr(long_traces, "OF_A_KIND", 100)
    monkeypatch.setattr(long_traces, "_BATCH", 128)
    folder = write_fake_run(tmp_path / "store" / "kraft-register" / "1-1", invalid=False)
    events = [
        event(f"n{seq % 2 + 1}", seq, "elected" if seq % 430 == 429 else "commit")
        for seq in range(3010)
    ]
    write_table(to_table(events, TRACE_SCHEMA), folder / "trace.parquet")
    return folder


def test_rare_kinds_are_kept_and_frequent_ones_thinned_out(run: Path) -> None:
    found = load_run(run)
    kinds = Counter(e.kind for events in found.traces.values() for e in events)
    assert kinds["elected"] == 7
    assert 90 <= kinds["commit"] <= 101
    [note] = [note for note in found.notes if "3,010 events" in note]
    assert "frequent kinds (commit)" in note
    for events in found.traces.values():
        assert [e.seq for e in events] == sorted(e.seq for e in events)
    assert note in write_report(run).read_text()


def test_a_trace_that_is_not_long_is_read_whole(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_traces, "MANY", 3010)
    for path in run.glob("nodes/*/trace.jsonl"):
        path.unlink()
    assert sum(len(events) for events in load_run(run).traces.values()) == 3010


def test_a_torn_table_is_reported_only_without_other_sources(run: Path) -> None:
    (run / "trace.parquet").write_bytes(b"PAR1 torn")
    assert load_run(run).traces, "the nodes' own files are there"
    for path in run.glob("nodes/*/trace.jsonl"):
        path.unlink()
    with pytest.raises(RunFolderError, match=r"trace\.parquet"):
        load_run(run)
