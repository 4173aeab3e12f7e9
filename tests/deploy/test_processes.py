"""Processes by name on a real host: readiness, limits, signals, files with any name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftwreck.harness.clusters.healing import heal_hosts
from kraftwreck.harness.deploy.declaration import (
    CommandSucceeds,
    HttpAnswer,
    OutputLine,
    PortOpen,
    Process,
    Ready,
)
from kraftwreck.harness.deploy.deployment import LEFT_OUT, PlainDeployment
from kraftwreck.harness.remote.session import RemoteError
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster
Deploy = Callable[..., PlainDeployment]
Command = Callable[..., tuple[str, ...]]


def processes_with(deployment: PlainDeployment, word: str) -> list[str]:
    """The pids on the host, by another program, whose command line has ``word``."""
    listed = deployment.remotes["n1"].run(["ps", "-eo", "pid,stat,args"]).text
    return [line for line in listed.splitlines() if word in line]


@pytest.mark.parametrize(
    "ready",
    [
        PortOpen(7000),
        HttpAnswer(7000, "/healthy", text="good day"),
        OutputLine("^ready to serve$"),
        CommandSucceeds(("/bin/sh", "-c", 'test "$GREETING" = "good day" && test -e /run')),
    ],
    ids=lambda ready: type(ready).__name__,
)
def test_start_waits_until_the_process_is_ready(
    deploy: Deploy, command: Command, ready: Ready
) -> None:
    late = () if isinstance(ready, CommandSucceeds) else ("--late", 0.4)
    process = Process(
        argv=command("serve", *late),
        ready=ready,
        ports={"client": 7000},
        environment={"GREETING": "good day"},
    )
    deployment = deploy(process)
    deployment.install_and_start()
    evidence = deployment.status("n1")
    assert evidence["running"]
    assert deployment.start("n1")["started"] is False
    deployment.stop("n1")
    again = deployment.start("n1")
    assert again["ready_after_ms"] >= (400 if late else 0)
    assert deployment.notes == []


def test_processes_of_a_host_are_hit_by_name(deploy: Deploy, command: Command) -> None:
    deployment = deploy(
        Process(argv=command("serve", "a-server"), ready=PortOpen(7000)),
        Process(name="sentinel", argv=command("serve", "a-guard", port=7001), ready=PortOpen(7001)),
    )
    deployment.install_and_start()
    killed = deployment.kill("n1/sentinel")
    assert (killed["after"], killed["before"]) == ("ESRCH", "S")
    assert processes_with(deployment, "a-guard") == []
    assert len(processes_with(deployment, "a-server")) == 1
    assert deployment.pause("n1")["after"] == "T"
    assert " T" in processes_with(deployment, "a-server")[0]
    assert deployment.resume("n1")["after"] != "T"
    with pytest.raises(RemoteError, match="n1: sentinel: pause_service: the service does not run"):
        deployment.pause("n1/sentinel")
    assert deployment.start("n1/sentinel")["started"]


def test_a_kill_reaches_processes_that_left_session_and_parent(
    deploy: Deploy, command: Command
) -> None:
    deployment = deploy(
        Process(argv=command("serve", "--leave-child"), ready=PortOpen(7000)),
    )
    deployment.install_and_start()
    assert len(processes_with(deployment, "--leave-child")) == 2
    assert deployment.pause("n1")["processes"] == 2
    assert deployment.kill("n1")["processes"] == 2
    assert processes_with(deployment, "--leave-child") == []


@pytest.mark.parametrize(
    ("mode", "ready_s", "message"),
    [
        (("exit", 3), 300.0, "ended with status 3 before it was ready; its last line: the config"),
        (("background",), 300.0, "went to the background: .* start it in the foreground"),
        (("silent",), 1.0, "is not ready after 1 s: port 7000 is closed; its output is empty"),
    ],
    ids=["exits-at-once", "forks-away", "never-ready"],
)
def test_a_process_that_does_not_serve_is_one_line_and_its_output_is_collected(
    deploy: Deploy,
    command: Command,
    tmp_path: Path,
    mode: tuple[object, ...],
    ready_s: float,
    message: str,
) -> None:
    process = Process(argv=command(*mode), ready=PortOpen(7000), ready_s=ready_s)
    deployment = deploy(process)
    with pytest.raises(RemoteError, match=message) as raised:
        deployment.install_and_start()
    assert "\n" not in str(raised.value)
    deployment.stop_all(0.0)
    assert processes_with(deployment, "server.py") == []
    deployment.collect(tmp_path)
    output = (tmp_path / "nodes/n1/stdout.log").read_bytes()
    assert (bytes(range(256)) in output) is (mode[0] == "exit")


def test_a_program_that_cannot_be_executed_is_one_line(deploy: Deploy) -> None:
    deployment = deploy(Process(argv=("/no/such/program",)))
    with pytest.raises(RemoteError, match=r"/no/such/program: .*No such file"):
        deployment.install_and_start()


def test_a_process_that_ignores_its_stop_signal_is_killed_and_noted(
    deploy: Deploy, command: Command
) -> None:
    process = Process(argv=command("serve", "--ignore-term"), ready=OutputLine("ready"), stop_s=0.5)
    deployment = deploy(process)
    deployment.install_and_start()
    assert deployment.stop("n1")["signal"] == "SIGKILL"
    assert deployment.notes == ["n1 did not end within 0.5 s of SIGTERM; it was killed"]
    assert processes_with(deployment, "--ignore-term") == []


def test_a_process_that_fills_its_disk_is_killed_within_its_limit(
    deploy: Deploy, command: Command
) -> None:
    folder = "/var/lib/kraftwreck/main"
    process = Process(argv=command("fill", folder), folders=(folder,), disk_limit_mb=20)
    deployment = deploy(process)
    deployment.install_and_start()
    wait_until(lambda: not deployment.status("n1")["running"])
    status = deployment.status("n1")
    assert re.fullmatch(r"it was killed .* take \d+ MB .* limit of 20 MB", status["why"])
    assert status["full_mb"] < 400
    deployment.stop("n1")
    assert "more than its limit of 20 MB" in deployment.notes[0]


def test_files_with_odd_names_are_collected_and_large_ones_left_out(
    deploy: Deploy, command: Command, tmp_path: Path
) -> None:
    data = "/var/lib/kraftwreck/main"
    process = Process(
        argv=command("serve"),
        ready=PortOpen(7000),
        folders=(data,),
        collect=(data,),
        collect_mb=1,
        images=True,
    )
    deployment = deploy(process)
    deployment.install_and_start()
    script = r"""
