"""``kraftwreck run``: in the simulator, on namespaces, with planted bugs."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.clusters import netns
from kraftwreck.harness.clusters.cluster import ClusterUnavailable
from kraftwreck.harness.options import OptionError, RunOptions, repeat_command
from kraftwreck.harness.patched_nodes import patched_tree
from kraftwreck.harness.run import Outcome
from kraftwreck.histories.reading import read_history
from kraftwreck.histories.verdict import CheckerResult, Verdict
from kraftwreck.runs.whole import JudgedRun
from kraftwreck.systems import registry as systems_registry
from tests.waiting import wait_until

HARMLESS = "\n".join(
    [
        "--- a/nodes/draw.py",
        "+++ b/nodes/draw.py",
        "@@ -1,2 +1,3 @@",
        "+# patched",
        ' """Randomness by key, never by stream.',
        " ",
        "",
    ]
)


@pytest.mark.parametrize("workload", ["metadata", "register", "leader"])
def test_a_simulated_run_leaves_a_whole_folder(
    kraftwreck: Any, tmp_path: Path, workload: str
) -> None:
    ended = kraftwreck(
        "run", "-c", "sim", "-w", workload, "-t", 12, "--seed", 3, "--store", tmp_path, "--json"
    )
    assert ended.code == 0, ended.err
    said = json.loads(ended.out)
    assert said["valid"] is True
    assert said["checkers"]["invariants"] is True
    folder = Path(said["run"])
    assert (tmp_path / "latest").resolve() == folder
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "test.json", "history.jsonl", "history.parquet", "faults.jsonl", "trace.parquet",
        "nodes", "results.json", "report.html", "junit.xml",
    }  # fmt: skip
    assert {path.name for path in (folder / "nodes").iterdir()} == {f"n{i}" for i in range(1, 6)}
    lines = ended.err.splitlines()
    assert "verdict: valid" in lines
    strength = said["strength"]
    assert strength["faults"].keys() == {"partition", "kill", "pause", "power", "membership"}
    counts = f"{strength['acknowledged']:,} of {strength['operations']:,} operations acknowledged"
    (line,) = (line for line in lines if line.startswith("rests on "))
    assert counts in line
    words = line.removeprefix("rests on ")
    page = (folder / "report.html").read_text()
    assert f"It rests on {words}." in page
    # The page counts the same operations, and those after the last heal apart.
    final = sum(
        '"final":true' in line and '"type":"invoke"' in line
        for line in (folder / "history.jsonl").read_text().splitlines()
    )
    assert final > 0
    assert f" {strength['operations']:,} operations, {final} final operation" in page
    assert f'<property name="strength" value="{words}"' in (folder / "junit.xml").read_text()
    assert lines[-1] == f"repeat:  {said['repeat']}"


def test_a_run_below_its_floor_is_unknown_also_when_it_is_checked_again(
    kraftwreck: Any, tmp_path: Path
) -> None:
    ended = kraftwreck(
        "run", "-c", "sim", "-n", "none", "-t", 3, "--seed", 3, "--floor", "acknowledged=10000",
        "--store", tmp_path, "--json",
    )  # fmt: skip
    assert ended.code == 2
    said = json.loads(ended.out)
    assert said["valid"] == "unknown"
    assert "too little happened: " in ended.err
    assert " --floor acknowledged=10000 " in said["repeat"]
    again = kraftwreck("check", said["run"], "--json")
    assert again.code == 2
    report = json.loads(again.out)
    assert report["strength"] == said["strength"]
    assert report["checkers"]["strength"]["error"].startswith("too little happened: ")


def test_a_floor_that_cannot_be_read_is_one_line(kraftwreck: Any, tmp_path: Path) -> None:
    for command in ("run", "sim"):
        ended = kraftwreck(command, "--floor", "loud=1", "--store", tmp_path)
        assert ended.code == 254
        assert "--floor 'loud=1': unknown name 'loud'; use acknowledged, share" in ended.err


def test_the_repeat_command_repeats_the_run(kraftwreck: Any, tmp_path: Path) -> None:
    first = kraftwreck("run", "-c", "sim", "-t", 8, "--store", tmp_path, "--json")
    repeat = shlex.split(json.loads(first.out)["repeat"])
    assert repeat[0] == "kraftwreck"
    second = kraftwreck(*repeat[1:], "--json")
    one, two = (Path(json.loads(each.out)["run"]) for each in (first, second))
    assert one != two
    assert (one / "history.jsonl").read_bytes() == (two / "history.jsonl").read_bytes()
    assert (one / "faults.jsonl").read_bytes() == (two / "faults.jsonl").read_bytes()


def test_every_option_is_in_the_repeat_command() -> None:
    options = RunOptions(
        system="kraft", workload="register", faults=(), time_limit_s=7.5, cluster="hosts:a b",
        nodes=3, seed=5, rate=0.5, concurrency=2, mutant="R01", store=Path("/a store"),
    )  # fmt: skip
    assert repeat_command(options) == (
        "kraftwreck run kraft -w register -n none -t 7.5 -c 'hosts:a b' --nodes 3 --seed 5"
        " --rate 0.5 --concurrency 2 --mutant R01 --store '/a store'"
    )


