"""A node's disk after a kill, a loss of power, or a crash during an operation, and an index that
differs from the files."""

from __future__ import annotations

import pytest

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    CleanLog,
    DropSnapshot,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.log.layout import segment_name
from kraftwreck.nodes.log.quorum_state import QuorumStateError
from kraftwreck.nodes.log.recovery import LogCorruptError
from kraftwreck.nodes.log.snapshots import footer_batch, header_batch
from kraftwreck.simulation.clocks import Clock
from kraftwreck.simulation.deaths import last_words
from kraftwreck.simulation.disk import LOG, RECOVERY_STEPS, Disk, DiskError
from kraftwreck.simulation.disk_index import Durable
from kraftwreck.simulation.disk_trouble import DiskTrouble
from kraftwreck.simulation.filesystem import SECTOR
from kraftwreck.simulation.host import Host


def batch(base: int, epoch: int = 1, size: int = 8) -> bytes:
    """A leader change, which may begin an epoch."""
    return encode_batch(base, epoch, 0, [(b"\0\0\0\2", b"x" * size)], control=True)


def data(base: int, epoch: int = 1) -> bytes:
    return encode_batch(base, epoch, 0, [(None, b"x" * 8)], control=False)


def snapshot(epoch: int = 1) -> bytes:
    return header_batch(epoch, 5, 7) + footer_batch(1, epoch, 5)


def disk_with(*ends: int, batches: int = 10, segment_bytes: int = 1 << 30) -> Disk:
    """A flushed log of one-record batches, with snapshots that end at ``ends``."""
    disk = Disk(segment_bytes=segment_bytes)
    for base in range(batches):
        disk.apply(AppendLog(batch(base)))
    disk.apply(FlushLog())
    for end in ends:
        write(disk, end)
        disk.apply(FinishSnapshot(end, 1))
    return disk


def write(disk: Disk, end: int, epoch: int = 1) -> None:
    content = snapshot(epoch)
    disk.apply(AppendSnapshot(end, epoch, 0, content[:50]))
    disk.apply(AppendSnapshot(end, epoch, 50, content[50:]))


# --- snapshots ------------------------------------------------------------------------------


def test_a_snapshot_is_there_once_it_is_finished() -> None:
    disk = disk_with()
    write(disk, 5)
    assert disk.snapshots == {}
    assert disk.read_snapshot((5, 1), 0, 10) is None
    disk.apply(FinishSnapshot(5, 1))
    assert disk.read_snapshot((5, 1), 10, 7) == snapshot()[10:17]
    recovered = disk.recover()
    assert [(f.id, f.size, f.timestamp) for f in recovered.snapshots] == [
        ((5, 1), len(snapshot()), 7)
    ]
    assert recovered.latest == snapshot()
    assert len(recovered.batches) == 10
    assert disk.findings == []


def test_the_first_piece_restarts_the_file_and_dropping_removes_it() -> None:
    disk = disk_with()
    write(disk, 5)
    write(disk, 5)
    disk.apply(FinishSnapshot(5, 1))
    assert disk.snapshots[5, 1] == snapshot()
    write(disk, 6)
    disk.apply(DropSnapshot(6, 1))
    disk.apply(DropSnapshot(6, 1))
    with pytest.raises(DiskError, match="was not begun"):
        disk.apply(FinishSnapshot(6, 1))


def test_unfinished_snapshots_survive_neither_a_restart_nor_a_loss_of_power() -> None:
    for lose in (False, True):
        disk = disk_with(5)
        write(disk, 8)
        if lose:
            disk.lose_power(3)
        disk.recover()
        assert disk.parts == {}
        assert list(disk.snapshots) == [(5, 1)]


# --- the log's start ------------------------------------------------------------------------


def test_installing_empties_the_log_and_removes_older_snapshots() -> None:
    disk = disk_with(5)
    write(disk, 20, 3)
    disk.apply(FinishSnapshot(20, 3))
    disk.apply(InstallSnapshot(20, 3))
    assert (disk.start, disk.end_offset, disk.end_epoch) == (20, 20, 3)
    assert list(disk.snapshots) == [(20, 3)]
    disk.apply(AppendLog(batch(20, 3)))
    recovered = disk.recover()
    assert (recovered.start_offset, len(recovered.batches)) == (20, 1)
    with pytest.raises(DiskError, match="no snapshot"):
        disk.apply(InstallSnapshot(30, 3))


