"""Control groups an agent finds or makes, on a machine that is made of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftwreck.harness.on_host import squeeze


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has given us nothing."""
    monkeypatch.setattr(squeeze, "SYSTEM", tmp_path / "system")
    monkeypatch.setattr(squeeze, "OURS", tmp_path / "ours")
    (tmp_path / "system").mkdir()
    return tmp_path


def test_a_group_is_made_in_its_hierarchy_and_removed(machine: Path) -> None:
    top = machine / "system" / "cpu"
    top.mkdir()
    (top / "cgroup.procs").touch()
    assert squeeze.group("cpu", make=False) is None
    assert squeeze.group("cpu") == (top / "kraftwreck", 1)
    assert squeeze.group("cpu", make=False) == (top / "kraftwreck", 1)
    squeeze.leave()
    assert not (top / "kraftwreck").exists()
    squeeze.leave()


def test_in_version_2_a_group_serves_all_subsystems_that_are_handed_down(machine: Path) -> None:
    (machine / "system" / "cgroup.subtree_control").write_text("cpu pids\n")
    assert squeeze.group("cpu") == (machine / "system" / "kraftwreck", 2)
    assert squeeze.group("memory") is None, "nobody may limit it there"


def test_the_hosts_own_group_is_preferred(machine: Path) -> None:
    given = machine / "ours" / "memory"
    given.mkdir(parents=True)
    (given / "cgroup.procs").touch()
    assert squeeze.group("memory") == (given, 1)
    squeeze.leave()
    assert given.is_dir(), "it goes with the host"


def test_without_any_hierarchy_there_is_none(machine: Path) -> None:
    assert squeeze.group("cpu") is None
    assert squeeze.group("memory") is None


def test_nothing_to_give_back_is_no_error(machine: Path) -> None:
    service = {"pid_file": str(machine / "pid"), "argv": ["/bin/true"]}
    assert squeeze.release({"service": service}) == {}


def test_services_of_a_host_have_groups_of_their_own(machine: Path) -> None:
    (machine / "ours" / "cpu").mkdir(parents=True)
    (machine / "ours" / "cpu" / "cgroup.procs").touch()
    assert squeeze.group("cpu", "main") == (machine / "ours/cpu/main", 1)
    assert squeeze.group("cpu", "sentinel") == (machine / "ours/cpu/sentinel", 1)
    (machine / "system" / "memory").mkdir()
    (machine / "system" / "memory" / "cgroup.procs").touch()
    made = squeeze.group("memory", "sentinel")
    assert made == (machine / "system/memory/kraftwreck.sentinel", 1)
    squeeze.leave()
    assert not made[0].exists()


def test_a_service_that_is_down_is_not_limited_by_the_group_of_another_one(machine: Path) -> None:
    """Without a group of its own it is stopped most of the time, once it runs."""
    group = machine / "ours" / "cpu"
    group.mkdir(parents=True)
    for file in ("cgroup.procs", "cpu.cfs_quota_us", "cpu.cfs_period_us"):
        (group / file).write_text("-1\n")
    service = {"pid_file": str(machine / "pid"), "argv": ["/bin/true"]}
    told = squeeze.squeeze({"service": service, "what": "cpu", "amount": 10})
    assert told["means"] == "SIGSTOP"
    assert (group / "cpu.cfs_quota_us").read_text() == "-1\n"
    assert "stopped_by" in squeeze.release({"service": service})
