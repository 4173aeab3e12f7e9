"""Elle called as a program; a program with the same interface replaces it here."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.elle import binding
from kraftwreck.checkers.elle.binding import (
    ElleError,
    ElleMissingError,
    Limits,
    check_all_with_elle,
    check_with_elle,
    find_elle,
    parse_results,
)
from kraftwreck.checkers.elle.check import Options, analyze
from kraftwreck.checkers.elle.closed import Closed
from kraftwreck.histories.operation import Op
from kraftwreck.histories.verdict import CheckerResult
from tests.waiting import wait_until

Build = Callable[[Sequence[tuple[Any, ...]]], list[Op]]
Program = Callable[[str], str]
BROKEN = [(0, "ax1", "fail"), (1, "rx[1]"), (2, "rx[1]")]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Write a program of the given Python text and return its path."""

    def write(text: str) -> str:
        path = tmp_path / "elle-cli"
        path.write_text("#!/usr/bin/env python3\nimport json, sys, time\n" + textwrap.dedent(text))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return write


def test_its_result_becomes_a_verdict_with_explanations(build: Build, program: Program) -> None:
    result = analyze(build(BROKEN), "list-append", Options()).result
    elle = program(f"print('INFO [main] elle', file=sys.stderr)\nprint({json.dumps(result)!r})")
    found = check_with_elle(build(BROKEN), "list-append", Options(), command=elle)
    assert found.valid is False
    assert [anomaly.type for anomaly in found.anomalies] == ["G1a", "G1a"]
    assert found.anomalies[0].operations == [3, 1]
    assert found.stats["elle"]["not"] == ["read-committed"]


