"""Spark beside a run leaves the processors to the nodes under test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.pipeline import background, run_tables
from kraftwreck.pipeline.background import Handle, start
from kraftwreck.pipeline.java import PipelineError
from kraftwreck.pipeline.run_tables import SparkTables

OWN = Path("/proc/self/autogroup")
WORKER = """
input()
print('{"nice": ' + open("/proc/self/autogroup").read().split()[-1] + "}")
"""


@pytest.mark.skipif(not OWN.exists(), reason="this kernel has no autogroups")
def test_until_something_waits_for_it_spark_gets_a_smaller_share_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def instead(command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        started.append(real([sys.executable, "-c", WORKER], **how))
        return started[-1]

    monkeypatch.setattr(background, "java_version", lambda: "")
    monkeypatch.setattr(subprocess, "Popen", instead)
    handle = start(tmp_path)
    theirs = Path(f"/proc/{started[0].pid}/autogroup")
    before, ours = theirs.read_text().split(), OWN.read_text()
    assert before[1:] == ["nice", "5"]
    assert handle.ask({}, timeout_s=30) == {"nice": 0}
    handle.wait()
    assert OWN.read_text() == ours


SLOW_WORKER = """
import json, sys
print('{"ready": 1.0}', flush=True)
for line in sys.stdin:
    [[what, folder]] = json.loads(line).items()
    if what == "measure":
        open(folder + "/verdict").read()  # A pipe: this waits for the judge.
    print(json.dumps({"error": "broken"} if "bad" in folder else {what: folder}), flush=True)
"""


@pytest.mark.parametrize("name", ["good", "bad"])
def test_the_tables_that_need_no_verdict_are_computed_while_the_run_is_judged(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    os.mkfifo(folder / "verdict")
    worker = subprocess.Popen(
        [sys.executable, "-c", SLOW_WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    handle = Handle(worker, folder)
    handle.measure(folder)
    (folder / "verdict").write_text("valid")
    if name == "good":
        assert handle.finish_judged(folder) == {"judged": str(folder)}
    else:
        with pytest.raises(PipelineError, match="broken"):
            handle.finish_judged(folder)
    handle.wait()


def test_the_first_answer_has_the_seconds_that_spark_took_to_start(tmp_path: Path) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", SLOW_WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    handle = Handle(worker, tmp_path)
    answers = [handle.ask({"run": "first"}, timeout_s=30), handle.ask({"run": "2"}, timeout_s=30)]
    assert answers == [{"run": "first", "spark_start_s": 1.0}, {"run": "2"}]
    handle.wait()


def test_without_java_a_run_has_no_tables_and_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path, *, spare_s: float) -> Handle:
        raise PipelineError("no working Java found")

    monkeypatch.setattr(run_tables, "start", refuse)
    said: list[str] = []
    tables = SparkTables(said.append)
    tables.begin(tmp_path, 1.0)
    tables.compute(tmp_path)
    assert tables.finish() is None
    tables.close()
    assert said == ["no Spark tables: no working Java found"]


def test_tables_that_were_never_begun_cost_nothing() -> None:
    tables = SparkTables(lambda line: None)
    tables.compute(Path("nowhere"))
    assert tables.finish() is None
    tables.close()
