"""A run folder survives crashes: whole lines stay, torn tails go, disk full says so."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kraftwreck.histories.fault import FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.reading import read_faults, read_history, read_lines
from kraftwreck.histories.store import JsonLines, RunFolder, StoreError, link_latest
from kraftwreck.histories.tables import HistoryError


def op(index: int, **fields: object) -> Op:
    base: dict[str, object] = {"process": 0, "type": "invoke", "f": "read", "time": index}
    return Op(index=index, **{**base, **fields})  # type: ignore[arg-type]  # test shorthand


def test_complete_renames_and_only_a_judged_run_becomes_latest(tmp_path: Path) -> None:
    now = datetime(2025, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    folder = RunFolder(tmp_path, "kraft-metadata", 7, now)
    assert folder.path.name == "20250102T030405.678Z-7.running"
    assert (tmp_path / "current").resolve() == folder.path
    assert not (tmp_path / "latest").exists()
    done = folder.complete()
    assert done.name == "20250102T030405.678Z-7"
    assert (tmp_path / "current").resolve() == done
    assert not (tmp_path / "latest").exists()
    link_latest(done)
    assert (tmp_path / "latest").resolve() == done
    assert (tmp_path / "kraft-metadata" / "latest").resolve() == done
    assert not list(tmp_path.rglob("*.running"))


def test_a_store_that_cannot_be_written_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match=r"Not a directory; choose another --store") as caught:
        RunFolder(tmp_path / "file", "kraft-metadata", 1)
    assert "\n" not in str(caught.value)


def test_lines_are_in_the_file_as_soon_as_they_are_written(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "history.jsonl")
    lines.write(op(0))
    assert (tmp_path / "history.jsonl").read_bytes().count(b"\n") == 1
    lines.close()
    lines.close()


def test_lines_of_many_threads_do_not_mix(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "history.jsonl")

    def work(thread: int) -> None:
        for i in range(200):
            lines.write(op(thread * 1000 + i, value="x" * 300))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines.close()
    assert len(read_lines(tmp_path / "history.jsonl", Op)) == 800


def test_a_torn_tail_is_cut_off_on_reading_and_on_reopening(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    lines = JsonLines(path)
    lines.write(op(0))
    lines.close()
    with path.open("ab") as file:
        file.write(b'{"index": 1, "proc')
    assert [o.index for o in read_lines(path, Op)] == [0]
    again = JsonLines(path)
    again.write(op(1))
    again.close()
    assert [o.index for o in read_lines(path, Op)] == [0, 1]


def test_a_malformed_line_in_the_middle_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"index":0,"process":0,"type":"invoke","f":"r","time":0}\n{"index":\n')
    with pytest.raises(HistoryError, match=r"history\.jsonl:2: "):
        read_lines(path, Op)


def test_an_unknown_type_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"index":0,"process":0,"type":"done","f":"r","time":0}\n')
    with pytest.raises(HistoryError, match=r":1: Invalid enum value 'done'"):
        read_lines(path, Op)


def test_disk_full_is_one_clear_line_and_written_data_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.jsonl"
    lines = JsonLines(path)
    lines.write(op(0))
    real_write, calls = os.write, 0

    def full(fd: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            return real_write(fd, bytes(data)[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match=r"history.jsonl: No space left on device; what was"):
        lines.write(op(1))
    monkeypatch.undo()
    assert path.read_bytes().endswith(b"\n")
    lines.write(op(2))
    lines.close()
    assert [o.index for o in read_lines(path, Op)] == [0, 2]


def test_a_missing_history_names_the_path_and_missing_faults_are_none(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"history\.parquet: no \*\.parquet file"):
        (tmp_path / "history.parquet").mkdir()
        read_history(tmp_path)
    assert read_faults(tmp_path) == []


def test_faults_come_back_as_written(tmp_path: Path) -> None:
    event = FaultEvent(
        id=1,
        phase="start",
        kind="partition",
        shape="one",
        targets=["n1"],
        time=5,
        done=9,
        evidence={"n1": {"dropped_packets": 3}},
    )
    lines = JsonLines(tmp_path / "faults.jsonl")
    lines.write(event)
    lines.close()
    assert read_faults(tmp_path) == [event]
