"""The schedule of one test, in the style that its options name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis import generator, storms, timed
from kraftwreck.nemesis.possible import unsupported
from kraftwreck.nemesis.registry import faults_of
from kraftwreck.nemesis.scope import Scope


def host_names(options: RunOptions, others: int) -> tuple[str, ...]:
    """Return the hosts of a simulated test: those that elect a leader, then ``others``."""
    return (*options.node_names, *(f"b{i}" for i in range(1, others + 1)))


def plan_faults(
    options: RunOptions, others: int, *, lacking: Mapping[str, str] | None = None
) -> list[Fault]:
    """Return the schedule of a test, in the style of ``options``, for a cluster with ``others``.

    Families of which no shape is supported, because of what is ``lacking``, are left out.
    """
    scope = Scope.of(options.system, host_names(options, others), others)
    kinds = [
        kind for kind in options.faults if unsupported(kind, scope.families, lacking or {}) is None
    ]
    test = (kinds, options.seed, options.time_limit_s, scope)
    if options.style == "timed":
        return timed.plan(*test, interval_s=options.interval_s or timed.INTERVAL_S)
    interval_s = options.interval_s or storms.INTERVAL_S
    if options.style == "storms":
        return storms.plan(*test, rate=options.rate, interval_s=interval_s)
    faults = generator.plan(*test)
    if not options.governed:
        return faults
    return storms.govern(faults, options.seed, rate=options.rate, interval_s=interval_s)


def core_faults(options: RunOptions) -> list[Fault]:
    """Return the schedule of one test of a core: by time alone if it shows no transitions."""
    shown = faults_of(options.system).simulated
    scope = replace(Scope.of(options.system, options.node_names), transitions=shown)
    style: generator.Style | None = None if shown is not None else "timed"
    return generator.plan(options.faults, options.seed, options.time_limit_s, scope, style=style)