def test_a_crash_before_the_log_is_emptied_is_repaired_at_the_next_start() -> None:
    disk = disk_with(5)
    write(disk, 20, 3)
    disk.apply(FinishSnapshot(20, 3))
    recovered = disk.recover()
    assert (recovered.start_offset, list(recovered.batches)) == (20, [])
    assert [f.id for f in recovered.snapshots] == [(20, 3)]
    assert disk.findings == []


def test_cleaning_removes_whole_segments_and_older_snapshots() -> None:
    length = len(batch(0))
    for segment_bytes, start in ((1, 6), (4 * length, 4), (1 << 30, 0)):
        disk = disk_with(3, 6, segment_bytes=segment_bytes)
        disk.apply(CleanLog(6))
        assert disk.start == start
        assert list(disk.snapshots) == [(6, 1)]
        assert disk.recover().start_offset == start
        assert disk.flushed == len(disk.log) == 10 - start
        assert disk.findings == []


def test_a_new_segment_is_begun_with_the_last_one_flushed() -> None:
    disk = Disk(segment_bytes=2 * len(batch(0)))
    for base in range(5):
        disk.apply(AppendLog(batch(base)))
    assert disk.segments == [0, 2, 4]
    assert disk.flushed == 4
    disk.apply(TruncateLog(3))
    assert disk.segments == [0, 2]
    disk.apply(AppendLog(batch(3)))
    disk.apply(AppendLog(batch(4)))
    assert disk.segments == [0, 2, 4]


# --- crashes --------------------------------------------------------------------------------


def test_a_crash_amid_cleaning_leaves_it_done_or_not_or_partly_done() -> None:
    states = set()
    for number in range(15):
        disk = disk_with(3, 6, segment_bytes=2 * len(batch(0)))
        if disk.interrupt(CleanLog(6), number):
            disk.note(CleanLog(6))
        disk.process_ended()
        content = disk.content()
        states.add((content.start, tuple(sorted(end for end, _ in content.snapshots))))
        recovered = disk.recover()
        assert disk.findings == []
        assert recovered.snapshots[-1].id == (6, 1)
    assert states == {(0, (3, 6)), (2, (3, 6)), (4, (3, 6)), (6, (3, 6)), (6, (6,))}


def test_power_loss_removes_a_suffix_of_unflushed_data_at_any_byte() -> None:
    kept, torn = set(), 0
    for number in range(40):
        disk = disk_with(batches=4)
        disk.apply(AppendLog(batch(4)))
        disk.apply(AppendLog(batch(5)))
        disk.lose_power(number)
        content = disk.content()
        torn += len(content.log) != sum(map(len, content.batches))
        kept.add(len(disk.recover().batches))
        assert disk.findings == []
        assert len(disk.content().log) == sum(map(len, disk.log)), "a torn tail is cut"
    assert kept == {4, 5, 6}
    assert torn > 5


def test_a_sector_that_never_came_ends_the_log_wherever_batches_begin_and_end() -> None:
    """The end of a batch may be all that it has in the lost sector."""
    for size in range(60):
        disk = Disk()
        disk.apply(AppendLog(batch(0, size=(SECTOR - 140) + size)))
        disk.apply(FlushLog())
        for base in range(1, 40):
            disk.apply(AppendLog(batch(base, size=size)))
        log = disk.files.inode(LOG / segment_name(0)).data
        for sector in (1, 2, 3):
            lost = bytes(log)
            log[sector * SECTOR : (sector + 1) * SECTOR] = bytes(SECTOR)
            disk._lossy = True
            disk.recover()
            assert disk.findings == []
            assert 1 <= len(disk.log) < 40
            log[:] = lost
            for base in range(len(disk.log), 40):
                disk.note(AppendLog(batch(base, size=size)))
            disk.flushed = 1
        assert bytes(disk.log[0]) == batch(0, size=(SECTOR - 140) + size)


