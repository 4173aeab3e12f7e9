"""Disks of nodes on hosts that are slow, full, broken, read-only, torn, or change a bit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.clusters.healing import heal_hosts
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.histories.reading import read_faults
from kraftwreck.nodes.draw import draw_below
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.remote.settings import DATA, LOGS
from kraftwreck.systems.kraft.system import SYSTEM, KraftDeployment
from tests.clusters.whole_run import assert_valid_and_replayed, carry_out, fault
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

PATIENCE_S = 60.0
MEASURE = """
import json, os, time
path = "/var/lib/kraftwreck/data/measured"
file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)
def attempt(action):
    began = time.monotonic()
    try:
        done = action()
        return [done if isinstance(done, int) else "done", time.monotonic() - began]
    except OSError as error:
        return [error.errno, time.monotonic() - began]
print(json.dumps({
    "write": attempt(lambda: os.write(file, bytes(4096))),
    "again": attempt(lambda: os.write(file, bytes(4096))),
    "fsync": attempt(lambda: os.fsync(file)),
    "read": attempt(lambda: len(os.pread(file, 1, 0)) and None),
    "rename": attempt(lambda: os.rename(path, path + ".new")),
    "elsewhere": attempt(lambda: os.write(os.open("/tmp/m", os.O_CREAT | os.O_RDWR), b"1")),
}))
"""


@pytest.fixture(scope="module")
def deployed(netns_possible: None, own_state_directories: Path) -> Iterator[KraftDeployment]:
    """Three nodes with disks of their own."""
    cluster = NetnsCluster(3)
    options = RunOptions(nodes=3, seed=4, faults=("disk",))
    up = SYSTEM.deploy(cluster.up(), options, PROJECT_TREE)
    assert isinstance(up, KraftDeployment)
    up.ready(PATIENCE_S)
    yield up
    up.stop()
    up.close()
    cluster.down()


@pytest.fixture
def env(deployed: KraftDeployment) -> Iterator[RemoteEnvironment]:
    assert isinstance(deployed.remote, RemoteEnvironment)
    yield deployed.remote
    assert deployed.remote.restore() == []
    deployed.ready(PATIENCE_S)


def measure(env: RemoteEnvironment, node: str) -> dict[str, list[Any]]:
    """Return what another program meets that works on the same files."""
    variables = [f"{key}={value}" for key, value in env.deployment.services["n1"]["env"].items()]
    command = ["env", *variables, "/usr/bin/python3", "-c", MEASURE]
    found: dict[str, list[Any]] = json.loads(env.deployment.remotes[node].run(command).stdout)
    return found


def draw_of(matches: Callable[[int], bool]) -> int:
    """Return a draw by which a trouble is as the test wants it."""
    return next(number for number in range(10_000) if matches(number))


def failing(operation: str, space: int = 3000) -> int:
    """Return a draw by which this fails at once, and a full disk has ``space`` bytes at most."""
    place = ("write", "fsync", "read").index(operation)
    return draw_of(
        lambda d: (
            draw_below(3, d, "failing") == place
            and draw_below(4, d, "after") == 0
            and draw_below(3000, d, "space") < space
        )
    )


def ended(env: RemoteEnvironment, node: str) -> dict[str, Any]:
    """Wait until the node's process has ended by itself; return its last trace event."""
    wait_until(lambda: not env.deployment.status(node)["running"])
    return last_traced(env, node)


def last_traced(env: RemoteEnvironment, node: str) -> dict[str, Any]:
    text = env.deployment.remotes[node].run(["tail", "-n", "1", f"{LOGS}/trace.jsonl"]).stdout
    last: dict[str, Any] = json.loads(text)
    return last


def test_a_slow_disk_makes_fsync_slow_and_nothing_else(env: RemoteEnvironment) -> None:
    slow = draw_of(lambda number: draw_below(91, number, "factor") > 80)
    env.trouble_disk("n2", "slow", slow)
    found = measure(env, "n2")
    assert found["fsync"][0] == "done"
    assert found["fsync"][1] >= 0.09, "a millisecond at least, 90 times"
    assert found["write"][0] == 4096
    assert env.deployment.status("n2")["running"]
    evidence = env.mend_disk("n2")["n2"]
    assert evidence["fsyncs"] >= 1
    assert evidence["slowest_fsync_us"] >= 90_000


@pytest.mark.parametrize(
    ("operation", "number"), [("write", 5), ("fsync", 5), ("read", 5)], ids=str
)
def test_disk_errors_affect_all_programs_of_the_node_only(
    env: RemoteEnvironment, operation: str, number: int
) -> None:
    env.trouble_disk("n3", "error", failing(operation))
    found = measure(env, "n3")
    assert {name for name, (told, _) in found.items() if told == number} == (
        {"write", "again"} if operation == "write" else {operation}
    )
    assert env.mend_disk("n3")["n3"]["refused_calls"] >= 1
    assert measure(env, "n3")[operation][0] != number


def test_a_full_disk_takes_a_part_of_a_write_and_then_no_more(env: RemoteEnvironment) -> None:
    number = draw_of(lambda d: 1000 < draw_below(3000, d, "space") < 2000)
    env.pause("n3")  # So that all of the space is there for us.
    env.trouble_disk("n3", "full", number)
    found = measure(env, "n3")
    assert found["write"][0] == draw_below(3000, number, "space")
    assert found["again"][0] == 28
    told = env.mend_disk("n3")["n3"]
    assert (told["space_left"], told["refused_bytes"]) == (0, 4096)
    env.resume("n3")


def test_a_read_only_disk_can_be_read_and_nothing_else(env: RemoteEnvironment) -> None:
    env.pause("n3")
    env.trouble_disk("n3", "readonly", 1)
    with pytest.raises(RemoteError, match="Read-only file system"):
        measure(env, "n3")
    env.mend_disk("n3")
    env.resume("n3")


