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
from tests.waiting import wait_until

OWN = Path("/proc/self/autogroup")
WORKER = """
import os
input()
share = open("/proc/self/autogroup").read().split()[-1]
print('{"nice": ' + share + ', "own": ' + str(os.getpriority(os.PRIO_PROCESS, 0)) + "}")
"""


@pytest.mark.skipif(not OWN.exists(), reason="this kernel has no autogroups")
@pytest.mark.parametrize(("spare_s", "nicer"), [(60.0, 5), (0.0, 0)])
def test_until_it_is_needed_spark_gets_a_smaller_share_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare_s: float, nicer: int
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def instead(command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        started.append(real([sys.executable, "-c", WORKER], **how))
        return started[-1]

    monkeypatch.setattr(background, "java_version", lambda: "")
    monkeypatch.setattr(subprocess, "Popen", instead)
    handle = start(tmp_path, spare_s=spare_s)
    theirs = Path(f"/proc/{started[0].pid}/autogroup")
    before, ours = theirs.read_text().split(), OWN.read_text()
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert before[1:] == ["nice", str(nicer)]
    assert os.getpriority(os.PRIO_PROCESS, started[0].pid) == min(own + nicer, 19)
    assert handle.ask({}, timeout_s=30) == {"nice": 0, "own": own}
    handle.wait()
    assert OWN.read_text() == ours


STUCK_WORKER = """
import os, sys, time
if os.fork() == 0:
    open(sys.argv[1], "w").write(str(os.getpid()))
    os.rename(sys.argv[1], sys.argv[1] + ".written")
time.sleep(600)
"""


def test_a_worker_that_does_not_end_is_killed_with_its_children(tmp_path: Path) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", STUCK_WORKER, str(tmp_path / "child")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    written = tmp_path / "child.written"
    wait_until(written.exists, "the worker has a child")
    Handle(worker, tmp_path).wait(timeout_s=0.05)
    child = Path("/proc", written.read_text())
    wait_until(lambda: has_ended(child), "the child has ended")


def has_ended(process: Path) -> bool:
    """Return whether the process with this folder in /proc is gone, or a zombie."""
    try:
        return not (process / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


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
