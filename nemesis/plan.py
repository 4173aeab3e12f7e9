"""The schedule of one test, in the style that its options name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    return _plan(options, kinds, scope)


def core_faults(options: RunOptions) -> list[Fault]:
    """Return the schedule of one test of a core, in the style of ``options``: by time alone if it
    shows no transitions."""
    shown = faults_of(options.system).simulated
    scope = replace(Scope.of(options.system, options.node_names), transitions=shown)
    return _plan(options, options.faults, scope, None if shown is not None else "timed")


def _plan(
    options: RunOptions,
    kinds: Sequence[str],
    scope: Scope,
    swarm: generator.Style | None = None,
) -> list[Fault]:
    """Return the schedule of ``kinds``; ``swarm`` is the style of a swarm (None: by seed)."""
    seed, duration_s = options.seed, options.time_limit_s
    if options.style == "timed":
        interval_s = options.interval_s or timed.INTERVAL_S
        return timed.plan(kinds, seed, duration_s, scope, interval_s=interval_s)
    interval_s = options.interval_s or storms.INTERVAL_S
    if options.style == "storms":
        return storms.plan(kinds, seed, duration_s, scope, rate=options.rate, interval_s=interval_s)
    faults = generator.plan(kinds, seed, duration_s, scope, style=swarm)
    if not options.governed:
        return faults
    return storms.govern(faults, seed, rate=options.rate, interval_s=interval_s)
