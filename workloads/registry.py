"""Workloads by name: ours and those of installed packages.

A package adds its own with an entry point of the group ``kraftwreck.workloads`` that is a
:class:`~harness.workload.Workload`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points

from kraftwreck.harness.options import OptionError
from kraftwreck.harness.workload import Workload
from kraftwreck.workloads import leader, metadata, partitions, register, requests


@cache
def workloads() -> Mapping[str, Workload]:
    """Return all workloads by name."""
    found: dict[str, Workload] = {
        "metadata": metadata.WORKLOAD,
        "register": register.WORKLOAD,
        "leader": leader.WORKLOAD,
        "partitions": partitions.WORKLOAD,
        "requests": requests.WORKLOAD,
    }
    for point in entry_points(group="kraftwreck.workloads"):
        workload = point.load()
        found[workload.name] = workload
    return found


def find(name: str) -> Workload:
    """Return the workload ``name``. Raises :class:`OptionError` naming the known ones."""
    try:
        return workloads()[name]
    except KeyError:
        known = ", ".join(sorted(workloads()))
        raise OptionError(f"unknown workload {name!r}; known workloads: {known}") from None
