"""One test, on hosts or in the simulator, from its options to its run folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from kraftwreck.harness.clusters.cluster import Cluster
from kraftwreck.harness.layout import layout_of
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.remote.preloads import library
from kraftwreck.harness.run import Outcome, TestRun
from kraftwreck.harness.system import Fetching
from kraftwreck.nemesis import possible
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.plan import plan_faults
from kraftwreck.nemesis.registry import families
from kraftwreck.systems import registry as systems


def build_libraries(faults: tuple[str, ...]) -> None:
    """Build the clock and disk libraries that ``faults`` need, before anything is set up."""
    if "clock" in faults:
        library()
    if not {"disk", "storage"}.isdisjoint(faults):
        library(name="diskwork")


def run_on_hosts(
    options: RunOptions,
    cluster: Cluster,
    tree: Path,
    say: Callable[[str], None],
    began: Callable[[Path], None],
    collected: Callable[[Path], None],
    complete: Callable[[Path], None],
) -> Outcome:
    """Run one test on the hosts of ``cluster`` with the node code in ``tree``.

    The functions are called with the run folder: ``began`` when clients are about to begin,
    ``collected`` when it has the recordings of all nodes. ``complete`` follows when it has its
    final name; the hosts are being released meanwhile.
    """
    system = systems.configured(options)
    if isinstance(system, Fetching):
        system.fetch(say)
    known = families(options.system)
    layout = layout_of(system, options)
    planned = plan_faults(options, layout.others)
    return TestRun(
        options,
        system=system,
        workload=systems.workload_of(system, options.workload),
        schedule=possible.adapt(planned, known, options.lacking, len(layout.roles), layout.others),
        injector=partial(Injector, known=known),
        cluster=cluster,
        say=say,
        tree=tree,
        began=began,
        collected=collected,
        complete=complete,
    ).go()
