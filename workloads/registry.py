"""Workloads by name: entry points of ours and of other installed packages.

A package adds one with an entry point of the group ``kraftwreck.workloads`` that is a
:class:`~harness.workload.Workload`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kraftwreck.harness.options import OptionError
from kraftwreck.harness.simulated.core import is_spec, load_core
from kraftwreck.harness.workload import Workload
from kraftwreck.histories.plugins import by_own_name, unknown

GROUP = "kraftwreck.workloads"


def workloads() -> Mapping[str, Workload]:
    """Return all workloads by name, without those that cannot be imported."""
    return by_own_name(GROUP).found


def find(name: str) -> Workload:
    """Return the workload ``name``, or that of the core ``MODULE:NAME``.

    Raises :class:`OptionError` with the known ones, or with the reason why it cannot be imported.
    """
    if is_spec(name):
        core = load_core(name)
        if core.workload is None:
            raise OptionError(f"{name}: it has no workload of its own; use -w")
        return core.workload
    told = by_own_name(GROUP)
    if name not in told.found:
        raise OptionError(unknown("workload", name, told, sorted(told.found)))
    workload: Workload = told.found[name]
    return workload
