"""A whole test over a fake system: the order of things, and what survives a failure."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.harness.generator import Generator, Planned
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.run import TestRun
from kraftwreck.harness.workload import Load, Workload
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.operation import Op
from kraftwreck.histories.reading import read_faults, read_history, read_lines
from kraftwreck.histories.store import RUNNING
from kraftwreck.nemesis.inject import Injector
from kraftwreck.systems.kraft.workloads.metadata import WORKLOAD

SECOND = 1_000_000_000


def fault(kind: str, at_s: float, duration_s: float, *targets: str) -> Fault:
    return Fault(
        at=int(at_s * SECOND),
        kind=kind,
        shape="one",
        duration=int(duration_s * SECOND),
        draw=1,
        targets=targets,
    )


@pytest.fixture
def make(tmp_path: Path, fake: Any, cluster: Any) -> Callable[..., TestRun]:
    def build(
        schedule: Sequence[Fault] = (),
        seconds: float = 0.5,
        beside: int = 0,
        collected: Callable[[Path], None] = lambda folder: None,
        complete: Callable[[Path], None] = lambda folder: None,
        workload: Workload = WORKLOAD,
    ) -> TestRun:
        said: list[str] = []
        fake.said, fake.beside = said, beside
        return TestRun(
            RunOptions(
                nodes=3 - beside,
                time_limit_s=seconds,
                store=tmp_path,
                rate=100.0,
                seed=9,
            ),
            system=fake,
            workload=workload,
            schedule=schedule,
            injector=Injector,
            cluster=cluster,
            say=said.append,
            collected=collected,
            complete=complete,
        )

    return build


HOUR_S = 3600.0
"""Longer than any test waits."""


def later(seconds: float, action: Callable[[], object]) -> None:
    threading.Timer(seconds, action).start()


def test_a_run_from_set_up_to_tear_down(make: Any, fake: Any, tmp_path: Path) -> None:
    schedule = [fault("partition", 0.1, 0.1, "n1"), fault("kill", 0.15, 0.1, "n2")]
    outcome = make(schedule).go()
    assert outcome.errors == []
    assert outcome.interrupted is False
    assert fake.log == [
        "up", "deploy", "ready", "drop", "kill n2", "heal", "start n2",
        "restore", "ready", "stop", "collect", "close", "down",
    ]  # fmt: skip
    folder = outcome.folder
    assert (tmp_path / "current").resolve() == folder
    ops = read_lines(folder / "history.jsonl", Op)
    assert sum(op.final and op.type == "ok" for op in ops) == 4
    assert read_history(folder).num_rows == len(ops)
    assert (folder / "history.parquet").is_dir()
    assert (folder / "trace.parquet").is_file()
    assert [(e.id, e.phase) for e in read_faults(folder)] == [
        (0, "start"), (1, "start"), (0, "stop"), (1, "stop"),
    ]  # fmt: skip
    test = msgspec.json.decode((folder / "test.json").read_bytes())
    assert test["nodes"] == ["n1", "n2", "n3"]
    assert test["clock"]["n1"] == {"offset_us": 5 + test["start_mono_us"]}
    assert test["repeat"].startswith("kraftwreck run kraft -w metadata -n partition,kill,pause")
    assert [f["kind"] for f in test["schedule"]] == ["partition", "kill"]
    assert test["errors"] == []
    assert test["healed"] > 0


def test_collected_recordings_can_be_read_before_the_hosts_are_released(
    make: Any, fake: Any
) -> None:
    read: list[tuple[str, str, str]] = []

    def collected(folder: Path) -> None:
        text = (folder / "nodes" / "n1" / "stdout.log").read_text()
        read.append((folder.suffix, text, fake.log[-1]))

    make(collected=collected).go()
    assert read == [(".running", "hello\n", "collect")]
    fake.failing = {"collect"}
    make(collected=collected).go()
    assert len(read) == 1, "the recordings of a node are missing"


def test_a_complete_run_can_be_read_while_the_hosts_are_released(
    make: Any, fake: Any, cluster: Any
) -> None:
    read, released = threading.Event(), threading.Event()

    def complete(folder: Path) -> None:
        try:
            assert released.wait(HOUR_S)
            assert not folder.name.endswith(RUNNING)
            assert read_history(folder).num_rows > 0
            assert msgspec.json.decode((folder / "test.json").read_bytes())["healed"] > 0
        finally:
            read.set()

    def down() -> None:
        released.set()
        assert read.wait(HOUR_S)
        raise RuntimeError("a host stays")

    cluster.down = down
    outcome = make(complete=complete).go()
    assert outcome.errors == ["cluster down: RuntimeError: a host stays"]
    assert msgspec.json.decode((outcome.folder / "test.json").read_bytes())["errors"] == (
        outcome.errors
    )


def test_a_run_that_cannot_be_judged_is_not_read(make: Any, fake: Any) -> None:
    fake.failing = {"deploy"}
    make(complete=lambda folder: pytest.fail("there is nothing to read")).go()
    assert fake.log[-1] == "down"


def test_clients_talk_to_electing_nodes_and_in_the_end_every_node_is_read(make: Any) -> None:
    outcome = make(beside=1).go()
    assert outcome.errors == []
    ops = read_lines(outcome.folder / "history.jsonl", Op)
    assert {op.node for op in ops if op.node and not op.final} <= {"n1", "n2"}
    assert {op.node for op in ops if op.final and op.type == "ok"} == {"n1", "n2", "n3"}
    test = msgspec.json.decode((outcome.folder / "test.json").read_bytes())
    assert test["roles"] == {"n1": "node", "n2": "node", "n3": "other"}
    assert (test["nodes"], test["electing"]) == (["n1", "n2", "n3"], ["n1", "n2"])


def test_faults_still_active_at_the_end_are_healed(make: Any, fake: Any) -> None:
    outcome = make([fault("pause", 0.1, 60, "n1")], 0.3).go()
    assert outcome.errors == []
    assert [(e.kind, e.phase) for e in read_faults(outcome.folder)] == [
        ("pause", "start"),
        ("pause", "stop"),
    ]
    assert fake.log.index("resume n1") < fake.log.index("restore")


def test_progress_is_shown_every_second(make: Any, fake: Any) -> None:
    make((), 2.3).go()
    shown = [line for line in fake.said if " ok, " in line]
    assert len(shown) == 2
    assert "no faults" in shown[0]
    assert "leader n1 epoch 1" in shown[1]


@pytest.mark.parametrize("step", ["up", "deploy", "ready"])
def test_a_set_up_that_fails_is_one_line_and_the_cluster_goes_down(
    make: Any, fake: Any, step: str
) -> None:
    fake.failing = {step}
    outcome = make().go()
    assert outcome.errors[0] == f"set-up: RuntimeError: {step} does not work"
    assert fake.log[-1] == "down"
    assert outcome.folder.is_dir()
    assert outcome.judgeable is (step == "ready")


@pytest.mark.parametrize("step", ["restore", "stop", "collect", "close", "down"])
def test_a_later_step_that_fails_keeps_no_other_from_being_done(
    make: Any, fake: Any, step: str
) -> None:
    fake.failing = {step}
    outcome = make().go()
    assert any(f"{step} does not work" in error for error in outcome.errors)
    assert fake.log[-1] == "down"
    assert read_history(outcome.folder).num_rows > 0


class NoFinal:
    """A workload whose final operations cannot be planned."""

    name = "no-final"
    checkers = ("stats",)
    client = WORKLOAD.client

    def generator(self, load: Load) -> Generator | None:
        return None

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        raise KeyError("last")


class NoGenerator(NoFinal):
    """A workload without operations."""

    def generator(self, load: Load) -> Generator:
        raise KeyError("first")


@pytest.mark.parametrize(
    ("workload", "said"),
    [(NoFinal(), "final operations: {}'last'"), (NoGenerator(), "run: {}'first'")],
)
def test_a_workload_that_cannot_plan_is_the_user_s_mistake(
    make: Any, fake: Any, workload: Workload, said: str
) -> None:
    outcome = make(workload=workload).go()
    begin = said.format("the workload cannot plan its operations: KeyError: ")
    (error,) = outcome.errors
    assert error.startswith(f"{begin} (tests/harness/test_run.py:")
    assert outcome.failure == BAD_ARGUMENTS
    assert fake.log[-1] == "down"


def test_an_error_of_a_fault_is_reported(make: Any, fake: Any) -> None:
    fake.failing = {"kill"}
    outcome = make([fault("kill", 0.1, 0.1, "n2")]).go()
    assert outcome.errors == ["fault: kill start: n2: RuntimeError: kill n2 does not work"]


def test_the_first_interrupt_ends_early_but_finishes_properly(make: Any, fake: Any) -> None:
    run = make((), HOUR_S)
    later(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    outcome = run.go()
    assert outcome.interrupted
    assert outcome.errors == []
    assert fake.log[-5:] == ["ready", "stop", "collect", "close", "down"]
    ops = read_lines(outcome.folder / "history.jsonl", Op)
    assert any(op.final for op in ops)


def test_sigterm_counts_as_an_interrupt(make: Any, fake: Any) -> None:
    run = make((), HOUR_S)
    later(0.3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert run.go().interrupted


def test_the_second_interrupt_tears_down_at_once(make: Any, fake: Any) -> None:
    run = make((), HOUR_S)

    def hang(timeout_s: float) -> str:
        fake._did("ready")
        if fake.log.count("ready") > 1:
            threading.Event().wait(HOUR_S)
        return "leader n1"

    fake.ready = hang
    later(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    later(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    outcome = run.go()
    assert outcome.interrupted
    assert "collect" not in fake.log
    assert fake.log[-2:] == ["close", "down"]
    assert read_history(outcome.folder).num_rows > 0


def test_an_interrupt_during_set_up_tears_down(make: Any, fake: Any) -> None:
    run = make()

    def slow(timeout_s: float) -> str:
        threading.Event().wait(HOUR_S)
        return ""

    fake.ready = slow
    later(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    outcome = run.go()
    assert outcome.interrupted
    assert fake.log[-2:] == ["close", "down"]


def test_a_full_disk_ends_the_run_keeps_the_history_and_heals(
    make: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make([fault("partition", 0.1, 60, "n1")], 60)
    real, written = os.write, 0

    def limited(fd: int, data: bytes) -> int:
        nonlocal written
        written += 1
        if written > 60:
            raise OSError(28, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(os, "write", limited)
    outcome = run.go()
    (error,) = outcome.errors
    assert error.startswith("run: ")
    assert "No space left on device; what was written before is kept" in error
    assert outcome.judgeable is False
    assert "heal" in fake.log
    assert fake.log[-1] == "down"
    assert read_history(outcome.folder).num_rows > 10


def test_a_cluster_that_does_not_recover_is_no_harness_error(make: Any, fake: Any) -> None:
    def never(timeout_s: float) -> str:
        fake._did("ready")
        if fake.log.count("ready") > 1:
            raise TimeoutError("no leader for 30 s")
        return "leader n1"

    fake.ready = never
    outcome = make().go()
    assert outcome.errors == []
    test = msgspec.json.decode((outcome.folder / "test.json").read_bytes())
    assert test["recovered_s"] is None
    assert "the healed cluster did not recover: no leader for 30 s" in fake.said
