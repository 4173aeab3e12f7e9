"""``kraftwreck run``: one test from deployment to verdict."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click
from click.core import ParameterSource

from kraftwreck.cli.campaign import plan_faults
from kraftwreck.cli.judge import REPORT, judge, measured_strength, show_verdict
from kraftwreck.cli.option_types import INTERVAL, RATE, SECONDS, SEED
from kraftwreck.cli.spark_tables import SparkTables
from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.clusters.cluster import Cluster, ClusterUnavailable
from kraftwreck.harness.clusters.providers import DEFAULT_NODES, choose_cluster, lacking
from kraftwreck.harness.clusters.vagrant import VagrantCluster
from kraftwreck.harness.options import (
    DYNAMIC,
    STATIC,
    OptionError,
    RunOptions,
    Style,
    repeat_command,
)
from kraftwreck.harness.patched_nodes import patch_of, patched_tree
from kraftwreck.harness.remote.preloads import library
from kraftwreck.harness.run import Outcome, TestRun
from kraftwreck.harness.workload import floor as least
from kraftwreck.histories.exit_codes import INTERRUPTED, INVALID, of_verdict
from kraftwreck.histories.store import link_latest, make_store
from kraftwreck.histories.verdict import CheckerResult, Verdict
from kraftwreck.histories.without_pandas import leave_pandas_out
from kraftwreck.nemesis import possible
from kraftwreck.nemesis import registry as faults_registry
from kraftwreck.nemesis.inject import Injector
from kraftwreck.systems import registry as systems_registry
from kraftwreck.workloads import registry as workloads_registry

SIMULATOR = "sim"
SIMULATED = "kraft"
"""The only system that the simulator runs."""
_NOTHING = {"run": CheckerResult(valid="unknown", error="the run is too incomplete to be judged")}


def say(line: str) -> None:
    """Print one line for people."""
    click.echo(line, err=True)


@click.command(name="run")
@click.argument("system", default="kraft")
@click.option("-w", "--workload", help="Workload of the clients [default: the system's own].")
@click.option(
    "-n", "--nemesis", "faults", default="partition,kill,pause", show_default=True,
    metavar="FAULT[,FAULT]", help="Fault families to inject, comma-separated; none: no faults.",
)  # fmt: skip
@click.option(
    "-t", "--time-limit", type=SECONDS, default=60.0,
    show_default=True, metavar="SECONDS", help="Duration of clients and faults.",
)  # fmt: skip
@click.option(
    "-c", "--cluster", default="netns", show_default=True,
    metavar="netns|vagrant|sim|hosts:FILE", help="Where the nodes run (see kraftwreck list).",
)  # fmt: skip
@click.option("--nodes", type=click.IntRange(1, 200), help="Number of controllers [default: 5].")
@click.option(
    "--brokers", type=click.IntRange(0, 200), default=0, show_default=True,
    help="Number of brokers in addition to the controllers.",
)  # fmt: skip
@click.option("--combined", is_flag=True, help="Let every controller be a broker, too.")
@click.option(
    "--quorum", type=click.Choice([STATIC, DYNAMIC]), default=STATIC, show_default=True,
    help="Whether voters can be changed; -n membership needs dynamic.",
)  # fmt: skip
@click.option(
    "--snapshots", is_flag=True,
    help="On hosts: write a snapshot every few kilobytes, and delete older log segments soon.",
)  # fmt: skip
@click.option("--seed", type=SEED, help="Random seed; repeating it repeats the test.")
@click.option(
    "--style", type=click.Choice(get_args(Style)), default="storms", show_default=True,
    help="When faults come: in storms with calm between; as a swarm of styles, in storms; "
    "or by the clock alone, as in Jepsen.",
)  # fmt: skip
@click.option(
    "--interval", type=INTERVAL, metavar="SECONDS",
    help="Approximate time between storms [default: 8], with --style timed between faults [10].",
)  # fmt: skip
@click.option(
    "--rate", type=RATE, default=20.0, show_default=True,
    help="Operations per second, all clients together.",
)  # fmt: skip
@click.option("--concurrency", type=click.IntRange(1, 1000), default=5, show_default=True,
              help="Number of client threads.")  # fmt: skip
@click.option("--mutant", metavar="ID", help="Plant this bug (see kraftwreck list).")
@click.option("--patch", type=click.Path(path_type=Path), help="Apply this patch to nodes/.")
@click.option(
    "--other", type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Another version of nodes/, for upgrades and downgrades by -n restart.",
)  # fmt: skip
@click.option(
    "--floor", metavar="none|NAME=NUMBER[,...]",
    help="Least values for a valid run: acknowledged, share, led, elections, faults "
    "[default: the workload's].",
)  # fmt: skip
@click.option("--store", type=click.Path(path_type=Path, file_okay=False), default=Path("store"),
              show_default=True, help="Directory in which to write the run folder.")  # fmt: skip
@click.option("--tables/--no-tables", "with_tables", default=True, show_default=True,
              help="On hosts: compute the run's tables with Spark.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def cli(
    system: str,
    workload: str | None,
    faults: str,
    time_limit: float,
    cluster: str,
    nodes: int | None,
    brokers: int,
    combined: bool,
    quorum: str,
    snapshots: bool,
    seed: int | None,
    style: Style,
    interval: float | None,
    rate: float,
    concurrency: int,
    mutant: str | None,
    patch: Path | None,
    other: Path | None,
    floor: str | None,
    store: Path,
    with_tables: bool,
    as_json: bool,
) -> None:
    """Test SYSTEM (kraft): deploy it, run clients, inject faults, heal it, check it.

    Prints the verdict, the run folder, and the command that repeats the test.
    """
    if mutant is not None and patch is not None:
        raise OptionError("--mutant and --patch cannot be combined")
    if combined and brokers:
        raise OptionError("--combined and --brokers cannot be combined")
    chosen = RunOptions(
        system=system,
        workload=workload or systems_registry.find(system).default_workload,
        faults=faults_registry.parse(faults),
        time_limit_s=time_limit,
        cluster=cluster,
        nodes=nodes or DEFAULT_NODES,
        brokers=brokers,
        combined=combined,
        quorum=quorum,
        snapshots=snapshots,
        seed=secrets.randbelow(1 << 31) if seed is None else seed,
        rate=rate,
        concurrency=concurrency,
        mutant=mutant,
        patch=patch,
        other=other,
        floor=floor,
        style=style,
        interval_s=interval,
        store=store,
        tables=with_tables,
    )
    if quorum == STATIC:
        faults_registry.check_static(chosen.faults)
    systems_registry.find(chosen.system)
    least(workloads_registry.find(chosen.workload), floor)
    options, where, instead = _place(chosen, nodes, _is_default("cluster"))
    if where is not None:
        _check_clockwork(chosen.faults)
    else:
        faults_registry.check_simulator(chosen.faults)
    with _tree(options) as tree:
        make_store(options.store)
        sys.exit(_test(options, where, tree, as_json, instead))


def _check_clockwork(faults: tuple[str, ...]) -> None:
    """Build the clock and disk libraries that ``faults`` need, before anything is set up."""
    if "clock" in faults:
        library()
    if not {"disk", "storage"}.isdisjoint(faults):
        library(name="diskwork")


def _is_default(option: str) -> bool:
    """Return whether the user left ``option`` out."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.DEFAULT


