"""Tests that would disturb each other run one after the other, and long ones start first."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.groups import (
    HOSTS_GROUPS,
    NEEDS_SPARK,
    SPARK,
    STARTS_SPARK,
    Machine,
    hosts_groups,
    longest_first,
    put_into_groups,
)
from tests.seconds import LEAST, OTHERWISE, each, key, measured, table_of
from tests.test_tidy import ROOT
from tests.waiting import wait_until


@pytest.mark.cluster
def test_tests_of_shared_hosts_are_in_the_groups_of_hosts(request: pytest.FixtureRequest) -> None:
    """pytest-xdist gives a group, named at the end of the node id, to one worker."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("one process runs all tests")
    assert "@hosts " in request.node.nodeid


def test_groups_of_hosts_are_about_as_long_as_each_other() -> None:
    seconds = {f"test_{number}": float(number) for number in range(1, 31)}
    groups = hosts_groups(seconds)
    loads = [
        sum(seconds[module] for module, group in groups.items() if group == name)
        for name in set(groups.values())
    ]
    assert len(loads) == HOSTS_GROUPS
    assert max(loads) - min(loads) <= 2


def test_spark_starts_first_and_tests_that_need_it_come_last() -> None:
    tests = {"browser": [], "needs": [STARTS_SPARK, NEEDS_SPARK], "starts": [STARTS_SPARK]}
    items: list[Any] = [Item(name, fixtures) for name, fixtures in tests.items()]
    put_into_groups(items)
    longest_first(items)
    assert [each.marks["xdist_group"].args for each in items] == [(SPARK,)] * 3
    assert [each.nodeid for each in items] == ["starts", "browser", "needs"]


class Item:
    """A test with the marker of Spark, or of a browser."""

    def __init__(self, nodeid: str, fixtures: list[str]) -> None:
        self.nodeid, self.fixturenames, self.path = nodeid, fixtures, Path(nodeid)
        self.marks = {"browser" if nodeid == "browser" else "spark": pytest.mark.spark.mark}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)

    def add_marker(self, marker: pytest.MarkDecorator, *, append: bool) -> None:
        self.marks[marker.name] = marker.mark


def test_parameters_share_the_time_of_their_function() -> None:
    times = each(["tests/a/test_b.py::f[1/x]", "tests/a/test_b.py::f[2]@hosts 1", "t.py::g"], TABLE)
    assert list(times.values()) == [3, 3, OTHERWISE]


TABLE = {"tests.a.test_b.f": 6}


def test_the_table_has_the_sums_of_a_junit_file(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    case = '<testcase classname="tests.a.test_b" name="{}" time="{}"/>'
    cases = [("f[1/x]@hosts 1", 2), ("f[2]", 4.2), ("g", LEAST - 1)]
    text = "".join(case.format(name, seconds) for name, seconds in cases)
    junit.write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>")
    assert table_of(junit) == TABLE


def test_every_test_in_the_table_is_there() -> None:
    """A name of a test that is gone would order nothing."""
    known = {
        key(f"{path.relative_to(ROOT)}::{line.split('def ')[1].partition('(')[0]}")
        for path in (ROOT / "tests").rglob("test_*.py")
        for line in path.read_text().splitlines()
        if line.lstrip().startswith(("def test_", "async def test_"))
    }
    assert {name for name in measured() if name not in known and ".Test" not in name} == set()


def test_a_worker_has_the_machine_alone_and_others_wait_behind_it(tmp_path: Path) -> None:
    """Also behind one that still waits: it would never find the machine free otherwise."""
    first, alone, last = Machine(tmp_path), Machine(tmp_path), Machine(tmp_path)
    order: list[str] = []

    def have(machine: Machine, name: str, *, by_itself: bool) -> None:
        machine.take(alone=by_itself)
        order.append(name)

    first.take(alone=False)
    second = Machine(tmp_path)
    second.take(alone=False)  # they share it
    second.leave()
    threads = []
    for machine, name in ((alone, "alone"), (last, "last")):
        threads.append(
            Thread(target=have, args=(machine, name), kwargs={"by_itself": name == "alone"})
        )
        threads[-1].start()
        wait_until(lambda: _waiting(tmp_path) == len(threads))
    assert order == []
    first.leave()
    wait_until(lambda: order == ["alone"])
    assert _waiting(tmp_path) == 1
    alone.leave()
    for thread in threads:
        thread.join()
    assert order == ["alone", "last"]
    last.leave()


def _waiting(folder: Path) -> int:
    """Return how many wait for a lock in ``folder``, as the kernel lists them."""
    inodes = {str(path.stat().st_ino) for path in folder.iterdir()}
    lines = Path("/proc/locks").read_text().splitlines()
    return sum(
        words[1] == "->" and words[-3].rpartition(":")[2] in inodes
        for words in map(str.split, lines)
    )