def live(seed: int, power: bool) -> tuple[int, int]:
    """Use, kill and start a disk by ``seed``; return starts and operations cut short."""
    size = (1 << 30, 1, 300, 1_000)[draw_below(4, seed, "segment")]
    disk = Disk(segment_bytes=size)
    disk.recover()
    epoch, starts, cut = 1, 0, 0
    for number in range(140):
        key = seed, number
        dice = draw_below(40, *key)
        effect: Durable
        latest = max((end for end, _ in disk.snapshots), default=0)
        if dice < 18:
            epoch += draw_below(5, *key, "epoch") == 0
            epoch = max(epoch, disk.end_epoch)
            effect = AppendLog(batch(disk.end_offset, epoch, draw_below(300, *key, "size")))
        elif dice < 24:
            effect = FlushLog()
        elif dice < 26 and disk.ends:
            ends = [end for end in disk.ends[-4:] if end >= max(latest, disk.start)]
            effect = TruncateLog(ends[0] if ends else disk.end_offset)
            epoch += 1
        elif dice < 28:
            epoch += 1
            effect = WriteQuorumState(epoch, -1, 2, bytes(16), (1, 2, 3))
        elif dice < 31 and disk.ends:
            disk.apply(FlushLog())
            end, of = disk.end_offset, disk.end_epoch
            if (end, of) in disk.snapshots:
                continue
            write(disk, end, of)
            effect = FinishSnapshot(end, of)
        elif dice < 33 and latest and latest <= disk.end_offset:
            effect = CleanLog(latest)
        elif dice < 34:
            epoch += 1
            end = disk.end_offset + 3
            write(disk, end, epoch)
            disk.apply(FinishSnapshot(end, epoch))
            effect = InstallSnapshot(end, epoch)
        else:
            effect = FlushLog()
        if draw_below(6, *key, "kill"):
            disk.apply(effect)
            continue
        if draw_below(3, *key, "amid"):
            if disk.interrupt(effect, draw(*key, "interrupt")):
                disk.note(effect)
            else:
                cut += 1
        disk.process_ended()
        while True:
            if power and draw_below(2, *key, "power"):
                disk.lose_power(draw(*key, "lost", starts))
            starts += 1
            if draw_below(3, *key, "again", starts):
                break
            disk.begin(draw_below(RECOVERY_STEPS, *key, "steps"), draw(*key, "torn"))
        disk.recover()
        assert disk.findings == [], (seed, number, effect)
        epoch = max(epoch, disk.end_epoch, *(of for _, of in disk.snapshots), 1)
    return starts, cut


@pytest.mark.parametrize("power", [False, True])
def test_a_start_finds_all_required_data_after_any_crashes(power: bool) -> None:
    total = [live(seed, power) for seed in range(60)]
    assert sum(starts for starts, _ in total) > 1000
    assert sum(cut for _, cut in total) > 200


# --- the check itself -----------------------------------------------------------------------


def findings(disk: Disk) -> list[str]:
    disk.recover()
    return disk.findings


def test_a_flush_that_flushed_nothing_is_found_after_a_loss_of_power() -> None:
    found = set()
    for number in range(20):
        disk = disk_with(batches=3)
        disk.apply(AppendLog(batch(3)))
        disk.note(FlushLog())
        disk.lose_power(number)
        found.update(findings(disk))
    assert found == {"the log ends at 3, and was flushed up to 4"}


def disk_whose_fsync_has_failed_once() -> Disk:
    """The disk has dropped the batch at offset 3; the process lives."""
    disk = disk_with(batches=3)
    number = next(n for n in range(100) if DiskTrouble("error", n).drops)
    disk.begin_trouble("error", number).after = 0
    disk.apply(AppendLog(batch(3)))
    with pytest.raises(OSError, match="Input/output"):
        disk.apply(FlushLog())
    return disk


@pytest.mark.parametrize("mended", [False, True])
def test_what_a_failed_fsync_has_dropped_need_not_be_found(mended: bool) -> None:
    disk = disk_whose_fsync_has_failed_once()
    if mended:
        disk.end_trouble()
    assert findings(disk) == []
    assert disk.ends == [1, 2, 3]


def test_a_flush_that_is_tried_again_after_an_error_is_found() -> None:
    disk = disk_whose_fsync_has_failed_once()
    disk.note(FlushLog())
    assert findings(disk) == ["the log ends at 3, and was flushed up to 4"]


def test_written_data_survives_a_kill() -> None:
    disk = disk_with(batches=3)
    disk.note(AppendLog(batch(3)))
    assert findings(disk) == ["the log ends at 3, and was written up to 4"]
    disk = disk_with(batches=3)
    disk.note(WriteQuorumState(1, -1, 2, bytes(16), (1,)))
    assert "quorum-state says None" in findings(disk)[0]
    disk = disk_with(batches=3)
    disk.parts[2, 1] = bytearray(b"x")
    disk.note(FinishSnapshot(2, 1))
    assert findings(disk) == ["snapshot (2, 1) is gone"]


