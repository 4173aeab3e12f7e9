"""A file system in memory after the death of a process and after a loss of power."""

from __future__ import annotations

import copy
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.log.lock import DirectoryLockedError
from kraftwreck.nodes.log.media import File
from kraftwreck.simulation.disk_trouble import MOST_SPACE, DiskTrouble
from kraftwreck.simulation.filesystem import SECTOR, Crash, Filesystem

HERE = Path("/here")
A, B = HERE / "a", HERE / "b"


@pytest.fixture
def files() -> Filesystem:
    return fresh()


def fresh() -> Filesystem:
    made = Filesystem()
    made.make_directory(HERE)
    return made


def written(files: Filesystem, path: Path, data: bytes, *, durably: bool = False) -> File:
    file = files.open(path)
    file.append(data)
    if durably:
        file.fsync()
        files.fsync_directory(path.parent)
    return file


# --- a living process -----------------------------------------------------------------------


def test_written_data_reads_back_in_whole_and_in_part(files: Filesystem) -> None:
    file = written(files, A, b"0123456789")
    assert files.read(A) == b"0123456789"
    assert files.read_at(A, 8, 10) == b"89"
    file.truncate(3)
    file.append(b"x")
    assert files.read(A) == b"012x"
    file.truncate(6)
    assert files.read(A) == b"012x\0\0"
    files.open(A, fresh=True)
    assert files.read(A) == b""


def test_names_are_created_renamed_and_removed(files: Filesystem) -> None:
    written(files, A, b"a")
    with pytest.raises(FileExistsError):
        files.create(A)
    written(files, B, b"b")
    files.rename(A, B)
    assert (files.names(HERE), files.read(B)) == (["b"], b"a")
    assert (files.exists(B), files.exists(A), files.exists(HERE)) == (True, False, True)
    files.unlink(B)
    files.unlink(B)
    for missing in (B, HERE / "x" / "y"):
        with pytest.raises(FileNotFoundError):
            files.read(missing)


def test_one_process_holds_a_directory_until_it_ends(files: Filesystem) -> None:
    lock = files.lock(HERE)
    with pytest.raises(DirectoryLockedError):
        files.lock(HERE)
    lock.release()
    lock.release()
    with pytest.raises(OSError, match="was closed"):
        lock.check()
    files.lock(HERE)
    files.process_ended()
    files.lock(HERE)


# --- the death of a process -----------------------------------------------------------------


def test_a_process_that_dies_leaves_its_writes(files: Filesystem) -> None:
    written(files, A, b"never flushed")
    files.process_ended()
    assert files.read(A) == b"never flushed"


def test_a_process_dies_after_so_many_changes_and_does_nothing_more(files: Filesystem) -> None:
    kept = set()
    for steps in range(8):
        files = fresh()
        files.crash_after(steps)
        try:
            files.replace(A, b"12")
        except Crash:
            with pytest.raises(Crash):
                files.make_directory(HERE / "more")
        files.process_ended()
        kept.add(tuple(files.names(HERE)))
    assert kept == {(), ("a.tmp",), ("a",)}


def test_a_write_amid_which_the_process_dies_is_carried_out_in_part() -> None:
    kept = set()
    for torn in range(20):
        files = fresh()
        file = written(files, A, b"ab", durably=True)
        files.crash_after(0, torn)
        with pytest.raises(Crash):
            file.append(b"cde")
        files.process_ended()
        kept.add(files.read(A))
    assert kept == {b"ab", b"abc", b"abcd", b"abcde"}


# --- loss of power --------------------------------------------------------------------------


def outcomes(prepare: Filesystem, path: Path, draws: int = 60) -> set[bytes | None]:
    """Return the possible contents of ``path`` after a loss of power."""
    found: set[bytes | None] = set()
    for number in range(draws):
        files = clone(prepare)
        files.lose_power(number)
        found.add(files.read(path) if files.exists(path) else None)
    return found


def clone(files: Filesystem) -> Filesystem:
    return copy.deepcopy(files)


def test_contents_that_were_not_fsynced_are_cut_at_any_byte(files: Filesystem) -> None:
    file = written(files, A, b"abc", durably=True)
    file.append(b"de")
    file.append(b"f")
    assert outcomes(files, A) == {b"abc", b"abcd", b"abcde", b"abcdef"}


def test_fsync_of_a_file_does_not_keep_its_name(files: Filesystem) -> None:
    file = written(files, A, b"abc")
    file.fsync()
    assert outcomes(files, A) == {None, b"abc"}
    files.fsync_directory(HERE)
    assert outcomes(files, A) == {b"abc"}


