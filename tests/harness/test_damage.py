"""Damage is undone only while it is there: a log that a node has repaired is never changed."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.on_host.disk import damage_disk, damaged, mend_disk
from kraftwreck.harness.on_host.files import BATCH

LOG = "00000000000000000000.log"


def batch(base: int, filling: bytes = b"x" * 60, records: int = 1) -> bytes:
    """A batch as far as the harness reads it: base offset, length, last offset delta."""
    head = BATCH.pack(base, 0, records - 1)
    whole = head + filling
    return struct.pack(">qi", base, len(whole) - 12) + whole[12:]


@pytest.fixture
def service(tmp_path: Path) -> dict[str, Any]:
    folder = tmp_path / "data" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder / LOG).write_bytes(b"".join(batch(base) for base in range(5)))
    return {"data": str(tmp_path / "data"), "pid_file": str(tmp_path / "pid")}


def log_of(service: dict[str, Any]) -> Path:
    return Path(service["data"]) / "__cluster_metadata-0" / LOG


def tear(service: dict[str, Any], part: float) -> dict[str, Any]:
    return damage_disk({"service": service, "damage": "torn", "places": [[0.0, part]]})


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.99])
def test_a_torn_end_that_is_still_there_is_cut_off(service: dict[str, Any], part: float) -> None:
    before = log_of(service).read_bytes()
    assert tear(service, part)["torn"]
    assert log_of(service).read_bytes() != before
    assert damaged({"service": service})["damaged"]
    assert mend_disk({"service": service})["put_right"]
    assert log_of(service).read_bytes() == before


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.99])
def test_batches_written_after_a_repair_stay_though_they_begin_as_the_torn_one(
    service: dict[str, Any], part: float
) -> None:
    before = log_of(service).read_bytes()
    assert tear(service, part)["torn"]
    repaired = before + batch(5) + batch(6)
    log_of(service).write_bytes(repaired)
    assert not damaged({"service": service})["damaged"]
    assert mend_disk({"service": service}) == {}
    assert log_of(service).read_bytes() == repaired


def test_a_changed_bit_is_put_right_unless_its_batch_was_written_again(
    service: dict[str, Any],
) -> None:
    before = log_of(service).read_bytes()
    for place in range(0, 100, 7):
        flip = {"service": service, "damage": "flip", "places": [[0.0, place / 100, 0.3]]}
        done = damage_disk(flip)
        assert done["flipped"]
        log_of(service).write_bytes(log_of(service).read_bytes() + batch(5))
        assert mend_disk({"service": service})["put_right"], "appending changes nothing"
        assert log_of(service).read_bytes() == before + batch(5)

        log_of(service).write_bytes(before)
        done = damage_disk(flip)
        size, changed = len(batch(0)), log_of(service).read_bytes()[done["byte"]]
        first = done["byte"] // size
        other = bytearray(batch(first, b"y" * 60))
        other[done["byte"] % size] = changed
        rewritten = before[: first * size] + bytes(other)
        log_of(service).write_bytes(rewritten)
        assert not damaged({"service": service})["damaged"]
        assert mend_disk({"service": service}) == {}
        assert log_of(service).read_bytes() == rewritten
        log_of(service).write_bytes(before)
