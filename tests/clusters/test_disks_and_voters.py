"""Loss of power, replaced disks and changed voters on namespace hosts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.capabilities import MEMBERSHIP, MemberChange
from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.nodes.log.files import MetadataLogFiles
from kraftwreck.runs.replay import replay_nodes
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.system import SYSTEM, KraftDeployment
from tests.clusters.whole_run import assert_valid_and_replayed, carry_out, fault
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster
READY_S = 60.0

Deploy = Callable[..., KraftDeployment]


@pytest.fixture
def deploy(netns_possible: None, own_state_directories: Path) -> Iterator[Deploy]:
    """Deploys controllers as the options say; all is gone afterwards."""
    started: list[Callable[[], object]] = []

    def up(tree: Path = PROJECT_TREE, **shape: Any) -> KraftDeployment:
        options = RunOptions(**shape)
        cluster = NetnsCluster(len(SYSTEM.layout(options).roles))
        started.append(cluster.down)
        deployed = SYSTEM.deploy(cluster.up(), options, tree)
        assert isinstance(deployed, KraftDeployment)
        started.extend([deployed.close, deployed.stop])
        deployed.ready(READY_S)
        return deployed

    yield up
    for step in reversed(started):
        step()


def unflushed(tmp_path: Path) -> Path:
    """Return node code that never flushes its log, and writes nothing back in time either."""
    tree = tmp_path / "nodes"
    shutil.copytree(PROJECT_TREE, tree, ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in (
        ("server/storage.py", "self._log.flush()", "pass"),
        ("log/write_loss.py", "WRITE_BACK_S: Final = 5.0", "WRITE_BACK_S: Final = 3600.0"),
    ):
        text = (tree / name).read_text()
        assert text.count(old) == 1
        (tree / name).write_text(text.replace(old, new))
    return tree


@pytest.mark.parametrize("power", [True, False])
def test_unflushed_data_is_lost_only_with_the_power(
    deploy: Deploy, tmp_path: Path, power: bool
) -> None:
    faults = ("power",) if power else ("kill",)
    deployed = deploy(unflushed(tmp_path), nodes=3, seed=5, faults=faults)
    env = deployed.remote
    assert isinstance(env, RemoteEnvironment)
    node = env.leader()
    assert node is not None
    evidence = (env.cut_power if power else env.kill)(node)[node]
    assert (evidence["after"], evidence["image"]) == ("ESRCH", "kill-1")
    assert not deployed.deployment.status(node)["running"]
    if power:
        assert evidence["log_end_told"] > evidence["log_end"]
        assert evidence["records_lost"] == evidence["log_end_told"] - evidence["log_end"]
    else:
        with pytest.raises(RemoteError, match="without write loss"):
            env.cut_power(node)
    for other in env.nodes:
        if other != node:
            (env.cut_power if power else env.kill)(other)
    deployed.deployment.collect(tmp_path)
    for name in env.nodes:
        ended = told(tmp_path, name)
        kept = log_end(tmp_path / "nodes" / name / "images/kill-1")
        assert (kept < ended) == power, f"{name} told {ended} and kept {kept}"


def told(run: Path, node: str) -> int:
    last = (run / "nodes" / node / "trace.jsonl").read_text().splitlines()[-1]
    return int(json.loads(last)["leo"])


def log_end(image: Path) -> int:
    log = MetadataLogFiles(image)
    try:
        log.recover_all()
        return log.end_offset
    finally:
        log.close()


def changed(deployed: KraftDeployment, *changes: MemberChange) -> Sequence[dict[str, Any]]:
    """Ask for changes and wait for them."""
    env = deployed.remote
    env.change_members(changes)
    ended: list[dict[str, Any]] = []

    def over() -> bool:
        known = env.member_changes()
        ended.extend(known["ended"])
        return not known["open"]

    wait_until(over, "the voter changes end")
    return [*ended, *env.member_changes()["ended"]]


def test_voters_are_changed_and_disks_replaced(deploy: Deploy, tmp_path: Path) -> None:
    deployed = deploy(nodes=4, seed=2, system_options=("quorum=dynamic",))
    env = deployed.remote
    directories = deployed.deployment.directories
    assert list(deployed.deployment.first_voters) == ["n1", "n2", "n3"], "by this seed"
    assert deployed.env.why_not(MEMBERSHIP) is None
    with pytest.raises(RemoteError, match="the service is running"):
        env.wipe("n2")
    assert [r["result"] for r in changed(deployed, MemberChange("add", "n4"))] == ["done"]
    leader = env.leader()
    assert leader is not None
    changed(deployed, MemberChange("remove", leader))
    deployed.ready(READY_S)
    assert env.leader() not in (None, leader)

    replaced = next(node for node in ("n1", "n2", "n3") if node not in (leader, env.leader()))
    before = directories[replaced]
    env.kill(replaced)
    evidence = env.wipe(replaced)[replaced]
    assert evidence["directory_before"] == before == deployed.deployment.first_voters[replaced]
    assert evidence["files_removed"] > 3
    assert evidence["directory"] == directories[replaced] != before
    env.start(replaced)
    (result,) = changed(deployed, MemberChange("add", replaced))
    assert (result["result"], result["attempts"] >= 2) == ("done", True), "out, then in"
    deployed.ready(READY_S)
    deployed.stop()
    deployed.collect(tmp_path)
    starts = [
        event
        for line in (tmp_path / "nodes" / replaced / "trace.jsonl").read_text().splitlines()
        if (event := json.loads(line))["kind"] == "start"
    ]
    assert [event["incarnation"] for event in starts] == [1, 2]
    assert starts[0]["detail"]["directory"] != starts[1]["detail"]["directory"]
    assert [r["same"] for r in replay_nodes(tmp_path, None)] == [True] * 4


@pytest.mark.whole_run
def test_a_whole_run_with_replaced_machines_and_cut_power_is_valid_and_replays(
    netns_possible: None, own_state_directories: Path, tmp_path: Path
) -> None:
    options = RunOptions(
        faults=("power", "kill", "membership"), time_limit_s=14, nodes=4, seed=1,
        system_options=("quorum=dynamic",), store=tmp_path,
    )  # fmt: skip
    schedule = [
        fault(1, "membership", "replace-leader", 3),
        fault(5, "power", "leader", 1),
        fault(6, "membership", "shrink", 3),
        fault(8, "kill", "one", 1),
        fault(11, "membership", "grow", 1),
    ]
    folder = carry_out(options, schedule)
    assert_valid_and_replayed(folder, 4)
    faults = [json.loads(line) for line in (folder / "faults.jsonl").read_text().splitlines()]
    evidence = {f["id"]: f["evidence"] for f in faults if f["phase"] == "start"}
    (replaced,) = evidence[0].values()
    assert replaced["wiped"] is True
    assert replaced["image"] == "kill-1"
    (cut,) = evidence[1].values()
    assert cut["records_lost"] >= 0
    assert cut["log_end"] > 0
