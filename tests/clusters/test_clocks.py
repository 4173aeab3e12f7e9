"""Nodes on hosts with wrong clocks; other clocks are not touched."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.checkers.recorded.clocks import node_clocks
from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.capabilities import ClockSetting
from kraftwreck.harness.clusters.healing import heal_hosts
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.reading import read_faults
from kraftwreck.nemesis.families.clocks import drift, jump
from kraftwreck.runs.judge import judge
from kraftwreck.runs.replay import check_replay
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.remote.settings import LOGS
from kraftwreck.systems.kraft.system import SYSTEM, KraftDeployment
from tests.clusters.whole_run import carry_out
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

SECOND = 1_000_000_000
SLOW_MS = 500
"""How long a loaded machine may take to write a clock reading down."""
INCARNATION = re.compile(rb'"incarnation":\s*(\d+)')


@pytest.fixture(scope="module")
def deployed(netns_possible: None, own_state_directories: Path) -> Iterator[KraftDeployment]:
    """Three nodes with clocks of their own."""
    cluster = NetnsCluster(3)
    options = RunOptions(nodes=3, seed=4, faults=("clock",))
    up = SYSTEM.deploy(cluster.up(), options, PROJECT_TREE)
    assert isinstance(up, KraftDeployment)
    up.ready(60.0)
    up.clocks()
    yield up
    up.stop()
    up.close()
    cluster.down()


@pytest.fixture
def env(deployed: KraftDeployment) -> Iterator[RemoteEnvironment]:
    assert isinstance(deployed.remote, RemoteEnvironment)
    yield deployed.remote
    for node in deployed.remote.nodes:
        deployed.remote.set_clock(node, ClockSetting())


def ahead(env: RemoteEnvironment, node: str, name: str) -> float:
    """Return how many seconds the node was ahead when it traced something last, just now."""
    return float(measured(env, node)[name]) / 1e6


def measured(env: RemoteEnvironment, node: str) -> dict[str, Any]:
    """Set the clock right once the node has traced something new; return how it was then."""
    size = ["stat", "-c", "%s", f"{LOGS}/trace.jsonl"]
    remote = env.deployment.remotes[node]
    known = remote.run(size).text
    wait_until(lambda: remote.run(size).text != known, "an idle leader commits now and then")
    told: dict[str, Any] = env.set_clock(node, ClockSetting())[node]["measured"]
    return told


@pytest.mark.wall_clock("compares clocks of hosts with this machine's")
@pytest.mark.parametrize("seconds", [5.0, -3600.0])
def test_a_wall_clock_jumps_and_is_right_again(env: RemoteEnvironment, seconds: float) -> None:
    before = time.time() - time.monotonic()
    env.set_clock("n1", ClockSetting(wall_us=int(seconds * 1e6)))
    assert abs(ahead(env, "n1", "wall_ahead_us") - seconds) < SLOW_MS / 1000
    assert abs(ahead(env, "n1", "wall_ahead_us")) < SLOW_MS / 1000
    assert abs(ahead(env, "n2", "wall_ahead_us")) < SLOW_MS / 1000, "only n1 was meant"
    assert abs(time.time() - time.monotonic() - before) < 0.5, "the machine's own clock"


_DATES = "for i in $(seq 40); do date +%s.%N; env -i date +%s.%N; sleep 0.01; done"
"""Prints readings of the node's clock and of the machine's clock, in turn."""


def test_a_strobe_moves_the_clock_of_the_node_only(env: RemoteEnvironment) -> None:
    env.set_clock("n2", ClockSetting(wall_us=3_600_000_000, strobe_us=20_000))
    by = [f"{key}={value}" for key, value in env.deployment.services["n1"]["env"].items()]
    times = env.deployment.remotes["n2"].run(["env", *by, "sh", "-c", _DATES]).text.split()
    node, machine = times[::2], times[1::2]
    ahead = [round((float(a) - float(b)) / 3600, 2) for a, b in zip(node, machine, strict=True)]
    assert set(ahead) == {0.0, 1.0}, ahead
    assert min(ahead.count(0.0), ahead.count(1.0)) >= 4


@pytest.mark.parametrize("rate_ppm", [1_000_000, -500_000])
def test_both_clocks_drift_and_the_monotonic_one_never_jumps(
    env: RemoteEnvironment, rate_ppm: int
) -> None:
    first = env.set_clock("n1", ClockSetting(rate_ppm=rate_ppm))["n1"]
    gained = first["mono_us"] - first["since_us"]
    told = measured(env, "n1")
    *_, (until, _), (host, own) = env.clock_samples()["n1"]
    gained = own - host - gained
    assert gained == pytest.approx((until - first["since_us"]) * rate_ppm / 1e6, rel=0.01)
    # What it gained since it was measured comes on top.
    late = SLOW_MS * 1000 + told["ago_us"] * abs(rate_ppm) / 1e6
    assert gained == pytest.approx(told["wall_ahead_us"], abs=late)
    # What it gained it keeps; its wall clock is right.
    assert ahead(env, "n1", "mono_ahead_us") == pytest.approx((own - host) / 1e6, abs=0.5)
    assert abs(ahead(env, "n1", "wall_ahead_us")) < SLOW_MS / 1000


def test_healing_from_outside_sets_clocks_right(
    env: RemoteEnvironment, deployed: KraftDeployment
) -> None:
    env.set_clock("n2", ClockSetting(wall_us=60_000_000))
    healed = heal_hosts(list(deployed.deployment.hosts.values()))
    assert {name for name, told in healed.items() if told.get("clock")} == {"n2"}
    assert abs(ahead(env, "n2", "wall_ahead_us")) < SLOW_MS / 1000


def test_without_clocks_of_their_own_nodes_go_by_their_hosts(
    env: RemoteEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = replace(env.deployment.settings, own_clocks=False)
    monkeypatch.setattr(env.deployment, "settings", plain)
    with pytest.raises(RemoteError, match="without clocks of its own"):
        env.set_clock("n1", ClockSetting(wall_us=1))
    monkeypatch.undo()


def fault(at_s: float, kind: str, shape: str, last_s: float, *targets: str, **more: Any) -> Fault:
    values = {"draw": 0, "trigger": None, **more}
    return Fault(
        at=int(at_s * SECOND),
        kind=kind,
        shape=shape,
        duration=int(last_s * SECOND),
        targets=targets,
        **values,
    )


def draw_of(matches: Callable[[int], bool]) -> int:
    """Return a draw by which a fault is as the test wants it."""
    return next(number for number in range(10_000) if matches(number))


@pytest.fixture(scope="module")
def run(
    netns_possible: None, own_state_directories: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run with clocks that are wrong while nodes are cut off, killed, and lose their power."""
    slow = draw_of(lambda number: drift(number).rate_ppm == -500_000)
    fast = draw_of(lambda number: drift(number).rate_ppm == 1_000_000)
    schedule = [
        fault(0.5, "clock", "drift", 8.0, "n1", draw=slow),
        fault(0.6, "clock", "drift", 6.0, "n2", draw=fast),
        fault(1.0, "clock", "jump", 5.0, "n3", "n4"),
        fault(1.5, "partition", "leader", 2.0),
        fault(4.0, "kill", "one", 1.0, "n1"),
        fault(6.0, "power", "one", 1.0, "n2"),
        fault(6.0, "pause", "one", 0.5, "@", trigger="elected"),
        fault(7.0, "clock", "strobe", 4.0, "n3"),
        fault(8.0, "kill", "leader", 1.0),
    ]
    options = RunOptions(
        nodes=4,
        seed=6,
        time_limit_s=13.0,
        faults=("clock", "partition", "kill", "pause", "power"),
        store=tmp_path_factory.mktemp("clocks"),
    )
    return carry_out(options, schedule)