def test_without_root_the_same_test_runs_in_the_simulator(
    kraftwreck: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise ClusterUnavailable("namespace hosts need root, this is an ordinary user")

    monkeypatch.setattr(netns, "probe", refuse)
    ended = kraftwreck("run", "-t", 8, "--seed", 1, "--store", tmp_path, "--json")
    assert ended.code == 0
    reason = "namespace hosts need root, this is an ordinary user"
    assert ended.err.splitlines()[0] == (
        f"{reason}: running the same test in the simulator (-c sim) instead"
    )
    assert f"verdict: valid (in the simulator: {reason})" in ended.err.splitlines()
    said = json.loads(ended.out)
    assert " -c sim " in said["repeat"]
    assert said["simulated_because"] == reason


@pytest.mark.parametrize("cluster", ["sim", None])
def test_another_system_is_never_replaced_by_a_simulated_kraft(
    kraftwreck: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: str | None
) -> None:
    def refuse() -> None:
        raise ClusterUnavailable("namespace hosts need root, this is an ordinary user")

    monkeypatch.setattr(netns, "probe", refuse)
    known: Any = systems_registry.systems()
    monkeypatch.setitem(known, "other", known["kraft"])
    chosen = [] if cluster is None else ["-c", cluster]
    ended = kraftwreck("run", "other", *chosen, "-t", 8, "--store", tmp_path / "store")
    assert ended.code == 254
    assert not (tmp_path / "store").exists()
    (line,) = ended.err.splitlines()
    reason = "other brings no core for the simulator" if cluster else "namespace hosts need root"
    assert reason in line


def test_namespaces_that_were_asked_for_are_not_replaced_by_the_simulator(
    kraftwreck: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise ClusterUnavailable("namespaces are refused here: Operation not permitted")

    monkeypatch.setattr(netns, "probe", refuse)
    ended = kraftwreck("run", "-c", "netns", "-t", 8, "--store", tmp_path / "store")
    assert ended.code == 254
    assert ended.err == "kraftwreck run: namespaces are refused here: Operation not permitted\n"
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("store", "code", "says"),
    [("file", 254, "is a file"), ("file/below", 254, "choose another --store")],
)
def test_a_store_that_cannot_be_written_is_one_line(
    kraftwreck: Any, tmp_path: Path, store: str, code: int, says: str
) -> None:
    (tmp_path / "file").write_text("a file")
    ended = kraftwreck("run", "-c", "sim", "-t", 1, "--store", tmp_path / store)
    assert ended.code == code
    assert says in ended.err.splitlines()[-1]


def test_patched_node_code_runs_and_ours_stays_as_it_is(kraftwreck: Any, tmp_path: Path) -> None:
    patch = tmp_path / "harmless.patch"
    patch.write_text(HARMLESS)
    ended = kraftwreck(
        "run", "-c", "sim", "-t", 10, "--seed", 1, "--patch", patch, "--store", tmp_path, "--json"
    )
    assert ended.code == 0, ended.err
    assert f"--patch {patch}" in json.loads(ended.out)["repeat"]


def test_a_patch_makes_a_copy(tmp_path: Path) -> None:
    patch = tmp_path / "harmless.patch"
    patch.write_text(HARMLESS)
    with patched_tree(patch) as tree:
        assert (tree / "draw.py").read_text().startswith("# patched\n")
        assert (tree / "__main__.py").exists()
    assert not tree.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a unified diff"),
        ("--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-a\n+b\n", "only nodes/ may be patched"),
        ("--- a/nodes/../x\n+++ b/nodes/../x\n@@ -1 +1 @@\n-a\n+b\n", "only nodes/ may be"),
        ("--- a/nodes/draw.py\n+++ b/nodes/draw.py\n@@ -1 +1 @@\n-a\n+b\n", "does not apply: "),
    ],
)
def test_a_bad_patch_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    patch = tmp_path / "bad.patch"
    patch.write_text(text)
    with pytest.raises(OptionError, match=message) as caught, patched_tree(patch):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("valid", "errors", "interrupted", "code"),
    [
        (True, [], False, 0),
        (False, [], False, 1),
        ("unknown", [], False, 2),
        (True, ["collect: n1: gone"], False, 255),
        (False, ["collect: n1: gone"], False, 1),
        (True, [], True, 130),
        (False, [], True, 130),
    ],
)
def test_exit_codes(valid: Any, errors: list[str], interrupted: bool, code: int) -> None:
    verdict = Verdict.of({"one": CheckerResult(valid=valid)})
    assert JudgedRun(Outcome(Path(), errors, interrupted), verdict, None).exit_code == code


# --- on namespaces --------------------------------------------------------------------------


