"""One node process: how it starts, is refused a start, and ends."""

from __future__ import annotations

import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.archive import build_archive

ROOT = Path(__file__).resolve().parents[2]
BAD_CONFIG = 254


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kraftwreck.nodes.server", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def single(make_cluster: Callable[[int], Any]) -> Any:
    return make_cluster(1)


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr


def test_a_node_counts_its_starts_and_stops_when_asked(single: Any) -> None:
    for start in (1, 2):
        single.start()
        assert single.controller() == 1
        assert single.create(f"t{start}") == 0
        assert single.stop(1) == 0
        assert {t["incarnation"] for t in single.traces(1)} == set(range(1, start + 1))
    single.start()
    single.controller()
    assert single.topics(1) == ["t1", "t2"]
    single.processes[1].send_signal(signal.SIGINT)
    assert single.processes.pop(1).wait(300) == 0


def test_formatting_twice_changes_nothing(single: Any) -> None:
    meta = single.path(1, "data") / "meta.properties"
    before = meta.read_text()
    assert run("format", "--config", str(single.config(1))).returncode == 0
    assert meta.read_text() == before


def test_formatting_prepares_a_new_directory(single: Any) -> None:
    path = single.config(1)
    path.write_text(path.read_text().replace("/data", "/new"))
    assert run("--config", str(path)).returncode == BAD_CONFIG
    assert run("format", "--config", str(path)).returncode == 0
    assert "cluster.id=loopback-cluster" in (single.path(1, "new/meta.properties")).read_text()
    single.start()
    assert single.controller() == 1


def test_nothing_is_readable_by_others(single: Any) -> None:
    single.path(1, "data/meta.properties").unlink()
    single.path(1, "data").rmdir()
    assert run("format", "--config", str(single.config(1))).returncode == 0
    single.start()
    single.controller()
    for name in ("data", "trace.jsonl", "inputs.log"):
        mode = stat.S_IMODE(single.path(1, name).stat().st_mode)
        assert mode & 0o077 == 0, f"{name} has mode {mode:o}"


def test_only_the_configured_address_is_bound(single: Any) -> None:
    single.start()
    single.controller()
    process = single.processes[1].pid
    targets = set()
    for link in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # a file of one moment
            targets.add(str(link.readlink()))
    sockets = {target[8:-1] for target in targets if target.startswith("socket:[")}
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6", "udp", "udp6")
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]
        if line.split()[9] in sockets and line.split()[3] in ("0A", "07")
    ]
    assert listening == [f"0100007F:{single.ports[1]:04X}"]


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (("node.id=1", "node.id=2"), "not among controller.quorum.voters"),
        (("node.id=1", "node.identity=1"), "unknown property node.identity"),
        (("cluster.id=loopback-cluster", "cluster.id=other"), "belongs to cluster"),
        (("/data", "/elsewhere"), "is not formatted"),
        (("CONTROLLER://127.0.0.1", "CONTROLLER://192.0.2.1"), "cannot listen on 192.0.2.1"),
    ],
)
def test_a_bad_configuration_is_one_clear_line(
    single: Any, edit: tuple[str, str], reason: str
) -> None:
    path = single.config(1)
    path.write_text(path.read_text().replace(*edit))
    result = run("--config", str(path))
    assert result.returncode == BAD_CONFIG
    assert reason in one_line(result)


def test_bad_arguments_are_one_clear_line(tmp_path: Path) -> None:
    for arguments in ((), ("--config", str(tmp_path / "missing")), ("--cfg", "x"), ("stop",)):
        result = run(*arguments)
        assert result.returncode == BAD_CONFIG
        one_line(result)


def test_a_taken_port_is_one_clear_line(single: Any) -> None:
    with socket.create_server(("127.0.0.1", single.ports[1])):
        result = run("--config", str(single.config(1)))
    assert result.returncode == BAD_CONFIG
    assert "Address already in use" in one_line(result)
    assert not (single.path(1, "data") / "incarnation").exists(), "that was no start"


def test_a_damaged_disk_is_one_clear_line(single: Any) -> None:
    single.start()
    single.controller()
    single.stop(1)
    (single.path(1, "data") / "__cluster_metadata-0" / "quorum-state").write_text("nonsense")
    result = run("--config", str(single.config(1)))
    assert result.returncode == 1
    assert "quorum-state" in one_line(result)


def test_one_zip_runs_on_a_bare_python(single: Any, tmp_path: Path) -> None:
    archive = tmp_path / "kraftwreck-nodes.pyz"
    archive.write_bytes(build_archive())
    command = [sys.executable, "-I", "-S", str(archive), "--config", str(single.config(1))]
    single.processes[1] = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    assert single.controller() == 1
    assert single.create("t") == 0
    assert single.stop(1) == 0