def test_a_file_renamed_before_it_was_fsynced_may_be_empty(files: Filesystem) -> None:
    written(files, B, b"old", durably=True)
    written(files, A, b"new")
    files.rename(A, B)
    assert outcomes(files, B, 200) == {b"old", b"", b"n", b"ne", b"new"}
    files.fsync_directory(HERE)
    assert outcomes(files, B) == {b"", b"n", b"ne", b"new"}


def test_names_are_kept_in_the_order_in_which_they_changed(files: Filesystem) -> None:
    for name in "abc":
        written(files, HERE / name, b"", durably=True)
    for name in "cba":
        files.unlink(HERE / name)
    kept = set()
    for number in range(60):
        made = clone(files)
        made.lose_power(number)
        kept.add("".join(made.names(HERE)))
    assert kept == {"abc", "ab", "a", ""}


def test_a_cut_that_was_not_fsynced_may_be_undone(files: Filesystem) -> None:
    file = written(files, A, b"abcd", durably=True)
    file.truncate(2)
    file.truncate(1)
    file.append(b"X")
    assert outcomes(files, A) == {b"abcd", b"a", b"aX"}


def test_a_sector_behind_the_fsynced_part_may_read_as_zeros(files: Filesystem) -> None:
    file = written(files, A, b"x" * 100, durably=True)
    file.append(b"x" * 2000)
    holes = set()
    for number in range(400):
        made = clone(files)
        made.lose_power(number)
        data = made.read(A)
        assert data[:SECTOR] == b"x" * min(SECTOR, len(data)), "what was fsynced and its sector"
        if b"\0" in data:
            at = data.index(b"\0")
            assert data == data[:at].replace(b"\0", b"?") + bytes(SECTOR) + data[at + SECTOR :]
            holes.add(at)
    assert holes == {SECTOR, 2 * SECTOR, 3 * SECTOR}