@pytest.mark.whole_run
def test_a_run_with_wrong_clocks_is_valid_and_every_node_replays(run: Path) -> None:
    verdict = judge(run, lambda line: None)
    assert {name: result.valid for name, result in verdict.checkers.items()} == dict.fromkeys(
        verdict.checkers, True
    )
    compared = verdict.checkers["replay"].stats
    assert compared["starts"] >= 4 + 2, "n1 was killed, and n2 lost its power"
    assert compared["inputs"] > 1000
    assert compared["outputs"] > 1000
    assert compared["traced"] > 300


@pytest.mark.whole_run
def test_the_run_records_clock_samples(run: Path) -> None:
    test = json.loads((run / "test.json").read_text())
    clocks = node_clocks(test)
    assert clocks["n1"].stretch == pytest.approx(2.0, abs=0.1)
    assert clocks["n2"].squeeze == pytest.approx(0.5, abs=0.05)
    # Every trace event happened before its host wrote it down, and after the test began.
    for node in ("n1", "n2"):
        for line in (run / "nodes" / node / "trace.jsonl").read_text().splitlines():
            assert -60_000_000 < clocks[node].time(json.loads(line)["mono"]) < 60_000_000
    skews = {
        node: told["measured"]["wall_ahead_us"]
        for event in read_faults(run)
        if event.kind == "clock" and event.phase == "stop" and event.shape == "jump"
        for node, told in event.evidence.items()
    }
    wanted = jump(0).wall_us
    assert set(skews) == {"n3", "n4"}
    assert all(abs(skew - wanted) < SLOW_MS * 1000 for skew in skews.values())


def middle_of_longest_start(lines: list[bytes]) -> int:
    """Return the index of a line in the middle of the longest life of a process.

    The last lines of a process whose host lost power may be missing in an honest record too, so
    a change there contradicts nothing.
    """
    starts = [0]
    for index, (before, line) in enumerate(itertools.pairwise(lines), 1):
        if b'"start"' in line or INCARNATION.findall(before) != INCARNATION.findall(line):
            starts.append(index)
    begin, end = max(itertools.pairwise([*starts, len(lines)]), key=lambda ends: ends[1] - ends[0])
    assert end - begin >= 4
    return (begin + end) // 2


@pytest.mark.parametrize("sums", [True, False], ids=["by its sum", "by what it says"])
@pytest.mark.parametrize("name", ["inputs.log", "trace.jsonl"])
@pytest.mark.whole_run
def test_a_run_whose_records_were_changed_is_refused(
    run: Path, tmp_path: Path, name: str, sums: bool
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(run, folder)
    test = json.loads((folder / "test.json").read_text())
    assert check_replay(folder, test).valid is True
    path = folder / "nodes" / "n2" / name
    if not sums:
        (path.parent / "sums.json").unlink()
    lines = path.read_bytes().splitlines(keepends=True)
    middle = middle_of_longest_start(lines)
    changes = {
        "dropped": [*lines[:middle], *lines[middle + 1 :]],
        "swapped": [*lines[:middle], lines[middle + 1], lines[middle], *lines[middle + 2 :]],
        "changed": [*lines[:middle], lines[middle].replace(b"1", b"2", 1), *lines[middle + 1 :]],
        "cut off": lines[:middle],
    }
    for how, content in changes.items():
        path.write_bytes(b"".join(content))
        result = check_replay(folder, test)
        assert result.valid is False, how
        assert [anomaly.explanation[:2] for anomaly in result.anomalies] == ["n2"]
