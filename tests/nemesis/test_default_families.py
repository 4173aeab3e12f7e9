"""The fault families of a run that names none."""

from __future__ import annotations

from kraftwreck.nemesis.registry import DEFAULT, chosen


def test_a_system_may_choose_its_own() -> None:
    assert chosen(None, "kraft") == ("partition", "kill", "pause", "power", "membership")
    assert chosen(None, "etcd") == DEFAULT
    assert chosen(None, "raft") == DEFAULT


def test_families_that_are_named_replace_them() -> None:
    assert chosen("kill,clock", "kraft") == ("kill", "clock")
    assert chosen("none", "kraft") == ()