def _place(
    options: RunOptions, nodes: int | None, by_default: bool
) -> tuple[RunOptions, Cluster | None, str | None]:
    """Return options, cluster (None: simulator), and why the simulator replaces the hosts.

    Only a cluster chosen ``by_default`` is replaced. Raises ClusterUnavailable if this machine
    cannot provide the cluster that the user named.
    """
    instead = None
    if options.cluster == "netns":
        from kraftwreck.harness.clusters.netns import probe

        try:
            probe()
        except ClusterUnavailable as error:
            if not by_default or options.system != SIMULATED:
                raise
            instead = str(error)
            options = replace(options, cluster=SIMULATOR)
    lacks = lacking(options.cluster)
    possible.check(options.faults, lacks)
    options = replace(options, lacking=tuple(sorted(lacks)))
    if options.cluster == SIMULATOR:
        if options.system != SIMULATED:
            raise OptionError(
                f"the simulator runs {SIMULATED} only; use -c netns, vagrant or hosts:FILE"
                f" for {options.system}"
            )
        if options.combined:
            raise OptionError("--combined needs real hosts; use --brokers in the simulator")
        if options.snapshots:
            raise OptionError(
                "--snapshots needs real hosts; for the simulator use kraftwreck sim --snapshots"
            )
        return options, None, instead
    # All hosts of an inventory are used, unless numbers are given.
    everybody = None if nodes is None else nodes + options.brokers
    if not options.cluster.startswith("hosts:"):
        everybody = options.nodes + options.brokers
    cluster = choose_cluster(options.cluster, everybody, disks="host" in options.faults)
    listed = getattr(cluster, "hosts", None)
    if options.cluster.startswith("hosts:") and listed:
        if len(listed) <= options.brokers:
            raise OptionError(
                f"{len(listed)} hosts are too few for {options.brokers} brokers and a controller"
            )
        options = replace(options, nodes=len(listed) - options.brokers)
    if isinstance(cluster, VagrantCluster):
        cluster.check()
    return options, cluster, None


