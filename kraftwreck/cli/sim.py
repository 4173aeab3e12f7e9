"""``kraftwreck sim``: many tests in virtual time; each failed run is saved and named."""

from __future__ import annotations

import json
import sys
import time
from itertools import count
from pathlib import Path
from typing import get_args

import click
from click.core import ParameterSource

from kraftwreck.campaigns.campaign_report import plain, report
from kraftwreck.campaigns.patched import unpatched, with_patch
from kraftwreck.campaigns.seeds import parse_seeds
from kraftwreck.campaigns.sim_runs import Progress, run_all, source_of
from kraftwreck.checkers.registry import require as require_checkers
from kraftwreck.cli.option_types import HOURS, INTERVAL, RATE_OR_SEED, Number
from kraftwreck.cli.own_options import OwnOptionCommand
from kraftwreck.harness.compiled import tree as compiled_tree
from kraftwreck.harness.options import LONGEST_S, OptionError, Style
from kraftwreck.harness.simulated.core import is_core
from kraftwreck.harness.workload import floor as least
from kraftwreck.histories.exit_codes import INVALID, UNKNOWN, VALID
from kraftwreck.histories.system_name import DEFAULT_SYSTEM
from kraftwreck.nemesis import possible
from kraftwreck.nemesis import registry as nemeses
from kraftwreck.systems import registry as systems
from kraftwreck.systems.campaign import ALL, FAULTS, NO_FLOOR, Campaign
from kraftwreck.systems.core_campaign import refuse_options
from kraftwreck.systems.simulators import everything, simulator

_ARGUMENTS = "kraftwreck.cli.sim.arguments"


def say(line: str) -> None:
    """Print one line for people."""
    click.echo(line, err=True)


