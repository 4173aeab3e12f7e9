"""Workloads by name: entry points of ours and of other installed packages.

A package adds one with an entry point of the group ``kraftwreck.workloads`` that is a
:class:`~harness.workload.Workload`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftwreck.harness.options import OptionError
from kraftwreck.harness.simulated.core import is_spec, load_core
from kraftwreck.harness.workload import Workload
from kraftwreck.histories.plugins import Plugins, by_own_name, unknown

GROUP = "kraftwreck.workloads"


def workloads() -> Mapping[str, Workload]:
    """Return all workloads by name, without those that cannot be imported."""
    return installed().found


def installed() -> Plugins:
    """Return all workloads by name, and the reason why others cannot be used."""
    return by_own_name(GROUP, flaw)


def flaw(workload: Any) -> str | None:
    """Return what is wrong with the declaration of a workload, one line; None if nothing is."""
    if isinstance(workload, type):
        return f"it is a class; name an object, such as WORKLOAD = {workload.__name__}()"
    for name in ("checkers", "verbs"):
        names: object = getattr(workload, name, None if name == "checkers" else ())
        if not (isinstance(names, (tuple, list)) and all(isinstance(each, str) for each in names)):
            return f"its `{name}` must be a tuple of names"
    lacks = [name for name in ("generator", "final") if not callable(getattr(workload, name, None))]
    return f"it does not define {', '.join(f'`{name}`' for name in lacks)}" if lacks else None


def find(name: str) -> Workload:
    """Return the workload ``name``, or that of the core ``MODULE:NAME``.

    Raises :class:`OptionError` with the known ones, or with the reason why it cannot be imported.
    """
    if is_spec(name):
        core = load_core(name)
        if core.workload is None:
            raise OptionError(f"{name}: it has no workload of its own; use -w")
        return core.workload
    told = installed()
    if name not in told.found:
        raise OptionError(unknown("workload", name, told, sorted(told.found)))
    workload: Workload = told.found[name]
    return workload