def test_data_that_was_never_written_is_detected() -> None:
    disk = disk_with(batches=3)
    disk.write(AppendLog(batch(3)))
    assert findings(disk) == ["the batch at offset 3 is not the one that was written"]
    disk = disk_with(1, batches=3)
    disk.snapshots.clear()
    assert "was removed or never finished" in findings(disk)[0]
    disk = disk_with(3, batches=4, segment_bytes=1)
    disk.write(CleanLog(3))
    assert findings(disk) == ["the log begins at 3; it began at 0"]
    disk = disk_with(batches=2)
    disk.log[1] = batch(1, size=9)
    assert findings(disk) == ["the batch at offset 1 is not the one that was written"]


# --- damage ---------------------------------------------------------------------------------


def test_a_flipped_bit_keeps_a_node_from_starting_or_is_repaired_and_can_be_flipped_back() -> None:
    refused: dict[str, int] = {}
    for number in range(200):
        disk = Disk(segment_bytes=400)
        for base in range(10):
            disk.apply(
                AppendLog(data(base, 1 + base // 4) if base % 4 else batch(base, 1 + base // 4))
            )
        disk.apply(FlushLog())
        write(disk, 4)
        disk.apply(FinishSnapshot(4, 1))
        disk.apply(WriteQuorumState(1, -1, 2, b"d" * 16, (), number % 2))
        disk.process_ended()
        before = disk.content()
        flipped = disk.flip(number)
        assert flipped["flipped"]
        assert disk.damaged
        try:
            disk.recover()
        except (LogCorruptError, QuorumStateError):
            refused[flipped["file"]] = refused.get(flipped["file"], 0) + 1
            disk.process_ended()
            assert disk.restore()
            assert disk.content() == before
            disk.recover()
        else:
            assert flipped["file"] == "leader-epoch-checkpoint"
        assert disk.findings == []
        assert not disk.restore()
    kinds = {name.rpartition(".")[2] for name in refused}
    assert kinds >= {"log", "checkpoint", "quorum-state"}


def test_damage_that_a_start_accepts_is_found() -> None:
    disk = disk_with(batches=2)
    disk.process_ended()
    data = disk.files.inode(LOG / segment_name(0)).data
    data[:] = batch(0) + batch(1, size=7) + bytes(1)
    assert findings(disk) == ["the batch at offset 1 is not the one that was written"]


def test_a_formatted_disk_has_its_bootstrap_snapshot_and_identity() -> None:
    disk = Disk(b"d" * 16, header_batch(0, 0, 0) + footer_batch(1, 0, 0))
    disk.apply(WriteQuorumState(1, -1, -1, bytes(16), ()))
    content = disk.content()
    assert (content.directory, list(content.snapshots)) == (b"d" * 16, [(0, 0)])
    recovered = disk.recover()
    assert [f.id for f in recovered.snapshots] == [(0, 0)]
    assert recovered.start_offset == 0
    assert disk.findings == []


def test_a_process_that_ends_before_its_first_report_has_no_position() -> None:
    host = Host(id=1, name="n1", clock=Clock(0, 0), disk=Disk())
    assert last_words(host, "fatal", {}).state == "unattached"
    host.last_trace = TraceEvent(
        node="n1", incarnation=1, seq=9, mono=0, wall=0, kind="hw", state="leader",
        epoch=7, leader=1, voted=-1, leo=5, hw=5,
    )  # fmt: skip
    told = last_words(host, "fatal", {})
    assert (told.state, told.epoch, told.leader, told.hw) == ("unattached", 7, -1, -1)
    host.trace_seq = 3
    told = last_words(host, "fatal", {})
    assert (told.state, told.epoch, told.leader, told.hw) == ("leader", 7, 1, 5)


def test_a_torn_log_is_cut_where_it_was_whole() -> None:
    for number in range(40):
        disk = disk_with()
        disk.process_ended()
        before = disk.content().log
        done = disk.tear(number)
        assert done["torn"]
        assert 0 < done["bytes"] < done["of"]
        assert len(disk.content().log) == len(before) + done["bytes"]
        assert disk.tear(number) == {"torn": False}, "one tear at a time"
        disk.recover()
        assert disk.findings == []
        assert disk.content().log == before


def test_a_read_only_disk_can_be_read_and_nothing_else() -> None:
    disk = disk_with()
    disk.begin_trouble("readonly", 1)
    with pytest.raises(OSError, match="Read-only"):
        disk.write(AppendLog(batch(10)))
    disk.process_ended()
    assert disk.content().log
    with pytest.raises(OSError, match="Read-only"):
        disk.recover()
    told = disk.end_trouble()
    assert told["trouble"] == "readonly"
    assert isinstance(told["refused_calls"], int)
    assert told["refused_calls"] >= 2
    disk.recover()
    assert disk.findings == []