@pytest.mark.cluster
@pytest.mark.slow
def test_a_run_on_namespaces(kraftwreck: Any, tmp_path: Path, netns_possible: None) -> None:
    ended = kraftwreck("run", "-t", 8, "--seed", 3, "--no-tables", "--store", tmp_path, "--json")
    assert ended.code == 0, ended.err
    said = json.loads(ended.out)
    assert said["errors"] == []
    folder = Path(said["run"])
    faults = [json.loads(line) for line in (folder / "faults.jsonl").read_text().splitlines()]
    assert {fault["phase"] for fault in faults} == {"start", "stop"}
    assert all(fault["error"] is None for fault in faults)
    # A fault proves that it took, or names the nodes that it had to skip (a pause of one that is
    # down). Changes of members prove nothing while they are open, and their end nothing new.
    assert all(
        fault["evidence"]
        or fault["detail"].get("skipped")
        or fault["detail"].get("changes", {}).get("open")
        or (fault["kind"], fault["phase"]) == ("membership", "stop")
        for fault in faults
    )
    assert any(fault["evidence"] for fault in faults)
    for node in ("n1", "n5"):
        kept = folder / "nodes" / node
        assert (kept / "trace.jsonl").stat().st_size > 0
        assert (kept / "images" / "final" / "__cluster_metadata-0").is_dir()


def test_hosts_that_refuse_ssh_are_one_line_and_255(kraftwreck: Any, tmp_path: Path) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    inventory = tmp_path / "hosts"
    inventory.write_text(f'n1 root@127.0.0.1:{port} hostkey="{key}"\n')
    ended = kraftwreck("run", "-c", f"hosts:{inventory}", "-t", 1, "--store", tmp_path, "--json")
    assert ended.code == 255
    (error,) = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    assert error.startswith("error: set-up: n1: ")
    said = json.loads(ended.out)
    assert said["valid"] == "unknown"
    assert not (tmp_path / "latest").is_symlink(), "nothing was judged"
    again = kraftwreck("replay", said["run"])
    assert again.code == 254
    assert again.err == (
        f"kraftwreck replay: {said['run']}: nothing to replay, the run did not start:"
        f" {said['errors'][0]}\n"
    )


@pytest.mark.cluster
@pytest.mark.whole_run
def test_a_run_on_namespaces_whose_network_is_disturbed(
    kraftwreck: Any, tmp_path: Path, netns_possible: None
) -> None:
    options = ("-n", "network,wire", "-t", 12, "--seed", 21, "--nodes", 3, "--no-tables")
    ended = kraftwreck("run", *options, "--store", tmp_path, "--json")
    assert ended.code == 0, ended.err
    said = json.loads(ended.out)
    assert said["errors"] == []
    faults = [
        json.loads(line) for line in (Path(said["run"]) / "faults.jsonl").read_text().splitlines()
    ]
    assert all(fault["error"] is None for fault in faults)
    disturbed = [fault for fault in faults if fault["kind"] in ("network", "wire")]
    assert {fault["kind"] for fault in disturbed} == {"network", "wire"}
    assert len({fault["shape"] for fault in disturbed}) >= 2
    for fault in disturbed:
        assert fault["detail"].get("disturbances") or fault["phase"] == "stop"
        told = [host[kind] for host in fault["evidence"].values() for kind in host
                if kind in ("packets", "messages", "names")]  # fmt: skip
        assert all("before" in each or "now" in each for each in told)


@pytest.mark.cluster
@pytest.mark.slow
def test_kill_9_of_the_harness_keeps_the_history_and_leaves_no_hosts(
    kraftwreck: Any, tmp_path: Path, netns_possible: None
) -> None:
    command = [sys.executable, "-m", "kraftwreck.cli.main", "run", "-t", "600", "--seed", "3"]
    command += ["--nodes", "3", "--no-tables"]
    with subprocess.Popen(
        [*command, "--store", str(tmp_path)], stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if " ok, " in line:
                break
        clusters = json.loads(kraftwreck("cluster", "status", "--json").out)["clusters"]
        (ours,) = [c for c in clusters if c["control_pid"] == run.pid]
        run.kill()
    (folder,) = (tmp_path / "kraft-metadata").glob("*.running")
    assert read_history(folder).num_rows > 0
    wait_until(
        lambda: all(
            c["id"] != ours["id"] or c["condition"] == "dead"
            for c in json.loads(kraftwreck("cluster", "status", "--json").out)["clusters"]
        ),
        "the hosts end with their control process",
    )


@pytest.mark.cluster
@pytest.mark.slow
def test_ctrl_c_ends_early_and_still_checks(tmp_path: Path, netns_possible: None) -> None:
    command = [sys.executable, "-m", "kraftwreck.cli.main", "run", "-t", "600", "--seed", "3"]
    command += ["--nodes", "3", "--no-tables"]
    with subprocess.Popen(
        [*command, "--store", str(tmp_path), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if " ok, " in line:
                break
        os.kill(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=300)
    assert run.returncode == 130, err
    said = json.loads(out)
    assert said["valid"] in (True, "unknown")
    assert said["errors"] == []
    assert (Path(said["run"]) / "report.html").exists()
