"""The fault families of a run that names none."""

from __future__ import annotations

from dataclasses import replace

from kraftwreck.harness.options import RunOptions
from kraftwreck.nemesis.registry import DEFAULT, chosen
from kraftwreck.runs.place import supported_faults


def test_a_system_may_choose_its_own() -> None:
    assert chosen(None, "kraft") == ("partition", "kill", "pause", "power", "membership")
    assert chosen(None, "etcd") == DEFAULT
    assert chosen(None, "raft") == DEFAULT


def test_families_that_are_named_replace_them() -> None:
    assert chosen("kill,clock", "kraft") == ("kill", "clock")
    assert chosen("none", "kraft") == ()


def test_what_is_impossible_with_the_options_is_left_out() -> None:
    options = RunOptions(faults=chosen(None, "kraft"), cluster="sim")
    assert supported_faults(options) == options.faults
    static = replace(options, system_options=("quorum=static",))
    assert supported_faults(static) == ("partition", "kill", "pause", "power")