cd "$1"; printf x > "$(printf 'new\nline')"; printf x > '$(touch hacked) ;"'\''`'
printf x > "$(printf 'not-utf8-\377')"; printf x > --verbose; mkdir '..dir' && printf x > '..dir/ f'
mkfifo pipe; ln -s /etc/shadow link; truncate -s 300M holes; head -c 2000000 /dev/urandom > large
"""
    deployment.remotes["n1"].run(["sh", "-c", script, "sh", data])
    deployment.kill("n1", "kill-1")
    deployment.collect(tmp_path)
    copied = tmp_path / "nodes/n1/files" / data.lstrip("/")
    names = {os.fsencode(path.relative_to(copied)) for path in copied.rglob("*") if path.is_file()}
    assert names == {
        b"new\nline",
        b"$(touch hacked) ;\"'`",
        b"not-utf8-\xff",
        b"--verbose",
        b"..dir/ f",
        b"holes",
    }
    assert (copied / "holes").stat().st_size == 300 << 20
    assert (copied / "holes").stat().st_blocks < 1000
    left_out = (tmp_path / "nodes/n1" / LEFT_OUT).read_text()
    assert f"{data}/large" in left_out
    assert (tmp_path / "nodes/n1/images/kill-1/--verbose").is_file()


def test_another_user_runs_it_with_a_clean_environment(deploy: Deploy, command: Command) -> None:
    data = "/var/lib/kraftwreck/main"
    script = 'id -un; env | sort; echo mine > "$1/file"; sleep 100'
    process = Process(
        argv=("/bin/sh", "-c", script, "sh", data),
        user="nobody",
        folders=(data,),
        environment={"A": "it's; $(quoted)"},
        ready=OutputLine("^PATH="),
    )
    deployment = deploy(process)
    deployment.install_and_start()
    lines = deployment.remotes["n1"].get("/var/log/kraftwreck/main/stdout.log").decode()
    shown = dict(line.partition("=")[::2] for line in lines.splitlines()[1:])
    assert lines.startswith("nobody\n")
    assert set(shown) <= {"A", "HOME", "LANG", "PATH", "PWD", "OLDPWD", "SHLVL", "_"}
    assert shown["A"] == "it's; $(quoted)"
    owner = deployment.remotes["n1"].run(["stat", "-c", "%U", f"{data}/file"]).text
    assert owner == "nobody"


def test_a_port_that_is_taken_is_named(deploy: Deploy, command: Command) -> None:
    main = Process(argv=command("serve"), ready=PortOpen(7000))
    second = Process(
        name="second", argv=command("serve"), ready=PortOpen(7000), ports={"client": 7000}
    )
    with pytest.raises(RemoteError, match=r"n1: second: .*port \S+:7000 \(client\) is taken"):
        deploy(main, second).install_and_start()


def test_processes_of_a_run_that_was_cut_off_are_healed_and_ended_by_the_next_one(
    deploy: Deploy, command: Command
) -> None:
    first = deploy(Process(argv=command("serve", "the-first"), ready=PortOpen(7000)))
    first.install_and_start()
    first.pause("n1")
    first.close()
    (healed,) = heal_hosts(list(first.hosts.values())).values()
    assert healed["resumed"] == ["n1"]
    assert [line.split()[1][0] for line in processes_with(first, "the-first")] != ["T"]
    second = deploy(Process(argv=command("serve", "the-second"), ready=PortOpen(7000)))
    second.install_and_start()
    assert processes_with(second, "the-first") == []
    assert len(processes_with(second, "the-second")) == 1
