"""Checkers see the values of a workload as a run folder holds them, also when nothing is saved."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from kraftwreck.harness.simulated.driver import recorded
from kraftwreck.histories.operation import Op

PLUGIN = '''
"""An operation with a value that JSON has no type for, and a checker that shows what it sees."""

from kraftwreck.api import Anomaly, CheckerResult, Completion, Planned
from kraftwreck.systems.kraft.api import KraftWorkload, kafka_call


class Odd(KraftWorkload):
    name = "odd"
    checkers = ("seen",)

    def plan(self, seed, thread, count):
        return Planned("odd", (1, 2), {3: b"c"})

    def invoke(self, op, client):
        body = {"client_software_name": "mine", "client_software_version": "1"}
        yield kafka_call(client.nodes[0], "ApiVersions", 3, body, timeout_ms=500)
        return Completion("ok", [b"a", (4,), {5}])

    def final(self, nodes):
        return []


def check(run):
    seen = {repr((call.key, call.argument, call.value)) for call in run.calls if call.type == "ok"}
    return CheckerResult(valid=False, anomalies=[
        Anomaly(type="seen", explanation=" ".join(seen), operations=[])
    ])


WORKLOAD = Odd()
'''
POINTS = "[kraftwreck.workloads]\nodd = odd:WORKLOAD\n[kraftwreck.checkers]\nseen = odd:check\n"
SEEN = "([1, 2], {'3': 'Yw=='}, ['YQ==', [4], [5]])"


def op(value: object) -> Op:
    return Op(index=0, process=0, type="ok", f="read", value=value, time=0)


@pytest.mark.parametrize("value", [None, True, 7, "a", b"a", (1, (2,)), {1: 2}, {3}, UUID(int=4)])
def test_a_value_is_recorded_as_its_line_of_the_history_is_read(value: object) -> None:
    line = msgspec.json.encode(op(value))
    assert recorded(op(value)) == msgspec.json.decode(line, type=Op)


def test_a_value_that_no_history_holds_is_left_to_whatever_saves_it() -> None:
    value = object()
    assert recorded(op(value)).value is value


@pytest.mark.parametrize(
    "command", [["run", "-c", "sim", "--no-tables", "--seed", "1"], ["sim", "--seeds", "1..1"]]
)
def test_a_campaign_shows_checkers_the_values_that_a_run_folder_holds(
    command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "odd.py").write_text(PLUGIN)
    facts = tmp_path / "odd-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (facts / "entry_points.txt").write_text(POINTS)
    argv = [sys.executable, "-m", "kraftwreck", *command, "-w", "odd", "-n", "none", "-t", "3"]
    argv += ["--store", str(tmp_path / "store")]
    argv += ["--jobs", "1", "--no-shrink"] if command[0] == "sim" else []
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        argv,
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert SEEN in done.stdout + done.stderr
