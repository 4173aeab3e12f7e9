"""Cuts of any file and losses of power: a log is recovered as a prefix, or refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.log.batch import BatchError, parse_header
from kraftwreck.nodes.log.partition.partition_log import PartitionLog
from kraftwreck.nodes.log.recovery import LogCorruptError
from kraftwreck.simulation.filesystem import Crash, Filesystem
from tests.log.partition.batches import close_logs, contents, data_batch, fill, open_log


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A log of several segments after an orderly stop, and its bytes."""
    directory = tmp_path_factory.mktemp("log") / "t-0"
    log = open_log(directory)
    data = b"".join(fill(log, 40) + fill(log, 30, epoch=2) + fill(log, 30, epoch=4))
    assert sum(1 for _ in log.batches(0)) == 100
    log.close()
    return directory, data


def check_reads(log: PartitionLog) -> None:
    """Every offset is found, and by time what a scan of all headers finds."""
    headers = list(log.batches(log.start_offset))
    for header in headers:
        for offset in (header.base_offset, header.last_offset):
            assert next(log.batches(offset)).base_offset == header.base_offset
        found = log.find_time(header.max_timestamp)
        first = next(h for h in headers if h.max_timestamp >= header.max_timestamp)
        assert found is not None and found[1][1].base_offset == first.base_offset


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", "others"])
@settings(max_examples=75, deadline=None)
@given(data=st.data())
def test_any_cut_of_any_file_is_recovered_or_refused(
    written: tuple[Path, bytes],
    tmp_path_factory: pytest.TempPathFactory,
    suffix: str,
    data: st.DataObject,
) -> None:
    close_logs()
    directory = tmp_path_factory.mktemp("cut") / "t-0"
    shutil.copytree(written[0], directory)
    kinds = (".log", ".index", ".timeindex")
    files = [
        path
        for path in sorted(directory.iterdir())
        if path.suffix == suffix or (suffix == "others" and path.suffix not in kinds)
    ]
    path = data.draw(st.sampled_from(files))
    length = data.draw(st.integers(0, path.stat().st_size))
    with path.open("r+b") as file:
        file.truncate(length)
    point = data.draw(st.sampled_from([0, 1, 50, 150]))
    try:
        log = open_log(directory, recovery_point=point)
    except LogCorruptError as error:
        assert path.suffix == ".log" and point > 0 and str(directory) in str(error)
        return
    found = contents(log)
    assert written[1].startswith(found)
    if path.suffix != ".log":
        assert found == written[1] and log.epochs[-1][0] == 4
    if path.suffix != ".timeindex" or point == 0:
        check_reads(log)
    fill(log, 20, epoch=5)
    log.stored_producers()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_after_an_orderly_stop_a_cut_log_is_refused_and_a_cut_index_made_anew(
    written: tuple[Path, bytes], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    close_logs()
    directory = tmp_path_factory.mktemp("cut") / "t-0"
    shutil.copytree(written[0], directory)
    path = data.draw(
        st.sampled_from(sorted(directory.glob("*.log")) + sorted(directory.glob("*.index")))
    )
    size = path.stat().st_size
    length = data.draw(st.integers(0, size))
    with path.open("r+b") as file:
        file.truncate(length)
    try:
        log = open_log(directory, recovery_point=None)
    except LogCorruptError:
        assert path.suffix == ".log"
        return
    found = contents(log)
    assert found == written[1] or (path.suffix == ".log" and written[1].startswith(found))
    for offset in range(log.end_offset):
        assert next(log.batches(offset)).last_offset >= offset


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 250))
def test_a_loss_of_power_leaves_a_prefix_with_all_that_was_flushed(seed: int, steps: int) -> None:
    disk = Filesystem()
    directory = Path("/data/t-0")
    disk.make_directory(Path("/data"))
    written: list[bytes] = []
    point = 0
    disk.crash_after(steps, seed)
    try:
        log = open_log(directory, media=disk)
        for step in range(200):
            written.append(data_batch(log.end_offset, 1 + step // 40))
            log.append(written[-1], [parse_header(written[-1])])
            if draw_below(9, seed, step) == 0:
                flush = log.flush()
                flush.run()
                log.flushed(flush)
                point = log.recovery_point
            if draw_below(40, seed, step, "cut") == 0:
                target = list(log.batches(0))[-3:][0].base_offset
                point = min(point, target)
                log.truncate(target)
                written = written[: len(list(log.batches(0)))]
    except Crash:
        pass
    disk.process_ended()
    disk.lose_power(seed)
    again = open_log(directory, media=disk, recovery_point=point)
    assert again.end_offset >= point
    assert b"".join(written).startswith(contents(again, disk))
    # That of a batch that was lost is an epoch without records.
    found = [epoch for epoch, start in again.epochs if start < again.end_offset]
    assert found == sorted({header.epoch for header in again.batches(0)})


def test_damage_where_all_was_durable_is_refused(
    written: tuple[Path, bytes], tmp_path: Path
) -> None:
    shutil.copytree(written[0], tmp_path / "t-0")
    last = max((tmp_path / "t-0").glob("*.log"))
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    log = open_log(written[0], recovery_point=None)
    with pytest.raises(LogCorruptError, match=r"was durable, but .* wrong checksum"):
        open_log(tmp_path / "t-0", recovery_point=log.end_offset)
    assert last.read_bytes() == data
    cut = open_log(tmp_path / "t-0", recovery_point=0)
    assert cut.cut is not None and cut.end_offset < log.end_offset


def test_headers_are_parsed_whole() -> None:
    with pytest.raises(BatchError, match="needs 61 bytes"):
        parse_header(bytes(60))
