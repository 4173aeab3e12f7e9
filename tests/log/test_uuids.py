"""Uuids as text and bytes, and the ones that must not be handed out."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.log import uuids


@given(st.binary(min_size=16, max_size=16))
def test_text_and_bytes_are_the_same_uuid(value: bytes) -> None:
    text = uuids.to_text(value)
    assert len(text) == 22
    assert uuids.from_text(text) == value


def test_the_reserved_ones_are_those_of_kafka() -> None:
    assert uuids.to_text(uuids.METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert bytes(16) == uuids.MIGRATING
    assert uuids.from_halves(0, 1) == uuids.UNASSIGNED
    assert uuids.from_halves(0, 2) == uuids.LOST
    assert not uuids.is_usable(uuids.from_halves(0, 99))
    assert uuids.is_usable(uuids.from_halves(0, 100))
    assert not uuids.is_usable(b"\xf8" + bytes(15)), "its text starts with '-'"


@pytest.mark.parametrize("text", ["", "A", "A" * 21, "A" * 23, "A" * 21 + "=", "A" * 21 + "B", "é"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a uuid"):
        uuids.from_text(text)


def test_drawn_uuids_depend_on_seed_and_key_only() -> None:
    assert uuids.draw_uuid(1, "topic", 7) == uuids.draw_uuid(1, "topic", 7)
    drawn = {uuids.draw_uuid(seed, "topic", key) for seed in range(20) for key in range(20)}
    assert len(drawn) == 400
    assert all(uuids.is_usable(value) for value in drawn)
    assert uuids.is_usable(uuids.random_uuid())


def test_fresh_uuids_are_random_ones_of_version_4() -> None:
    fresh = [uuid.UUID(bytes=uuids.random_uuid()) for _ in range(50)]
    assert len(set(fresh)) == 50
    assert {(each.version, each.variant) for each in fresh} == {(4, uuid.RFC_4122)}
