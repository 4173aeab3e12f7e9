"""Logs of disk images: common parts of images of one disk are read and judged once."""

from __future__ import annotations

from kraftwreck.checkers.kraft.recorded.disk_image import DiskImage, share
from kraftwreck.checkers.kraft.recorded.disk_log import read_logs
from kraftwreck.nodes.log.batch import encode_batch


def batch(base: int, epoch: int = 1, value: bytes = b"value") -> bytes:
    return encode_batch(base, epoch, 0, [(None, value)], False)


def image(log: bytes, label: str = "kill-1", node: str = "n1") -> DiskImage:
    return DiskImage(node=node, label=label, pieces=(log,))


def test_pieces_of_an_older_image_are_shared() -> None:
    first = share(b"one", ())
    longer = share(b"onetwo", first)
    assert longer == (b"one", b"two")
    assert longer[0] is first[0]
    assert share(b"onetwo", longer) == longer
    assert share(b"onetxo", longer) == (b"one", b"txo")
    assert share(b"two", longer) == (b"two",)
    assert share(b"", longer) == ()


def test_a_log_that_grew_is_read_from_where_it_grew() -> None:
    short, long = (b"".join(batch(i) for i in range(n)) for n in (3, 5))
    one, other = read_logs([image(short), image(long)])
    assert (one.shared, other.shared) == (0, 3)
    assert [b.base for b in other.batches] == [0, 1, 2, 3, 4]
    assert [b.base for b in other.fresh] == [3, 4]
    assert other.batches[0] is one.batches[0]


def test_a_log_that_was_truncated_and_continues_differently() -> None:
    kept = [batch(i) for i in range(20)]
    for cut in (0, 1, 2, 7, 19, 20):
        new = kept[: 20 - cut] + [batch(20 - cut + i, epoch=2) for i in range(3)]
        log = read_logs([image(b"".join(kept)), image(b"".join(new))])[1]
        assert [b.data for b in log.batches] == new
        assert log.shared <= 20 - cut


def test_logs_of_two_nodes_share_no_place() -> None:
    one, other = read_logs([image(batch(0)), image(batch(0), node="n2")])
    assert (one.shared, other.shared) == (0, 0)
    assert one.batches == other.batches


def test_a_cleaned_log_begins_at_a_later_offset() -> None:
    logs = read_logs([image(batch(0) + batch(1)), image(batch(1) + batch(2))])
    assert logs[1].shared == 0
    assert [b.base for b in logs[1].batches] == [1, 2]


def test_damage_beyond_the_shared_part_is_reported_for_every_image() -> None:
    bad = bytearray(batch(1))
    bad[-1] ^= 1
    log = batch(0) + bytes(bad)
    for read in read_logs([image(log), image(log), image(batch(0) + b"torn")]):
        assert [b.base for b in read.batches] == [0]
    damages = [read.damage for read in read_logs([image(log), image(log)])]
    assert damages == ["wrong CRC at offset 1"] * 2
