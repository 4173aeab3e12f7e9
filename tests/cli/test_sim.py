"""``kraftwreck sim``: the counts of campaigns, and their steering."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_until

Command = Callable[..., Any]
SHORT = ("sim", "-t", "3", "--jobs", "1", "--json", "-n", "partition,kill")


def test_counters_go_on_in_a_file(kraftwreck: Command, tmp_path: Path) -> None:
    file = tmp_path / "coverage.json"
    first = kraftwreck(*SHORT, "--seeds", "0..2", "--coverage", file)
    assert first.code == 0, first.err
    second = kraftwreck(*SHORT, "--seeds", "3..4", "--coverage", file)
    told = json.loads(second.out)["coverage"]
    assert told["runs"] == 5
    assert told["steps"] >= json.loads(first.out)["coverage"]["steps"] > 10
    assert "reached in 5 runs:" in second.err


def test_counting_changes_no_run(kraftwreck: Command, tmp_path: Path) -> None:
    plain = kraftwreck(*SHORT, "--seeds", "0..2")
    counted = kraftwreck(*SHORT, "--seeds", "0..2", "--coverage", tmp_path / "c.json")
    assert json.loads(plain.out)["digest"] == json.loads(counted.out)["digest"]


def test_a_steered_campaign_keeps_a_corpus_and_can_be_repeated(
    kraftwreck: Command, tmp_path: Path
) -> None:
    def steer(folder: str, seeds: str) -> dict[str, Any]:
        ended = kraftwreck(*SHORT, "--seeds", seeds, "--steer", tmp_path / folder)
        assert ended.code == 0, ended.err
        told: dict[str, Any] = json.loads(ended.out)
        return told

    first = steer("a", "0..5")
    assert steer("b", "0..5")["digest"] == first["digest"]
    kept = list((tmp_path / "a").glob("*.json"))
    assert len(kept) > 2
    again = steer("a", "6..7")
    assert again["coverage"]["runs"] == 8
    assert again["digest"] != first["digest"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--steer", "{folder}"), "not an entry of a corpus"),
        (("--coverage", "{folder}/bad.json"), "not a coverage file"),
        (("--steer", "{folder}/new", "--style", "timed"), "cannot be combined"),
    ],
)
def test_unusable_values_are_named(
    kraftwreck: Command, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "bad.json").write_text('{"runs": "many"}')
    ended = kraftwreck(*SHORT, *(word.format(folder=tmp_path) for word in arguments))
    assert ended.code == 254
    assert said in ended.err
    assert len(ended.err.strip().splitlines()) == 1


def children_of(parent: int) -> list[str]:
    return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()


def importing(parent: int) -> bool:
    """Return whether a process for tests of ``parent`` is importing modules."""
    children = children_of(parent)
    return any(b"msgspec" in Path(f"/proc/{child}/maps").read_bytes() for child in children)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_processes_of_an_ended_campaign_end(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "kraftwreck.cli.main", "sim", "--seeds", "0..9999"]
    with subprocess.Popen(
        [*command, "--jobs", "2", "--store", str(tmp_path)], stderr=subprocess.DEVNULL
    ) as campaign:
        wait_until(lambda: importing(campaign.pid), "a process imports modules")
        children = children_of(campaign.pid)
        campaign.send_signal(number)
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), "all end")


def test_ctrl_c_while_processes_start_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kraftwreck.cli.main", "sim", "--seeds", "0..99"]
    with subprocess.Popen(
        [*command, "--jobs", "2", "--store", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as campaign:
        wait_until(lambda: importing(campaign.pid), "a process imports modules")
        os.killpg(campaign.pid, signal.SIGINT)
        _, err = campaign.communicate(timeout=120)
    assert campaign.returncode == 130
    assert err.split("\n\n")[-1].strip() == "kraftwreck: interrupted"
    assert "Traceback" not in err