@given(st.lists(st.tuples(st.sampled_from("acfdru"), st.binary(max_size=30)), max_size=25),
       st.integers(0, 1 << 32))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_a_loss_of_power_leaves_an_allowed_state(
    operations: list[tuple[str, bytes]], number: int
) -> None:
    files = fresh()
    floor: dict[str, bytes] = {}  # by name: content that must begin the file
    seen = {}
    for kind, data in operations:
        file = files.open(A)
        if kind == "a":
            file.append(data)
        elif kind == "c":
            file.truncate(len(data) // 2)
        elif kind == "f":
            file.fsync()
        elif kind == "d":
            files.fsync_directory(HERE)
        elif kind == "r":
            files.rename(A, B)
        else:
            files.unlink(B)
        if kind == "d" and files.exists(A) and files.inode(A).clean:
            floor = {"a": files.read(A)}
        elif kind != "d":
            floor = {}
    seen = {name: files.read(HERE / name) for name in files.names(HERE)}
    files.lose_power(number)
    for name, content in floor.items():
        assert files.read(HERE / name) == content == seen[name]
    # What is left is durable: a second loss takes nothing.
    left = {name: files.read(HERE / name) for name in files.names(HERE)}
    assert files.lose_power(number + 1).names == 0
    assert left == {name: files.read(HERE / name) for name in files.names(HERE)}


# --- writes that are short ------------------------------------------------------------------


def test_short_writes_take_a_beginning_of_the_bytes() -> None:
    files = Filesystem(1, short_writes=50)
    files.make_directory(HERE)
    file = files.open(A)
    lengths = set()
    content = b""
    for _ in range(200):
        taken = file.write(b"0123456789")
        lengths.add(taken)
        content += b"0123456789"[:taken]
    assert lengths == set(range(1, 11))
    assert files.read(A) == content


def test_an_append_repeats_short_writes_until_all_is_there() -> None:
    for trouble in (None, DiskTrouble("slow", 1)):
        files = Filesystem(2, short_writes=50)
        files.make_directory(HERE)
        files.trouble = trouble
        file = files.open(A)
        for _ in range(100):
            file.append(b"0123456789")
        assert files.read(A) == b"0123456789" * 100


def test_a_disk_that_becomes_full_takes_what_there_is_room_for_then_fails() -> None:
    trouble = next(each for each in troubles("full") if each.space > 10)
    files = fresh()
    file = files.open(A)
    files.trouble = trouble
    trouble.space = 14
    assert [file.write(b"0123456789"), file.write(b"0123456789")] == [10, 4]
    assert trouble.refused_calls == 0
    with pytest.raises(OSError) as raised:
        file.write(b"456789")
    assert raised.value.errno == errno.ENOSPC
    assert trouble.evidence()["refused_bytes"] == 6


# --- hardware that fails --------------------------------------------------------------------


def troubles(kind: str) -> Iterator[DiskTrouble]:
    for number in range(40):
        if kind == "full":
            yield DiskTrouble("full", number)
        else:
            yield DiskTrouble("error", number)


def test_a_full_disk_takes_a_part_of_a_write_and_cuts_still() -> None:
    errors = set()
    for trouble in troubles("full"):
        files = fresh()
        file = files.open(A)
        files.trouble = trouble
        space = trouble.space
        with pytest.raises(OSError) as raised:
            for _ in range(400):
                file.append(b"0123456789")
        errors.add(raised.value.errno)
        assert len(files.read(A)) == space
        assert trouble.evidence()["refused_bytes"] == 10 - space % 10
        file.truncate(0)
        file.fsync()
    assert errors == {errno.ENOSPC, errno.EDQUOT}


def use(files: Filesystem, file: File, name: str) -> None:
    if name == "write":
        file.append(b"x")
    elif name == "fsync":
        file.fsync()
    else:
        files.read(A)


def test_a_disk_with_errors_fails_one_kind_of_operation() -> None:
    failed = set()
    for trouble in troubles("error"):
        files = fresh()
        file = files.open(A)
        files.trouble = trouble
        for name in ("write", "fsync", "read"):
            try:
                for _ in range(8):
                    use(files, file, name)
            except OSError as error:
                assert error.errno == errno.EIO
                failing = trouble.evidence()["failing"]
                assert failing in (name, f"one {name}")
                failed.add(failing)
    assert failed == {"write", "fsync", "read", "one fsync"}


def test_an_fsync_that_fails_once_drops_what_it_should_have_made_durable() -> None:
    """A second fsync succeeds, although the data is gone."""
    trouble = next(each for each in troubles("error") if each.drops)
    trouble.after = 0
    files = fresh()
    file = files.open(A)
    file.append(b"durable")
    file.fsync()
    files.trouble = trouble
    file.append(b" and lost")
    with pytest.raises(OSError, match="Input/output"):
        file.fsync()
    assert files.read(A) == b"durable"
    file.append(b", then more")
    file.fsync()
    assert files.read(A) == b"durable, then more"
    assert trouble.evidence() == {"trouble": "error", "refused_calls": 1, "failing": "one fsync"}


def test_files_on_another_disk_have_room_while_this_one_is_full() -> None:
    files = Filesystem(apart=HERE / "apart")
    for directory in (HERE, HERE / "apart"):
        files.make_directory(directory)
    here, apart = files.open(A), files.open(HERE / "apart" / "a")
    files.trouble = DiskTrouble("full", 3)
    with pytest.raises(OSError, match="No space"):
        here.append(bytes(MOST_SPACE))
    apart.append(bytes(2 * MOST_SPACE))
    files.trouble = next(each for each in troubles("error") if each.failing == "write")
    files.trouble.after = 0
    with pytest.raises(OSError, match="Input/output"):
        apart.append(b"more")


def test_a_slow_disk_takes_ten_to_a_hundred_times_as_long_up_to_a_second() -> None:
    trouble = DiskTrouble("slow", 3)
    assert 10 <= trouble.factor <= 100
    assert trouble.duration(100) == 100 * trouble.factor
    assert trouble.duration(500_000) == 1_000_000
    assert trouble.evidence()["slowest_fsync_us"] == 1_000_000


def test_an_fsync_beside_the_process_covers_what_was_there_when_it_began(
    files: Filesystem,
) -> None:
    file = files.open(A)
    file.append(b"before")
    files.fsync_directory(HERE)
    files.begin_beside()
    file.append(b" during")
    with files.beside():
        files.fsync(A)
        files.replace(B, b"all of it")
    assert files.on_platter(A) == len(b"before")
    assert files.on_platter(B) == len(b"all of it")
    file.append(b" after")
    files.fsync(A)
    assert files.on_platter(A) == len(b"before during after")


def test_a_file_that_was_cut_and_written_again_is_not_covered(files: Filesystem) -> None:
    file = files.open(A)
    file.append(b"before")
    files.begin_beside()
    file.truncate(2)
    file.append(b"again")
    with files.beside():
        files.fsync(A)
    assert files.on_platter(A) == 0, "its name may be lost"
    files.fsync_directory(HERE)
    assert files.on_platter(A) == 2


def test_the_names_in_a_directory_include_those_of_directories() -> None:
    files = Filesystem()
    for path in (Path("/data"), Path("/data/t-0"), Path("/data/t-0/inside"), Path("/data2")):
        files.make_directory(path)
    files.open(Path("/data/meta.properties")).append(b"x")
    assert files.names(Path("/data")) == ["meta.properties", "t-0"]
    assert files.names(Path("/data/t-0")) == ["inside"]
