"""A long trace that stays columns is judged as one of objects."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kraftwreck.checkers.recorded import stored_events
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.recorded.stored_events import StoredEvents
from kraftwreck.checkers.registry import check
from kraftwreck.histories.parquet import write_table
from kraftwreck.histories.tables import TRACE_SCHEMA, to_table
from kraftwreck.histories.trace import TraceEvent


def events() -> list[TraceEvent]:
    return [
        TraceEvent(
            node=node, incarnation=1, seq=seq, mono=seq * 1000, wall=0, kind="tick",
            state="leader" if node == "n1" or seq == 7 else "follower", epoch=1, leader=1,
            voted=-1, leo=seq, hw=seq - 1, detail={"of": seq},
        )
        for node in ("n1", "n2")
        for seq in range(20)
    ]  # fmt: skip


def test_events_are_those_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_events, "_BATCH", 7)
    known = events()
    stored = StoredEvents(to_table(known, TRACE_SCHEMA))
    assert len(stored) == len(known)
    assert list(stored) == list(stored) == known, "every pass begins anew"
    assert (stored[0], stored[-1], stored[3:9:2]) == (known[0], known[-1], known[3:9:2])
    with pytest.raises(IndexError):
        stored[len(known)]


def test_the_verdict_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test.json").write_bytes(msgspec.json.encode({"nodes": ["n1", "n2"]}))
    (tmp_path / "history.jsonl").write_bytes(b"")
    write_table(to_table(events(), TRACE_SCHEMA), tmp_path / "trace.parquet")
    names = ["invariants", "conformance"]
    objects = RunData.from_folder(tmp_path)
    assert isinstance(objects.events, list)
    expected = check(objects, names)
    monkeypatch.setattr(stored_events, "MANY", 10)
    columns = RunData.from_folder(tmp_path)
    assert isinstance(columns.events, StoredEvents)
    assert check(columns, names) == expected
    assert expected.valid is False
    assert any("two leaders" in a.explanation for a in expected.checkers["invariants"].anomalies)


@pytest.mark.parametrize(("count", "stored"), [(1_999_999, False), (2_000_000, True)])
def test_two_million_events_stay_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, stored: bool
) -> None:
    write_table(to_table(events(), TRACE_SCHEMA), tmp_path / "trace.parquet")
    told = SimpleNamespace(num_rows=count)
    monkeypatch.setattr(pq, "read_metadata", lambda _: told)
    assert (stored_events.stored_events(tmp_path) is not None) is stored


def test_of_columns_16384_events_are_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_events, "from_table", lambda table, _: [len(table)])
    made: list[object] = list(StoredEvents(pa.table({"seq": pa.nulls(40_000)})))
    assert made == [16_384, 16_384, 7_232]
