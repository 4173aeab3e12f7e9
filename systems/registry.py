"""Systems under test by name: the entry points of the group ``kraftwreck.systems``.

Ours are declared there too, in the same way as those of other packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.simulated.core import CoreSystem, is_core, is_spec, load_core
from kraftwreck.harness.system import Configurable, System
from kraftwreck.harness.workload import Speaking, Workload
from kraftwreck.histories.plugins import by_own_name, unknown
from kraftwreck.workloads import registry as workloads
from kraftwreck.workloads.generic import GENERIC, Spoken, verbs_of

GROUP = "kraftwreck.systems"


def systems() -> Mapping[str, System]:
    """Return all systems by name, without those that cannot be imported."""
    return by_own_name(GROUP).found


def find(name: str) -> System:
    """Return the system ``name``, or the core ``MODULE:NAME``.

    Raises :class:`OptionError` with the known ones, or with the reason why it cannot be imported.
    """
    if is_spec(name):
        core: Any = load_core(name)
        return cast(System, core)
    told = by_own_name(GROUP)
    if name not in told.found:
        raise OptionError(unknown("system", name, told, sorted(told.found)))
    system: System = told.found[name]
    return system


def configured(options: RunOptions) -> System:
    """Return the system of ``options``, with its own options set.

    Raises :class:`OptionError` as :func:`find` does, or for an option that it does not have.
    """
    system = find(options.system)
    if isinstance(system, Configurable):
        return system.configured(options.system_options)
    if options.system_options:
        raise OptionError(f"the system {options.system} has no options of its own (--option)")
    return system


def workload_of(system: System, name: str) -> Workload:
    """Return the workload ``name`` as ``system`` runs it: its own one, else the generic one.

    The ``own_workloads`` of a system, by name, are for it alone: other systems may have others of
    that name.

    Raises :class:`OptionError` if there is none, if the system lacks verbs that it needs, or if
    its clients speak another protocol.
    """
    own: Mapping[str, Workload] = getattr(system, "own_workloads", {})
    if name in own:
        return own[name]
    if name in system.workloads:
        return workloads.find(name)
    workload: Workload = GENERIC.get(name) or workloads.find(name)
    if isinstance(workload, Speaking):
        spoken = getattr(workload, "protocol", None)
        if spoken not in (None, getattr(system, "protocol", None)):
            raise OptionError(f"{_cannot_run(system.name, name)}: its clients speak {spoken}")
        return workload
    return _spoken_by(system, workload)


def simulated_workload(system: str, name: str) -> Workload:
    """Return the workload ``name`` of a simulated run of ``system``, which brings its clients.

    Raises :class:`OptionError`, as :func:`workload_of`.
    """
    core = load_core(system) if is_core(system) else None
    if core is None or core.client is None:
        workload = workloads.find(name)
        if not isinstance(workload, Speaking):
            raise OptionError(f"{_cannot_run(system, name)}: it has no clients")
        return workload
    spoken: Workload | None = GENERIC.get(name) or workloads.workloads().get(name)
    if spoken is None or not verbs_of(spoken):
        raise OptionError(f"unknown workload {name!r} of {system}; use {', '.join(core.generic)}")
    return Spoken(_spoken_by(core, spoken), core.client)


def _spoken_by(system: System | CoreSystem, workload: Workload) -> Workload:
    needed, known = verbs_of(workload), getattr(system, "verbs", ())
    cannot = _cannot_run(system.name, workload.name)
    if not needed:
        raise OptionError(
            f"{cannot}: add it to the system's `workloads`, or declare the workload's `verbs`"
        )
    missing = [verb for verb in needed if verb not in known]
    if missing:
        raise OptionError(f"{cannot}: it lacks {', '.join(missing)}")
    return workload


def _cannot_run(system: str, workload: str) -> str:
    return f"the system {system} cannot run the workload {workload}"
