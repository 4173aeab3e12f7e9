"""Which tests one worker of pytest-xdist runs together, and which groups start first.

Tests with hosts are in few groups, for they wait most of the time, but several at once keep the
machine too busy. Modules, which share hosts, stay whole. Tests that compare the whole machine
before and after are one group, which starts first and has the machine to itself
(:class:`Machine`). Tests that need much memory are one group. Tests of a module that share a
running cluster are one group.
"""

from __future__ import annotations

import fcntl
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import pytest

from tests.seconds import each, measured

WHOLE_MACHINE = "hosts alone"
"""The group of tests that compare the whole machine."""

SPARK = "spark"
"""The group of tests with Spark or a browser, which need much memory. The session of Spark, which
takes long to start, starts with its first test; tests that need it come last."""

MEMORY = ("spark", "browser")
"""Markers of these tests."""

STARTS_SPARK, NEEDS_SPARK = "starting_spark", "worker"
"""Fixtures: the session of Spark, which may still be starting, and a session that answers."""

SHARED = ("combined", "failing", "shared")
"""Fixtures of a module, by how their names begin, that are whole clusters or runs: one worker makes
them for all its tests."""

HOSTS_GROUPS = 3
"""The number of workers for other tests with hosts."""

FIRST = (WHOLE_MACHINE, SPARK)
"""The first groups; others follow with the longest first."""


def hosts_groups(seconds: Mapping[str, float]) -> dict[str, str]:
    """Return the group for each module: the longest first, each to the group with the least."""
    loads = dict.fromkeys((f"hosts {number}" for number in range(HOSTS_GROUPS)), 0.0)
    groups = {}
    for module in sorted(seconds, key=lambda name: (-seconds[name], name)):
        groups[module] = min(loads, key=lambda group: (loads[group], group))
        loads[groups[module]] += seconds[module]
    return groups


def put_into_groups(items: list[pytest.Item]) -> None:
    """Add the mark of its group to each test of ``items`` that has one."""
    seconds = each([item.nodeid for item in items], measured())
    modules: defaultdict[str, float] = defaultdict(float)
    others = ("whole_machine", *MEMORY)
    shared = [
        item
        for item in items
        if _has(item, "cluster") and not any(_has(item, marker) for marker in others)
    ]
    for item in shared:
        modules[str(item.path)] += seconds[item.nodeid]
    groups = hosts_groups(modules)
    for item in items:
        for marker in others:
            if _has(item, marker):
                _group(item, SPARK if marker in MEMORY else WHOLE_MACHINE)
                break
        else:
            if _has(item, "cluster"):
                _group(item, groups[str(item.path)])
            elif any(name.startswith(SHARED) for name in getattr(item, "fixturenames", ())):
                _group(item, str(item.path))


def longest_first(items: list[pytest.Item]) -> None:
    """Sort ``items``: the first groups, then groups and modules with the longest test first.

    A group's length is that of all its tests; tests without a group are spread over workers, so
    that the longest single test counts for their module.
    """
    seconds = each([item.nodeid for item in items], measured())
    lengths: defaultdict[str, float] = defaultdict(float)
    for item in items:
        own = seconds[item.nodeid]
        group = group_of(item)
        together = group or str(item.path)
        lengths[together] = lengths[together] + own if group else max(lengths[together], own)

    def place(item: pytest.Item) -> tuple[int, float, str, int]:
        together = group_of(item) or str(item.path)
        first = FIRST.index(together) if together in FIRST else len(FIRST)
        return (first, -lengths[together], together, _turn(item))

    items.sort(key=place)


def _turn(item: pytest.Item) -> int:
    """Return when a test of the group :data:`SPARK` has its turn."""
    fixtures = getattr(item, "fixturenames", ())
    if NEEDS_SPARK in fixtures:
        return 2
    return 0 if STARTS_SPARK in fixtures else 1


def group_of(item: pytest.Item) -> str | None:
    """Return the name of an item's group, which is None if any worker may run it."""
    mark = item.get_closest_marker("xdist_group")
    if mark is None:
        return None
    return str(mark.args[0] if mark.args else mark.kwargs["name"])


def _has(item: pytest.Item, marker: str) -> bool:
    return item.get_closest_marker(marker) is not None


def _group(item: pytest.Item, name: str) -> None:
    item.add_marker(pytest.mark.xdist_group(name), append=False)


class Machine:
    """The machine, which tests with hosts share, and which those that look at all of it have alone.

    A worker that waits to have it alone keeps the others from starting new tests; it holds it until
    its next test is of another kind. ``folder`` is for files that all workers lock.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: list[IO[str]] = []

    def take(self, *, alone: bool) -> None:
        """Wait for the machine, unless it is held already."""
        if self._held:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        door, room = ((self._folder / name).open("w") for name in ("hosts-door.lock", "hosts.lock"))
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        for lock in (door, room):
            fcntl.flock(lock, kind)
        if not alone:
            door.close()
        self._held = [door, room]

    def leave(self) -> None:
        """Give the machine back."""
        for lock in self._held:
            lock.close()
        self._held = []