@contextmanager
def _tree(options: RunOptions) -> Iterator[Path]:
    """Yield the node code to test: the project's, or a copy with a bug planted."""
    patch = patch_of(options.mutant) if options.mutant is not None else options.patch
    if patch is None:
        yield PROJECT_TREE
    else:
        with patched_tree(patch) as tree:
            yield tree


def _test(
    options: RunOptions, cluster: Cluster | None, tree: Path, as_json: bool, instead: str | None
) -> int:
    leave_pandas_out()  # Nothing in this process needs it, and importing it takes long.
    if instead is not None:
        say(f"{instead}: running the same test in the simulator (-c sim) instead")
    say(f"{options.name}: {', '.join(options.faults) or 'no faults'}; seed {options.seed}")
    unwritten: list[str] = []

    def note(line: str) -> None:
        say(line)
        if line.startswith(f"error: {REPORT}: "):
            unwritten.append(line.removeprefix("error: "))

    tables = SparkTables(say)
    began = tables.begin if options.tables else _nothing
    try:
        outcome = _on_hosts(options, cluster, tree, began) if cluster else _simulated(options, tree)
        if outcome.judgeable:
            tables.compute(outcome.folder)
            verdict = judge(outcome.folder, note)
            outcome.errors += unwritten
            summary = tables.finish(verdict)
            link_latest(outcome.folder)
        else:
            verdict, summary = Verdict.of(_NOTHING), None
    finally:
        tables.close()
    repeat = repeat_command(options)
    if outcome.judgeable:
        # With --json, standard output holds only the JSON.
        show = say if as_json else click.echo
        show_verdict(verdict, outcome.folder, repeat, show, instead)
        for line in outcome.errors:
            say(f"harness: {line}")
    else:
        say(f"run:     {outcome.folder}")
    if as_json:
        said = {
            "valid": verdict.valid,
            "run": str(outcome.folder),
            "repeat": repeat,
            "checkers": {name: c.valid for name, c in verdict.checkers.items()},
            "strength": measured_strength(verdict),
            "errors": outcome.errors,
            "simulated_because": instead,
            "tables": summary,
        }
        click.echo(json.dumps(said))
    return exit_code(verdict, outcome)


def _nothing(folder: Path) -> None:
    pass


def _on_hosts(
    options: RunOptions, cluster: Cluster, tree: Path, began: Callable[[Path], None]
) -> Outcome:
    planned = plan_faults(replace(options, brokers=0), options.brokers)
    everybody = options.nodes + options.brokers
    return TestRun(
        options,
        system=systems_registry.find(options.system),
        workload=workloads_registry.find(options.workload),
        schedule=possible.adapt(planned, options.lacking, everybody, options.brokers),
        injector=Injector,
        cluster=cluster,
        say=say,
        tree=tree,
        began=began,
    ).go()


def _simulated(options: RunOptions, tree: Path) -> Outcome:
    # Finished before Spark would be ready; `kraftwreck analyze` makes tables of many such runs.
    from kraftwreck.cli.simulated import simulated_run

    return simulated_run(options, tree)


def exit_code(verdict: Verdict, outcome: Outcome) -> int:
    """Return the exit code of a run: a proven anomaly outranks a harness failure."""
    if outcome.interrupted:
        return INTERRUPTED
    if verdict.valid is False:
        return INVALID
    if outcome.errors:
        return outcome.failure
    return of_verdict(verdict.valid)
