"""Clients in other languages speak JSON lines; a helper that fails costs one operation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.client import Completion
from kraftwreck.harness.deploy.clients import GuardedConnection
from kraftwreck.harness.deploy.declaration import Place
from kraftwreck.harness.deploy.line_clients import HelperPrograms
from kraftwreck.histories.operation import INVOKE, Op

HELPERS = Path(__file__).resolve().parent / "line_helpers"
SHELL = ("/bin/sh", "-c")
N1, N2, N9 = (Place(f"n{i}", i, f"10.0.0.{i}", "node") for i in (1, 2, 9))


@pytest.fixture
def programs() -> Iterator[HelperPrograms]:
    made = HelperPrograms([sys.executable, str(HELPERS / "registers.py")])
    yield made
    made.close()


@pytest.fixture(scope="session")
def go_helper(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of the helper in Go; skip without Go."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed: scripts/setup --test")
    built = tmp_path_factory.mktemp("go") / "registers"
    command = ["go", "build", "-trimpath", "-o", str(built), "."]  # as scripts/setup did
    subprocess.run(command, cwd=HELPERS / "go", check=True, env={**os.environ, "GOFLAGS": ""})
    return [str(built)]


def op(f: str, key: Any = None, value: Any = None) -> Op:
    return Op(index=0, process=4, type=INVOKE, f=f, key=key, value=value, time=0)


def connected(
    programs: HelperPrograms, place: Place, thread: str = "t1", limit: float = 5.0
) -> GuardedConnection:
    return GuardedConnection(lambda: programs.client(place, thread, limit))


def invoke(connection: GuardedConnection, asked: Op) -> Completion:
    told = connection.send(asked, 10_000).response
    assert isinstance(told, Completion)
    return told


@pytest.mark.parametrize("language", ["python", "go"])
def test_a_helper_carries_operations_out(request: pytest.FixtureRequest, language: str) -> None:
    argv = [sys.executable, str(HELPERS / "registers.py")]
    if language == "go":
        argv = request.getfixturevalue("go_helper")
    programs = HelperPrograms(argv, hello={"system": "registers"})
    connection = connected(programs, N1)
    assert invoke(connection, op("read", 1)).value is None
    assert invoke(connection, op("write", 1, {"a": [1, "é\n"]})).type == "ok"
    assert invoke(connection, op("read", 1)) == Completion("ok", {"a": [1, "é\n"]})
    if language == "go":
        assert invoke(connection, op("cas")) == Completion("fail", error="unknown operation cas")
    programs.close()


@pytest.mark.parametrize(
    ("f", "error"),
    [
        ("wait", "no answer to wait in 0.5 s"),
        ("garbage", "an answer that is not JSON: 'this is not JSON'"),
        ("stray", "an answer to another request than 3"),
        ("odd", "an answer that is not ok, fail or info"),
        ("die", "it ended with status 7: Traceback: out of luck"),
    ],
)
def test_a_failing_helper_is_an_info_and_another_one_is_started(
    programs: HelperPrograms, f: str, error: str
) -> None:
    connection = connected(programs, N1, limit=0.5)
    wrong = invoke(connection, op(f))
    assert wrong.type == "info"
    assert wrong.error is not None
    assert wrong.error.startswith(f"helper `{sys.executable} ")
    assert error in wrong.error
    connection.close()
    assert invoke(connected(programs, N1), op("write", 1, 2)).type == "ok"


def test_a_node_that_cannot_be_reached_is_a_fail(programs: HelperPrograms) -> None:
    told = invoke(connected(programs, N9), op("read"))
    assert (told.type, told.error) == (
        "fail",
        "no connection: ConnectionError: n9 refused the connection",
    )


def test_one_helper_serves_all_nodes_of_a_thread_and_then_another_thread(
    programs: HelperPrograms,
) -> None:
    first, second = connected(programs, N1), connected(programs, N2)
    other = connected(programs, N1, "t2")
    pids = [invoke(each, op("pid")).value for each in (first, second, other)]
    assert pids[0] == pids[1] != pids[2]
    client = programs.client(N1, "t3", 5.0)
    fresh = client.invoke(op("pid")).value
    assert fresh not in pids
    client.close()
    assert programs.client(N1, "t4", 5.0).invoke(op("pid")).value == fresh


def test_a_helper_that_does_not_exist_or_speaks_another_protocol_is_one_line() -> None:
    for argv, error in (
        (["/no/such/helper"], "helper `/no/such/helper`: No such file or directory"),
        (["/bin/true"], "helper `/bin/true`: it ended with status 0"),
        (["/bin/cat"], "open was answered by"),
        ([*SHELL, "read line; echo '{\"id\": 1}'"], "hello was answered by"),
    ):
        programs = HelperPrograms(argv)
        told = invoke(connected(programs, N1), op("read"))
        assert told.type == "info"
        assert error in str(told.error)
        programs.close()


def test_helpers_that_were_started_early_go_to_the_threads_that_need_them(
    programs: HelperPrograms,
) -> None:
    programs.start(2)
    early = set(programs._of.values())
    clients = [programs.client(N1, thread, 5.0) for thread in ("t1", "t2", "t3")]
    used = list(programs._of.values())
    assert len(set(used)) == 3
    assert early < set(used)
    for client in clients:
        client.close()
    assert {helper.clients for helper in used} == {0}


def test_a_helper_is_not_idle_between_its_choice_and_the_first_request(
    programs: HelperPrograms,
) -> None:
    programs.start(1)
    chosen = programs._helper("t1")
    assert programs._helper("t2") is not chosen


def test_a_helper_that_does_not_open_a_client_is_idle_again(programs: HelperPrograms) -> None:
    with pytest.raises(ConnectionError):
        programs.client(N9, "t1", 5.0)
    assert [helper.clients for helper in programs._of.values()] == [0]