@pytest.mark.interpreted
def test_a_verdict_counts_though_the_program_did_not_end_in_time(
    build: Build, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(arguments: list[str], folder: Path, limits: Limits) -> CheckerResult:
        (folder / "stdout").write_text('{"valid?": true}')
        return CheckerResult(valid="unknown", stats={}, error="too late")

    monkeypatch.setattr(binding, "_run", late)
    found = check_all_with_elle([build(BROKEN)], "list-append", Options(), command=program(""))
    assert [result.valid for result in found if isinstance(result, CheckerResult)] == [True]
    assert len(found) == 1


@pytest.mark.interpreted
def test_the_last_verdict_of_a_program_that_failed_does_not_count(
    build: Build, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[ElleError | None] = [ElleError("it failed"), None]

    def run(arguments: list[str], folder: Path, limits: Limits) -> ElleError | None:
        count = sum(word.endswith(".json") for word in arguments)
        (folder / "stdout").write_text('{"valid?": true}\n' * count)
        return failures.pop(0)

    monkeypatch.setattr(binding, "_run", run)
    histories = [build(BROKEN)] * 3
    found = check_all_with_elle(histories, "list-append", Options(), command=program(""))
    assert [isinstance(result, ElleError) for result in found] == [False, False, True]
    assert len(failures) == 1


def test_a_search_of_cycles_gets_a_millisecond_at_least(build: Build, program: Program) -> None:
    elle = program('print(json.dumps({"valid?": True, "said": sys.argv[1:-1]}))')
    asked = Options(cycle_search_seconds=0.0)
    found = check_with_elle(build(BROKEN), "list-append", asked, command=elle)
    assert found.stats["elle"]["said"][-2:] == ["-s", "1"]


def test_options_are_passed_to_elle(build: Build, program: Program) -> None:
    elle = program(
        """
        history = json.load(open(sys.argv[-1]))
        print(json.dumps({"valid?": "unknown", "anomaly-types": [], "said": sys.argv[1:-1],
                          "ops": history, "anomalies": {}}))
        """
    )
    asked = Options(consistency_models=["serializable", "PL-SI"], anomalies=["G1a", "G0"])
    found = check_with_elle(build(BROKEN), "list-append", asked, command=elle)
    assert found.valid == "unknown"
    said = found.stats["elle"]
    assert said["said"] == [
        "-m", "list-append", "-v", "-f", "json", "-c", "serializable,PL-SI", "-a", "G1a,G0",
        "-s", "10000",
    ]  # fmt: skip
    asked = Options(consistency_models=[], anomalies=["internal"])
    found = check_with_elle(build(BROKEN), "list-append", asked, command=elle)
    # Without -c and -a elle-cli falls back to strict-serializable and G0.
    assert found.stats["elle"]["said"][5:9] == ["-c", "", "-a", "internal"]
    found = check_with_elle(build(BROKEN), "list-append", Options(), command=elle)
    assert found.stats["elle"]["said"][5:9] == ["-c", "strict-serializable", "-a", ""]
    assert said["ops"][3]["value"] == [["r", "x", [1]]]
    assert said["ops"][3]["type"] == "ok"


def test_an_unknown_with_exit_code_0_stays_unknown(build: Build, program: Program) -> None:
    text = "{:valid? :unknown, :anomaly-types (:empty-transaction-graph), :anomalies {}}"
    found = check_with_elle(
        build(BROKEN), "list-append", Options(), command=program(f"print({text!r})")
    )
    assert found.valid == "unknown"
    assert found.error == "unknown: empty-transaction-graph"


@pytest.mark.parametrize(
    "text",
    [
        '{"valid?": false, "anomaly-types": ["G1a", "G0"], "not": ["read-uncommitted"]}',
        "12:01 INFO [main] jepsen - hi\n{:valid? false\n :anomaly-types (:G1a :G0)"
        "\n :not #{:read-uncommitted}}\n",
    ],
)
def test_json_and_edn_say_the_same(text: str) -> None:
    expected = {"valid?": False, "anomaly-types": ["G0", "G1a"], "not": ["read-uncommitted"]}
    assert parse_results(text) == [expected]
    assert parse_results(f"{text}\nINFO [main] next\n{text}") == [expected, expected]


@pytest.mark.parametrize("text", ["", "history.json \t true", "{", "{:a 1}"])
def test_output_without_a_result_is_an_error_with_what_was_printed(
    build: Build, program: Program, text: str
) -> None:
    elle = program(f"print({text!r}); print('Unknown option -q', file=sys.stderr); sys.exit(1)")
    with pytest.raises(ElleError, match=r"Elle printed no result: Unknown option -q$"):
        check_with_elle(build(BROKEN), "list-append", Options(), command=elle)


def test_result_with_a_strange_verdict_is_an_error() -> None:
    with pytest.raises(ElleError, match="Elle's verdict is 3"):
        parse_results('{"valid?": 3}')


def test_a_stack_trace_becomes_one_line(build: Build, program: Program) -> None:
    elle = program("print('java.lang.AssertionError: no\\n  at x', file=sys.stderr); sys.exit(255)")
    with pytest.raises(ElleError, match=r"exit code 255: java\.lang\.AssertionError: no$"):
        check_with_elle(build(BROKEN), "list-append", Options(), command=elle)


def test_one_that_takes_too_long_is_ended_with_its_children(build: Build, tmp_path: Path) -> None:
    """A shell is there sooner than Python: also on a busy machine it has a child in time."""
    elle = tmp_path / "elle-cli"
    elle.write_text(f"#!/bin/sh\nsleep 600 &\necho $! >{shlex.quote(str(tmp_path))}/child\nwait\n")
    elle.chmod(0o755)
    found = check_with_elle(
        build(BROKEN), "list-append", Options(), command=str(elle), limits=Limits(seconds=5)
    )
    assert found.valid == "unknown"
    assert found.error == "Elle did not answer within 5 s"
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not _alive(child))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_however_a_check_ends_nothing_of_elle_stays(
    build: Build, program: Program, tmp_path: Path, number: signal.Signals
) -> None:
    """Elle is a wrapper script here, with a JVM below it."""
    elle = program(
        f"""
        import os, subprocess
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open({str(tmp_path / "told.new")!r}, "w") as told:
            told.write(f"{{child.pid}} {{os.getpid()}} {{os.getcwd()}}")
        os.rename({str(tmp_path / "told.new")!r}, {str(tmp_path / "told")!r})
        time.sleep(600)
        """
    )
    history = tmp_path / "history.jsonl"
    history.write_bytes(b"".join(msgspec.json.encode(op) + b"\n" for op in build(BROKEN)))
    words = ["check", str(history), "-m", "list-append", "--engine", "elle", "--elle", elle]
    check = subprocess.Popen([sys.executable, "-m", "kraftwreck", *words])
    try:
        wait_until((tmp_path / "told").exists)
        child, parent, folder = (tmp_path / "told").read_text().split()
        check.send_signal(number)
        check.wait()
        wait_until(lambda: not _alive(int(child)) and not _alive(int(parent)))
        wait_until(lambda: not Path(folder).exists())
    finally:
        check.kill()


def test_a_program_that_cannot_be_started_is_one_line(build: Build, tmp_path: Path) -> None:
    elle = tmp_path / "elle-cli"
    elle.write_bytes(b"\x7fELF")
    elle.chmod(0o755)
    with pytest.raises(ElleError, match=r"Elle failed with exit code 126: Error: .*Exec format"):
        check_with_elle(build(BROKEN), "list-append", Options(), command=str(elle))


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_one_that_holds_too_much_memory_is_ended(build: Build, program: Program) -> None:
    elle = program("held = bytearray(b'x' * (300 << 20)); time.sleep(600)")
    found = check_with_elle(
        build(BROKEN), "list-append", Options(), command=elle,
        limits=Limits(seconds=120, megabytes=100),
    )  # fmt: skip
    assert found.valid == "unknown"
    assert found.error is not None
    assert "MB of memory, more than 100 MB" in found.error


def test_it_is_found_by_word_by_environment_and_on_the_path(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elle = program("pass")
    monkeypatch.delenv("KRAFTWRECK_ELLE", raising=False)
    assert find_elle(f"{elle} --flag") == [elle, "--flag"]
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert find_elle() == [elle]
    monkeypatch.setenv("KRAFTWRECK_ELLE", f"{elle} again")
    assert find_elle() == [elle, "again"]


def test_a_missing_program_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KRAFTWRECK_ELLE", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ElleMissingError, match="there is no elle-cli: install Java and elle-cli"):
        find_elle()
    with pytest.raises(ElleMissingError, match=r"there is no /nowhere/elle\.jar"):
        find_elle("/nowhere/elle.jar")


def test_options_that_elle_lacks_are_refused(build: Build) -> None:
    with pytest.raises(ElleError, match="use --engine native"):
        check_with_elle(build([]), "rw-register", Options(wfr_keys=True))


def test_open_invocations_get_an_info_completion_and_keep_their_index(
    build: Build, program: Program
) -> None:
    elle = program(
        """
        ops = json.load(open(sys.argv[-1]))
        print(json.dumps({"valid?": False, "anomaly-types": ["G1a"], "ops": ops, "anomalies": {
            "G1a": [{"op": ops[2], "mop": ["r", "x", [1]], "writer": ops[-1], "element": 1}]}}))
        """
    )
    ops = build([("begin", 0, "ax1"), ("begin", 1, "rx_"), ("end", 1, "rx[1]")])
    found = check_with_elle(ops, "list-append", Options(), command=elle)
    said = found.stats["elle"]
    # The last one is the completion that was added for Elle.
    assert [op["type"] for op in said["ops"]] == ["invoke", "invoke", "ok", "invoke"]
    assert [op["index"] for op in said["ops"]] == [0, 1, 2, 0]
    assert found.anomalies[0].operations == [2, 0]


def test_completion_of_an_open_invocation_comes_before_the_next_of_its_process(
    build: Build,
) -> None:
    ops = build([("begin", 0, "ax1"), (0, "ax2"), ("begin", 1, "ay1")])
    closed = Closed.of(ops)
    assert [(op.process, op.type) for op in closed.ops] == [
        (0, "invoke"), (0, "info"), (0, "invoke"), (0, "ok"), (1, "invoke"), (1, "info"),
    ]  # fmt: skip
    assert [op.index for op in closed.ops] == [0, 1, 2, 3, 4, 5]
    assert closed.restored({"scc": [1, 5]}) == {"scc": [0, 3]}


def test_a_history_that_ends_elle_keeps_no_other_from_its_verdict(
    build: Build, program: Program
) -> None:
    elle = program(
        """
        for path in sys.argv[13 - 1:]:
            ops = json.load(open(path))
            if ops[0]["value"][0][2] == 3:
                sys.exit("java.lang.AssertionError: no")
            print(json.dumps({"valid?": True}, indent=1))
        sys.exit(0)
        """
    )
    histories = [build([(0, f"ax{number}")]) for number in (1, 2, 3, 4)]
    found = check_all_with_elle(histories, "list-append", Options(), command=elle)
    assert [isinstance(verdict, ElleError) for verdict in found] == [False, False, True, False]
    assert str(found[2]) == "Elle printed no result: java.lang.AssertionError: no"


@pytest.mark.parametrize(("words", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", -15)])
def test_a_program_with_a_lifeline_ends_as_it_would_without(words: str, code: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(binding._LIFELINE), "sh", "-c", words],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.wait() == code
    for pipe in (process.stdin, process.stderr):
        assert pipe is not None
        pipe.close()
