"""Where a test runs: on the hosts of a cluster or in the simulator, and what that place lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from kraftwreck.harness.clusters.cluster import Cluster, ClusterUnavailable
from kraftwreck.harness.clusters.providers import choose_cluster, lacking
from kraftwreck.harness.clusters.vagrant import VagrantCluster
from kraftwreck.harness.layout import layout_of
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.simulated.core import is_core, is_spec, load_core
from kraftwreck.harness.system import System
from kraftwreck.nemesis import possible
from kraftwreck.nemesis.registry import families
from kraftwreck.systems import registry as systems
from kraftwreck.systems.simulators import has_simulator, simulator

SIMULATOR = "sim"


def place(
    options: RunOptions, nodes: int | None, by_default: bool
) -> tuple[RunOptions, Cluster | None, str | None]:
    """Return options, cluster (None: simulator), and why the simulator replaces the hosts.

    Only a cluster chosen ``by_default`` is replaced. Raises ClusterUnavailable if this machine
    cannot provide the cluster that the user named.
    """
    instead = None
    if is_spec(options.system):
        if by_default:
            options = replace(options, cluster=SIMULATOR)
        elif options.cluster != SIMULATOR:
            raise OptionError(f"{options.system} is a core: it runs in the simulator only (-c sim)")
    if options.cluster == "netns":
        from kraftwreck.harness.clusters.netns import probe

        try:
            probe()
        except ClusterUnavailable as error:
            if not by_default or not has_simulator(options.system):
                raise
            instead = str(error)
            options = replace(options, cluster=SIMULATOR)
    lacks = check_faults(options)
    if options.cluster == SIMULATOR:
        if not has_simulator(options.system):
            raise OptionError(
                f"{options.system} brings no core for the simulator; use -c netns, vagrant or"
                " hosts:FILE"
            )
        simulator(options.system).check(options)
        if not options.snapshots:
            raise OptionError(
                "--no-snapshots needs real hosts;"
                " for the simulator use kraftwreck sim --no-snapshots"
            )
        return options, None, instead
    options = replace(options, lacking=tuple(sorted(lacks)))
    # All hosts of an inventory are used, unless numbers are given.
    layout = layout_of(_under_test(options), options)
    listed_only = options.cluster.startswith("hosts:") and nodes is None
    everybody = None if listed_only else len(layout.roles)
    disks = "host" in options.faults
    cluster = choose_cluster(options.cluster, everybody, disks=disks, others=(SIMULATOR,))
    listed = getattr(cluster, "hosts", None)
    if options.cluster.startswith("hosts:") and listed:
        if len(listed) <= layout.others:
            least = layout_of(_under_test(options), replace(options, nodes=1))
            raise OptionError(f"{len(listed)} hosts are too few; a run needs {least.about}")
        options = replace(options, nodes=len(listed) - layout.others)
    if isinstance(cluster, VagrantCluster):
        cluster.check()
    return options, cluster, None


def check_faults(options: RunOptions) -> dict[str, str]:
    """Return what faults cannot do with these options, by name with the reason.

    Raises :class:`OptionError`, one line, for a fault family of which the system, the hosts or the
    simulator supports no shape.
    """
    known = families(options.system)
    missing = possible.lacking_of(_under_test(options), options, known)
    possible.check(options.faults, known, missing, options.system)
    there = lacking(options.cluster)
    where = "the simulator" if options.cluster == SIMULATOR else f"-c {options.cluster}"
    possible.check(options.faults, known, there, where)
    both = missing | there
    possible.check(options.faults, known, both, f"{options.system} on {where}")
    return both


def supported_faults(options: RunOptions) -> tuple[str, ...]:
    """Return the fault families of ``options`` of which a shape is supported there."""
    known = families(options.system)
    lacks = possible.lacking_of(_under_test(options), options, known)
    lacks |= lacking(options.cluster)
    return tuple(
        name for name in options.faults if possible.unsupported(name, known, lacks) is None
    )


def _under_test(options: RunOptions) -> System:
    """Return the system, or its core for a run in the simulator. Raises OptionError."""
    if options.cluster == SIMULATOR and is_core(options.system):
        core: Any = load_core(options.system)
        return cast(System, core)
    return systems.configured(options)
