"""The command line itself: mistakes are one line and 254, bugs are 255, never 1."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from kraftwreck.cli import main
from kraftwreck.cli.main import COMMANDS, cli


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_has_help(kraftwreck: Any, name: str) -> None:
    ended = kraftwreck(name, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: kraftwreck {name}")


def test_help_and_version(kraftwreck: Any) -> None:
    shown = kraftwreck("--help").out
    assert all(name in shown for name in COMMANDS)
    assert "0.2.0" in kraftwreck("--version").out


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from kraftwreck.cli.main import status; status(['--help']);"
        "sys.exit(any(m in sys.modules for m in ('pyarrow', 'pyspark', 'paramiko', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frob"], "No such command 'frob'"),
        (["run", "--frob"], "No such option"),
        (["run", "zab"], "unknown system 'zab'; known systems: kraft"),
        (["run", "-w", "banks"], "unknown workload 'banks'; known workloads: leader, metadata"),
        (
            ["run", "-n", "fire"],
            "unknown fault 'fire'; known faults: clock, disk, host, kill, membership",
        ),
        (["run", "-t", "0"], "Invalid value for '-t'"),
        (["run", "--nodes", "0"], "Invalid value for '--nodes'"),
        (["run", "--rate", "x"], "Invalid value for '--rate'"),
        (["run", "-c", "moon"], "cluster 'moon' is unknown"),
        (["run", "-c", "hosts:/nowhere"], "/nowhere: cannot be read: No such file"),
        (["run", "--mutant", "X99"], "unknown mutant 'X99'"),
        (["run", "--mutant", "R01", "--patch", "x"], "cannot be combined"),
        (["run", "--patch", "/nowhere"], "/nowhere: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line_and_254(kraftwreck: Any, arguments: list[str], message: str) -> None:
    ended = kraftwreck(*arguments)
    assert ended.code == 254
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert ended.out == ""


def test_a_bug_is_255_and_not_the_code_of_an_invalid_run(
    kraftwreck: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    def broken() -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(cli, "get_command", lambda ctx, name: broken)
    ended = kraftwreck("broken")
    assert ended.code == 255
    assert ended.err.splitlines()[-1] == (
        "kraftwreck: internal error; this is a bug in kraftwreck, see the traceback above"
    )


def test_an_interrupt_is_130(kraftwreck: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def slow() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "get_command", lambda ctx, name: slow)
    assert kraftwreck("slow").code == 130


def test_a_command_that_is_missing_says_so(
    kraftwreck: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(main.COMMANDS, "nothing", "not there")
    ended = kraftwreck("nothing")
    assert (ended.code, ended.err.count("\n")) == (254, 1)
    assert "this build has no command 'nothing'" in ended.err


def test_list_names_everything(kraftwreck: Any) -> None:
    found = json.loads(kraftwreck("list", "--json").out)
    names = {kind: {entry["name"] for entry in entries} for kind, entries in found.items()}
    assert "kraft" in names["systems"]
    assert {"metadata", "register", "leader"} <= names["workloads"]
    assert {"partition", "kill", "pause"} <= names["faults"]
    assert {"stats", "topics", "linearizable"} <= names["checkers"]
    assert {"netns", "vagrant", "sim"} <= names["clusters"]
    shown = kraftwreck("list")
    assert (shown.code, shown.err) == (0, "")
    assert re.search(r"register +topic configs as linearizable registers", shown.out)
    for kind, entries in found.items():
        for entry in entries:
            assert entry["about"], f"{kind} {entry['name']} has no description"
            assert re.search(rf"^  {re.escape(entry['name'])} +\S", shown.out, re.MULTILINE)
    assert re.search(r"  R01 +high watermark exposed before the LeaderChange record", shown.out)


def test_the_module_can_be_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kraftwreck.cli.main", "run", "--frob"],
        capture_output=True,
        cwd=tmp_path,
    )
    assert done.returncode == 254
