"""Cores of one's own in the simulator, by the example of two-phase commit and its page."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.options import OptionError
from kraftwreck.harness.simulated.core import load_core
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.simulation.keyed_disk import KeyedDisk, Put
from kraftwreck.simulation.plain import Codec
from kraftwreck.systems.core_campaign import CoreCampaign
from kraftwreck.systems.registry import simulated_workload
from kraftwreck.systems.simulators import simulate

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "bring-your-own-core.md"
EXAMPLE = "kraftwreck.examples.two_phase_commit"
BROKEN, FIXED = f"{EXAMPLE}:SYSTEM", f"{EXAMPLE}:FIXED"
Run = Any
COMMANDS = re.findall(r"```sh\n(kraftwreck .*)\n```", PAGE.read_text())


def campaign(spec: str) -> CoreCampaign:
    return CoreCampaign(system=spec, faults=tuple(load_core(spec).faults), time_limit_s=20.0)


def simulated(spec: str, seed: int) -> SimResult:
    tests = campaign(spec)
    options = tests.options(seed)
    workload = simulated_workload(spec, spec)
    return simulate(options, workload, tests.schedule(seed), Injector, knobs=tests.knobs(seed))


def test_the_example_is_short() -> None:
    assert len((ROOT / "examples" / "two_phase_commit.py").read_text().splitlines()) < 150


def test_the_page_finds_shrinks_and_replays_the_planted_bug(
    kraftwreck: Run, tmp_path: Path
) -> None:
    broken, fixed = (shlex.split(command)[1:] for command in COMMANDS)
    done = kraftwreck(*broken, "--store", tmp_path, "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert 5 in [failed["seed"] for failed in found["failed"]]
    (small,) = map(Path, found["shrunk"])
    assert kraftwreck("replay", small.parent).code == 0, "the same digest"
    assert kraftwreck("replay", small).code == 0, "the same failure"
    case = json.loads(small.read_text())
    assert (len(case["schedule"]), len(case["operations"])) == (1, 2)
    assert fixed[1] == FIXED


def test_every_failed_seed_is_named_with_its_kind_and_a_command(
    kraftwreck: Run, tmp_path: Path
) -> None:
    """Seeds 5, 8 and 9 fail in the same way: only the first failure is printed as it happens."""
    seeds = ("--seeds", "5..9", "-t", 20, "--jobs", 1, "--no-shrink", "--store", tmp_path)
    done = kraftwreck("sim", BROKEN, *seeds, "--json")
    failed = json.loads(done.out)["failed"]
    assert [each["seed"] for each in failed] == [5, 8, 9]
    lines = [line for line in done.err.splitlines() if " failed: " in line]
    assert lines == [
        f"seed {each['seed']} failed: simulator agreement: kraftwreck replay {each['run']}"
        for each in failed
    ]
    assert done.err.count("disagree") == 1
    assert kraftwreck("replay", failed[2]["run"]).code == 0
    again = kraftwreck(*shlex.split(failed[2]["repeat"])[1:], "--no-shrink", "--json")
    assert [each["digest"] for each in json.loads(again.out)["failed"]] == [failed[2]["digest"]]


def test_the_fixed_example_is_clean() -> None:
    assert [simulated(FIXED, seed).failures for seed in range(20)] == [[]] * 20


def test_a_seed_decides_everything() -> None:
    assert simulated(BROKEN, 5).digest == simulated(BROKEN, 5).digest
    assert simulated(BROKEN, 5).digest != simulated(BROKEN, 6).digest


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("nosuch_module:SYSTEM", "No module named 'nosuch_module'"),
        (f"{EXAMPLE}:NOSUCH", "has no attribute 'NOSUCH'"),
        (f"{EXAMPLE}:make", "give a CoreSystem"),
    ],
)
def test_a_core_that_cannot_be_loaded_is_one_line(spec: str, reason: str) -> None:
    with pytest.raises(OptionError, match=re.escape(reason)) as refused:
        load_core(spec)
    assert "\n" not in str(refused.value)


def test_options_of_kraft_have_no_meaning_for_a_core(kraftwreck: Run) -> None:
    done = kraftwreck("sim", BROKEN, "--brokers", 2)
    assert (done.code, done.err.count("\n")) == (254, 1)
    assert "--brokers has no meaning for" in done.err


def test_a_run_of_a_core_leaves_a_folder_that_replays(kraftwreck: Run, tmp_path: Path) -> None:
    seconds = ("-t", 5, "--seed", 1, "-n", "kill", "--floor", "none")
    done = kraftwreck("run", FIXED, "-c", "sim", *seconds, "--store", tmp_path, "--json")
    assert done.code == 0, done.err
    folder = Path(json.loads(done.out)["run"])
    assert kraftwreck("replay", folder).code == 0
    again = kraftwreck("run", FIXED, *seconds, "-c", "netns")
    assert again.code == 254
    assert "in the simulator only" in again.err


def test_a_core_is_not_deployed() -> None:
    with pytest.raises(OptionError, match="in the simulator only"):
        load_core(BROKEN).deploy([], None, None)


def test_a_value_survives_a_loss_of_power_only_if_it_was_flushed() -> None:
    disk = KeyedDisk()
    for put in (Put("a", 1), Put("b", 2, flush=False), Put("a", 3, flush=False)):
        disk.write(put)
        disk.note(put)
    disk.process_ended()
    assert disk.recover() == {"a": 3, "b": 2}, "a kill loses nothing"
    assert disk.lose_power(0) == ["b", "a"]
    assert disk.recover() == {"a": 1}
    disk.note(Put("b", 2, flush=False))
    disk.note(Put("c", 4))
    assert disk.lose_power(0) == [], "a flush covers what was written before"
    assert disk.recover() == {"a": 1, "b": 2, "c": 4}


def test_values_are_copied_into_and_out_of_the_disk() -> None:
    disk, value = KeyedDisk(), [1]
    disk.note(Put("a", value))
    value.append(2)
    disk.recover()["a"].append(3)
    assert disk.recover() == {"a": [1]}


def test_a_failing_disk_fails_the_write() -> None:
    disk = KeyedDisk()
    disk.begin_trouble("readonly", 0)
    with pytest.raises(OSError, match="Read-only"):
        disk.write(Put("a", 1))
    assert disk.end_trouble()["refused_calls"] == 1
    disk.write(Put("a", 1))


def test_a_message_that_cannot_be_read_ends_its_sender() -> None:
    codec = Codec(lambda message: message, lambda message: int(message))
    assert codec.carry("7") == 7
    with pytest.raises(FatalError, match="cannot be read, 'x': ValueError"):
        codec.carry("x")
