"""One changed byte anywhere in a log is found, and a message names file and byte.

Some fields of a batch are outside of the checksum. The base offset must follow. With a wrong length
the checksum fails, or the batch is whole and the length is not its own. The epoch must not go back,
rises only with a control batch, and must match the epoch checkpoint. The magic has one value. The
checksum itself is the last of these fields.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.files import LogCorruptError, MetadataLogFiles
from kraftwreck.nodes.log.layout import METADATA_DIRECTORY, segment_name

Records = list[tuple[bytes | None, bytes | None]]


def sample() -> list[bytes]:
    """Batches of epochs 1, 3 and 4 (each begun by a control batch), the last one alone."""
    values: list[tuple[int, bool, Records]] = [
        (1, True, [(b"\0\0\0\2", b"leader")]),
        (1, False, [(None, b"one"), (None, b"two")]),
        (3, True, [(b"\0\0\0\2", b"leader")]),
        (3, False, [(None, b"three")]),
        (4, True, [(b"\0\0\0\2", b"leader")]),
    ]
    batches: list[bytes] = []
    offset = 0
    for epoch, control, records in values:
        batches.append(encode_batch(offset, epoch, 1_700_000_000_000, records, control))
        offset += len(records)
    return batches


def write_log(directory: Path, batches: list[bytes], segment_bytes: int) -> None:
    log = MetadataLogFiles(directory, segment_bytes)
    try:
        log.recover()
        for batch in batches:
            log.append(batch)
        log.flush()
    finally:
        log.close()


def start(directory: Path) -> list[bytes]:
    log = MetadataLogFiles(directory)
    try:
        return log.recover()
    finally:
        log.close()


def expect_refusal(directory: Path, path: Path, damaged: bytes, batch_start: int) -> None:
    path.write_bytes(damaged)
    with pytest.raises(LogCorruptError) as caught:
        start(directory)
    found = re.match(rf"{re.escape(str(path))}, byte (\d+): .", str(caught.value))
    assert found is not None, caught.value
    # An epoch that was made lower or higher may show at the batch after it only.
    assert int(found[1]) >= batch_start
    assert path.read_bytes() == damaged, "nothing was cut"


@pytest.mark.parametrize("count", range(1, 6), ids=lambda count: f"{count}-batches")
def test_every_flipped_byte_of_a_log_is_found(quick_path: Path, count: int) -> None:
    """Also of its last batch, whatever that is."""
    batches = sample()[:count]
    write_log(quick_path, batches, 1 << 20)
    path = quick_path / METADATA_DIRECTORY / segment_name(0)
    content = path.read_bytes()
    assert content == b"".join(batches)
    position = 0
    for batch in batches:
        for place in range(position, position + len(batch)):
            for flip in (0x01, 0x02, 0x80, 0xFF):
                damaged = bytearray(content)
                damaged[place] ^= flip
                expect_refusal(quick_path, path, bytes(damaged), position)
        position += len(batch)
    path.write_bytes(content)
    assert start(quick_path) == batches


def test_every_flipped_byte_of_an_older_segment_is_found(quick_path: Path) -> None:
    batches = sample()
    write_log(quick_path, batches, 1)
    for batch in batches:
        path = quick_path / METADATA_DIRECTORY / segment_name(parse_header(batch).base_offset)
        content = path.read_bytes()
        assert content == batch
        for place in range(len(content)):
            damaged = bytearray(content)
            damaged[place] ^= 0x41
            path.write_bytes(damaged)
            with pytest.raises(LogCorruptError, match=r"\.log(, byte \d+)?: "):
                start(quick_path)
        path.write_bytes(content)
    assert start(quick_path) == batches


def test_a_log_cut_at_any_byte_is_treated_as_a_crash(quick_path: Path) -> None:
    """A prefix looks like a torn write, and no other damage does: it is only cut."""
    batches = sample()
    content = b"".join(batches)
    for length in range(len(content) + 1):
        directory = quick_path / str(length)
        (directory / METADATA_DIRECTORY).mkdir(parents=True)
        path = directory / METADATA_DIRECTORY / segment_name(0)
        path.write_bytes(content[:length])
        kept, size = 0, 0
        while kept < len(batches) and size + len(batches[kept]) <= length:
            size += len(batches[kept])
            kept += 1
        assert start(directory) == batches[:kept]
        assert path.read_bytes() == content[:size]
        shutil.rmtree(directory)


@pytest.mark.parametrize("lost", range(0, 3000, 512))
def test_a_sector_that_never_came_is_a_torn_tail(quick_path: Path, lost: int) -> None:
    """The file has grown and some of its data did not reach the disk before power went."""
    batches = [encode_batch(0, 1, 0, [(None, b"x" * 3000)], True)]
    write_log(quick_path, batches, 1 << 20)
    path = quick_path / METADATA_DIRECTORY / segment_name(0)
    content = path.read_bytes()
    path.write_bytes(
        content[:lost] + bytes(len(content[lost : lost + 512])) + content[lost + 512 :]
    )
    assert start(quick_path) == []
    assert path.stat().st_size == 0


@pytest.mark.parametrize("last", range(2, 40))
def test_the_end_of_a_batch_may_be_all_it_has_in_a_sector_that_never_came(
    quick_path: Path, last: int
) -> None:
    """The first batch ends ``last`` bytes into the sector; more of them follow."""
    first = encode_batch(0, 1, 0, [(None, b"x")], True)
    first = encode_batch(0, 1, 0, [(None, b"x" * (514 + last - len(first) - 1))], True)
    assert len(first) in (512 + last, 513 + last, 514 + last)
    more = [encode_batch(base, 1, 0, [(None, b"y" * 100)], False) for base in range(1, 9)]
    write_log(quick_path, [first, *more], 1 << 20)
    path = quick_path / METADATA_DIRECTORY / segment_name(0)
    content = path.read_bytes()
    path.write_bytes(content[:512] + bytes(512) + content[1024:])
    assert start(quick_path) == []


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_control_batch_that_is_no_leader_change_does_not_begin_an_epoch(
    quick_path: Path, checkpoint: bool
) -> None:
    """The epoch is outside of the checksum: at the log's end no other check covers it."""
    voters = encode_batch(6, 4, 0, [(b"\0\0\0\6", b"voters")], True)
    write_log(quick_path, [*sample(), voters], 1 << 20)
    if not checkpoint:
        (quick_path / METADATA_DIRECTORY / "leader-epoch-checkpoint").unlink()
    path = quick_path / METADATA_DIRECTORY / segment_name(0)
    content = bytearray(path.read_bytes())
    content[-len(voters) + 15] ^= 1
    path.write_bytes(content)
    with pytest.raises(LogCorruptError, match="epoch 5 begins after 4 without a leader change"):
        start(quick_path)


def test_an_epoch_that_begins_without_a_leader_change_is_refused(quick_path: Path) -> None:
    batches = [*sample(), encode_batch(6, 5, 0, [(None, b"v")], False)]
    with pytest.raises(ValueError, match="epoch 5 begins after 4 without a control batch"):
        write_log(quick_path, batches, 1 << 20)
    path = quick_path / METADATA_DIRECTORY / segment_name(0)
    place = path.stat().st_size
    with path.open("ab") as file:
        file.write(batches[-1])
    with pytest.raises(LogCorruptError, match=f"byte {place}: epoch 5 begins after 4 without"):
        start(quick_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content + b"\1" * 70,
        lambda content: content + sample()[0],
        lambda content: content.replace(sample()[1], b""),
        lambda content: content.replace(sample()[1], sample()[1] * 2),
    ],
    ids=["rubbish", "another batch", "a batch missing", "a batch twice"],
)
def test_other_damage_is_refused(quick_path: Path, change: Callable[[bytes], bytes]) -> None:
    write_log(quick_path, sample(), 1 << 20)
    path = quick_path / METADATA_DIRECTORY / segment_name(0)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(LogCorruptError, match=rf"{path}, byte \d+: batch"):
        start(quick_path)