class _Sim(OwnOptionCommand):
    """Keeps its arguments for the process with compiled modules that replaces this one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)


@click.command(name="sim", cls=_Sim, own=lambda options: options.campaign)
@click.argument("system", default=DEFAULT_SYSTEM)
@click.option(
    "-w", "--workload", default=ALL, show_default=True,
    help="Workload of the clients; all: by seed.",
)  # fmt: skip
@click.option(
    "-n", "--nemesis", "faults", default=",".join(FAULTS), show_default=True,
    help="Fault families to inject, comma-separated; none: no faults. "
    "Families of other packages are injected only if named.",
)  # fmt: skip
@click.option("-t", "--time-limit", type=Number(1, LONGEST_S), default=30.0, show_default=True,
              help="Virtual seconds of clients and faults in each run.")  # fmt: skip
@click.option("--nodes", type=click.IntRange(0, 99), default=0, show_default=True,
              help="Number of nodes that elect a leader; 0: by seed.")  # fmt: skip
@click.option("--rate", type=RATE_OR_SEED, default=0.0, show_default=True,
              help="Operations per second, all clients together; 0: by seed.")  # fmt: skip
@click.option("--concurrency", type=click.IntRange(0, 1000), default=0, show_default=True,
              help="Number of clients; 0: by seed.")  # fmt: skip
@click.option("--snapshots/--no-snapshots", default=True, show_default=True,
              help="Write a snapshot every few records, and keep few of them.")  # fmt: skip
@click.option("--style", type=click.Choice(get_args(Style)), default="swarm",
              show_default=True, help="When faults come: by time and trigger; in storms, as in "
              "kraftwreck run; or by the clock, in one configuration, as in Jepsen.")  # fmt: skip
@click.option("--interval", type=INTERVAL, metavar="SECONDS",
              help="Approximate time between storms (--style timed: faults).")  # fmt: skip
@click.option(
    "--governed", is_flag=True, help="With --style swarm: inject the faults in storms, too."
)
@click.option(
    "--seeds", "seed_text", metavar="A..B", help="Seeds [default: 0..99, or 0.. with --hours]."
)
@click.option("--jobs", type=click.IntRange(1, 256), default=2, show_default=True,
              help="Parallel processes.")  # fmt: skip
@click.option("--hours", type=HOURS, help="Stop after this many hours.")
@click.option("--floor", default=NO_FLOOR, show_default=True, metavar="none|default|NAME=NUMBER",
              help="Least values for a valid run; default: the workload's.")  # fmt: skip
@click.option("--store", type=click.Path(path_type=Path, file_okay=False), default=Path("store"),
              show_default=True, help="Directory in which failing runs are saved.")  # fmt: skip
@click.option("--coverage", "coverage_file", type=click.Path(path_type=Path, dir_okay=False),
              help="File of coverage counters to read and update.")  # fmt: skip
@click.option("--steer", "corpus", type=click.Path(path_type=Path, file_okay=False),
              help="Coverage-guided: keep runs that reach new states in this "
              "corpus directory.")  # fmt: skip
@click.option("--shrink/--no-shrink", "shrinks", default=True, show_default=True,
              help="Shrink the first failure of each kind for 30 CPU seconds.")  # fmt: skip
@click.option("--compiled", is_flag=True, help="Run mypyc-compiled modules, building them first "
              "if sources changed (takes minutes).")  # fmt: skip
@click.option("--patch", type=click.Path(path_type=Path), help="Of a core: apply this patch to "
              "nodes/.")  # fmt: skip
@click.option("--json", "json_output", is_flag=True, help="Print the result as JSON on stdout.")
@click.pass_context
def cli(
    ctx: click.Context,
    system: str,
    workload: str,
    faults: str,
    time_limit: float,
    nodes: int,
    rate: float,
    concurrency: int,
    snapshots: bool,
    style: Style,
    interval: float | None,
    governed: bool,
    system_options: tuple[str, ...],
    seed_text: str | None,
    jobs: int,
    hours: float | None,
    floor: str,
    store: Path,
    coverage_file: Path | None,
    corpus: Path | None,
    shrinks: bool,
    compiled: bool,
    patch: Path | None,
    json_output: bool,
) -> None:
    """Run one test per seed in virtual time, check each, and save the failures.

    SYSTEM is an installed one (kraftwreck list), or a core of your own as MODULE:NAME
    (docs/bring-your-own-core.md).
    """
    if patch is not None and not is_core(system):
        raise OptionError("--patch is for cores; use kraftwreck mutants or run --patch")
    if patch is not None and unpatched():
        sys.exit(with_patch(patch, ctx.meta[_ARGUMENTS]))
    systems.find(system)
    if workload != ALL:
        systems.simulated_workload(system, workload)
    seeds = parse_seeds(seed_text or ("0.." if hours else "0..99"))
    if isinstance(seeds, count) and hours is None:
        raise OptionError(f"--seeds {seed_text}: an endless range needs --hours")
    possible.check_simulator(nemeses.parse(faults))
    campaign = _campaign(ctx)
    first = campaign.options(0)
    clients = systems.simulated_workload(system, first.workload)
    least(clients, first.floor)
    require_checkers(clients.checkers, f"the workload {clients.name}")
    require_checkers(simulator(system).checkers, f"the system {system}")
    if corpus is not None and style != "swarm":
        raise OptionError(f"--steer and --style {style} cannot be combined")
    if compiled:
        compiled_tree.go_on("kraftwreck", ["sim", *ctx.meta[_ARGUMENTS]], say)
    source = source_of(campaign, corpus, coverage_file)
    progress = Progress(source, len(seeds) if isinstance(seeds, range) else None, say)
    run_all(seeds, jobs, time.monotonic() + hours * 3600 if hours else None, progress)
    source.save()
    cases = []
    if shrinks:
        from kraftwreck.campaigns.shrink_kept import shrink_kept

        cases = shrink_kept(progress.kinds, say)
    report(progress, campaign, say)
    if json_output:
        click.echo(json.dumps(plain(progress, campaign, cases)))
    failed = any(t.found for t in progress.tested)
    unknown = any(t.unknown for t in progress.tested)
    sys.exit(INVALID if failed else UNKNOWN if unknown else VALID)


def _campaign(ctx: click.Context) -> Campaign:
    """Return the campaign. Raises OptionError for options that a core has no use for."""
    given = ctx.params
    system, known = given["system"], None
    faults: str = given["faults"]
    if is_core(system):
        source = ctx.get_parameter_source
        by_user = {name for name in given if source(name) is not ParameterSource.DEFAULT}
        refuse_options(system, by_user, given["workload"])
        faults = faults if "faults" in by_user else ",".join(everything(system).faults)
        known = nemeses.families(system)
    patch = given["patch"]
    return simulator(system).campaign(
        system=system,
        faults=nemeses.parse(faults, known),
        workload=given["workload"],
        patch=None if patch is None else patch.resolve(),
        time_limit_s=given["time_limit"],
        nodes=given["nodes"],
        rate=given["rate"],
        concurrency=given["concurrency"],
        system_options=given["system_options"],
        snapshots=given["snapshots"],
        style=given["style"],
        interval_s=given["interval"],
        governed=given["governed"],
        floor=given["floor"],
        store=given["store"],
    )