@pytest.mark.parametrize("trouble", ["full", "error", "readonly"])
def test_a_leader_whose_disk_fails_says_so_and_stops_and_starts_once_it_is_mended(
    deployed: KraftDeployment, env: RemoteEnvironment, trouble: Any
) -> None:
    leader = env.leader()
    assert leader is not None
    env.trouble_disk(leader, trouble, failing("fsync", space=200))
    last = ended(env, leader)
    assert last["kind"] == "stop"
    assert last["detail"]["reason"].startswith("the disk failed: ")
    # Other faults find it gone, and that it does not start is no failure of ours.
    assert env.pause(leader)[leader]["ended"] == "by itself"
    assert env.kill(leader)[leader]["ended"] == "by itself"
    env.start(leader)
    evidence = env.mend_disk(leader)[leader]
    assert evidence["trouble"] == trouble
    assert evidence["refused_calls"] >= 1
    env.start(leader)
    deployed.ready(PATIENCE_S)


def test_a_changed_bit_is_refused_or_repaired_and_can_be_put_right(env: RemoteEnvironment) -> None:
    refused = 0
    for number in range(6):
        env.kill("n1")
        before = files(env, "n1")
        done = env.damage_disk("n1", number)["n1"]
        assert done["flipped"]
        changed = {name for name, digest in files(env, "n1").items() if before[name] != digest}
        assert {Path(name).name for name in changed} == {done["file"]}
        assert env.disk_damaged("n1")
        started = env.start("n1")["n1"]
        if "refused" in started:
            refused += 1
            assert not env.deployment.status("n1")["running"]
            assert env.mend_disk("n1")["n1"]["put_right"]
            assert files(env, "n1") == before
            assert env.start("n1")["n1"]["started"]
        assert not env.disk_damaged("n1")
        env.mend_disk("n1")
    assert refused >= 2


def files(env: RemoteEnvironment, node: str) -> dict[str, str]:
    """Return the digests of the node's files, as the host's own tools see them."""
    told = env.deployment.remotes[node].run(
        ["find", DATA, "-type", "f", "-exec", "sha256sum", "{}", "+"]
    )
    lines = told.stdout.decode().splitlines()
    return {path: digest for digest, path in (line.split() for line in lines)}


def test_a_torn_log_is_cut_where_it_was_whole(env: RemoteEnvironment) -> None:
    env.kill("n2")
    before = files(env, "n2")
    done = env.tear_log("n2", 3)["n2"]
    assert done["torn"]
    assert 0 < done["bytes"] < done["of"]
    assert files(env, "n2") != before
    env.start("n2")
    assert not env.disk_damaged("n2")
    log = f"{DATA}/__cluster_metadata-0/{done['file']}"
    head = env.deployment.remotes["n2"].run(["head", "-c", str(done["byte"]), log]).stdout
    assert len(head) == done["byte"]
    env.mend_disk("n2")


def test_healing_from_outside_mends_disks(
    env: RemoteEnvironment, deployed: KraftDeployment
) -> None:
    env.trouble_disk("n1", "slow", 3)
    env.kill("n2")
    before = files(env, "n2")
    env.damage_disk("n2", 1)
    healed = heal_hosts(list(deployed.deployment.hosts.values()))
    assert {name: told.get("disk") for name, told in healed.items() if "disk" in told}.keys() == {
        "n1",
        "n2",
    }
    assert files(env, "n2") == before
    assert heal_hosts(list(deployed.deployment.hosts.values()))["n1"].get("disk") is None


def test_without_disks_of_their_own_nothing_can_be_done_to_them(
    env: RemoteEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = replace(env.deployment.settings, own_disks=False)
    monkeypatch.setattr(env.deployment, "settings", plain)
    match = "without a disk of its own"
    with pytest.raises(RemoteError, match=match):
        env.trouble_disk("n1", "slow", 1)
    with pytest.raises(RemoteError, match=match):
        env.damage_disk("n1", 1)
    with pytest.raises(RemoteError, match=match):
        env.tear_log("n1", 1)
    monkeypatch.undo()


@pytest.mark.whole_run
def test_a_whole_run_with_bad_disks_is_valid_and_replays(
    netns_possible: None, own_state_directories: Path, tmp_path: Path
) -> None:
    schedule = [
        fault(1, "disk", "slow-leader", 3, draw=1),
        fault(2, "storage", "torn", 1, "n3", draw=2),
        fault(5, "disk", "error", 2, "n2", draw=failing("write")),
        fault(6, "kill", "leader", 1, draw=4),
        fault(8, "disk", "flip", 2, draw=5),
        fault(15, "storage", "readonly-leader", 2, draw=6),
        fault(23, "disk", "full-leader", 2, draw=7),
    ]
    options = RunOptions(
        faults=("disk", "storage", "kill", "power"),
        time_limit_s=27,
        nodes=3,
        seed=1,
        store=tmp_path,
    )
    folder = carry_out(options, schedule)
    assert_valid_and_replayed(folder, 3)
    stops = {f.shape: f.evidence for f in read_faults(folder) if f.phase == "stop"}
    for shape in ("error", "readonly-leader", "full-leader"):
        (told,) = (each for each in stops[shape].values() if "trouble" in each)
        assert told["refused_calls"] >= 1, shape
    reasons = [
        event["detail"]["reason"]
        for node in ("n1", "n2", "n3")
        for line in (folder / "nodes" / node / "trace.jsonl").read_text().splitlines()
        if (event := json.loads(line))["kind"] == "stop" and "reason" in event["detail"]
    ]
    assert any("Input/output error" in reason for reason in reasons)
    assert any("Read-only file system" in reason for reason in reasons)
