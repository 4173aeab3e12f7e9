"""``kraftwreck run``: one test from deployment to verdict."""

from __future__ import annotations

import secrets
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click
from click.core import ParameterSource

from kraftwreck.checkers.registry import require as require_checkers
from kraftwreck.cli.end_of_run import say, show
from kraftwreck.cli.option_types import INTERVAL, RATE, SECONDS, SEED
from kraftwreck.cli.own_options import OwnOptionCommand
from kraftwreck.harness.clusters.cluster import Cluster
from kraftwreck.harness.clusters.providers import DEFAULT_NODES
from kraftwreck.harness.options import (
    MOST_TRANSACTION,
    TRANSACTION,
    OptionError,
    RunOptions,
    Style,
    repeat_command,
)
from kraftwreck.harness.patched_nodes import chosen_patch, tested_tree
from kraftwreck.harness.workload import floor as least
from kraftwreck.histories.store import make_store
from kraftwreck.histories.system_name import DEFAULT_SYSTEM
from kraftwreck.histories.without_pandas import leave_pandas_out
from kraftwreck.nemesis import registry as faults_registry
from kraftwreck.pipeline.run_tables import SparkTables
from kraftwreck.reports.pages import write_pages
from kraftwreck.runs.one_run import build_libraries
from kraftwreck.runs.place import place, supported_faults
from kraftwreck.runs.two_judges import require_elle
from kraftwreck.runs.whole import run_and_judge
from kraftwreck.systems import registry as systems_registry


@click.command(name="run", cls=OwnOptionCommand, own=lambda options: options.run)
@click.argument("system", default=DEFAULT_SYSTEM)
@click.option("-w", "--workload", help="Workload of the clients [default: the system's own].")
@click.option(
    "-n", "--nemesis", "faults", metavar="FAULT[,FAULT]",
    help="Fault families to inject, comma-separated; none: no faults [default: the system's own, "
    f"or {','.join(faults_registry.DEFAULT)}].",
)  # fmt: skip
@click.option(
    "-t", "--time-limit", type=SECONDS, default=60.0,
    show_default=True, metavar="SECONDS", help="Duration of clients and faults.",
)  # fmt: skip
@click.option(
    "-c", "--cluster", default="netns", show_default=True,
    metavar="netns|vagrant|sim|hosts:FILE", help="Where the nodes run (see kraftwreck list).",
)  # fmt: skip
@click.option("--nodes", type=click.IntRange(1, 200),
              help="Number of nodes that elect a leader [default: 5].")  # fmt: skip
@click.option(
    "--snapshots/--no-snapshots", default=True, show_default=True,
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
@click.option(
    "--transaction", type=click.IntRange(1, MOST_TRANSACTION), default=TRANSACTION,
    show_default=True, help="Largest number of micro-operations of a transaction (append, txn).",
)  # fmt: skip
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
@click.option(
    "-o", "--option", "system_options", multiple=True, metavar="NAME=VALUE",
    help="An option of the system's own; repeat it for more.",
)  # fmt: skip
@click.option("--store", type=click.Path(path_type=Path, file_okay=False), default=Path("store"),
              show_default=True, help="Directory in which to write the run folder.")  # fmt: skip
@click.option("--tables/--no-tables", "with_tables", default=True, show_default=True,
              help="On hosts: compute the run's tables with Spark.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def cli(
    system: str,
    workload: str | None,
    faults: str | None,
    time_limit: float,
    cluster: str,
    nodes: int | None,
    snapshots: bool,
    seed: int | None,
    style: Style,
    interval: float | None,
    rate: float,
    concurrency: int,
    transaction: int,
    mutant: str | None,
    patch: Path | None,
    other: Path | None,
    floor: str | None,
    system_options: tuple[str, ...],
    store: Path,
    with_tables: bool,
    as_json: bool,
) -> None:
    """Test SYSTEM: deploy it, run clients, inject faults, heal it, check it.

    Prints the verdict, the run folder, and the command that repeats the test.
    """
    if mutant is not None and patch is not None:
        raise OptionError("--mutant and --patch cannot be combined")
    under_test = systems_registry.find(system)
    chosen = RunOptions(
        system=system,
        workload=workload or under_test.default_workload,
        faults=faults_registry.chosen(faults, system),
        time_limit_s=time_limit,
        cluster=cluster,
        nodes=nodes or int(getattr(under_test, "nodes", DEFAULT_NODES)),
        snapshots=snapshots,
        seed=secrets.randbelow(1 << 31) if seed is None else seed,
        rate=rate,
        concurrency=concurrency,
        transaction=transaction,
        mutant=mutant,
        patch=patch,
        other=other,
        floor=floor,
        style=style,
        interval_s=interval,
        system_options=system_options,
        store=store,
        tables=with_tables,
    )
    clients = systems_registry.workload_of(under_test, chosen.workload)
    least(clients, floor)
    if faults is None:
        chosen = replace(chosen, faults=supported_faults(chosen))
    options, where, instead = place(chosen, nodes, _is_default("cluster"))
    require_checkers(clients.checkers, f"the workload {clients.name}")
    require_checkers(getattr(under_test, "checkers", ()), f"the system {system}")
    if where is not None:
        require_elle(under_test, clients.checkers)
        build_libraries(chosen.faults)
    with tested_tree(chosen_patch(options)) as tree:
        make_store(options.store)
        sys.exit(_test(options, where, tree, as_json, instead))


def _is_default(option: str) -> bool:
    """Return whether the user left ``option`` out."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.DEFAULT


def _test(
    options: RunOptions, cluster: Cluster | None, tree: Path, as_json: bool, instead: str | None
) -> int:
    leave_pandas_out()  # Nothing in this process needs it, and importing it takes long.
    if instead is not None:
        say(f"{instead}: running the same test in the simulator (-c sim) instead")
    say(f"{options.name}: {', '.join(options.faults) or 'no faults'}; seed {options.seed}")
    tested = run_and_judge(options, cluster, tree, say, SparkTables(say), write_pages)
    show(tested, repeat_command(options), as_json, instead)
    return tested.exit_code
