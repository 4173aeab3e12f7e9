"""``kraftwreck sim``: many tests in virtual time; the first failure of each kind is saved."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import get_args

import click
from click.core import ParameterSource

from kraftwreck import nodes as nodes_package
from kraftwreck.campaigns.campaign import (
    Tested,
    as_json,
    combined_digest,
)
from kraftwreck.campaigns.sim_runs import BySeed, Progress, Source, Steered, run_all
from kraftwreck.cli.option_types import HOURS, INTERVAL, RATE_OR_SEED, Number
from kraftwreck.cli.own_options import OwnOptionCommand
from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.command_line import command_line
from kraftwreck.harness.compiled import tree as compiled_tree
from kraftwreck.harness.options import DEFAULT_SYSTEM, LONGEST_S, OptionError, Style
from kraftwreck.harness.patched_nodes import environment, patched_tree
from kraftwreck.harness.simulated.core import is_core, load_core
from kraftwreck.harness.workload import floor as least
from kraftwreck.histories.exit_codes import INVALID, UNKNOWN, VALID
from kraftwreck.nemesis import possible
from kraftwreck.nemesis.registry import families
from kraftwreck.nemesis.registry import parse as parse_faults
from kraftwreck.systems.campaign import ALL, FAULTS, NO_FLOOR, Campaign
from kraftwreck.systems.registry import find as find_system
from kraftwreck.systems.registry import simulated_workload
from kraftwreck.systems.simulators import simulator

_ARGUMENTS = "kraftwreck.cli.sim.arguments"
_NOT_OF_CORES = {
    "snapshots": "--snapshots",
    "interval": "--interval",
    "governed": "--governed",
    "corpus": "--steer",
    "compiled": "--compiled",
}
_SEED = re.compile("[0-9]{1,18}")


def say(line: str) -> None:
    """Print one line for people."""
    click.echo(line, err=True)


def parse_seeds(text: str) -> Iterable[int]:
    """Return the seeds in ``A..B`` (inclusive), ``A..`` (endless) or ``A``.

    Raises :class:`OptionError`.
    """
    first, dots, last = text.partition("..")
    if not _SEED.fullmatch(first) or (last and not _SEED.fullmatch(last)):
        raise OptionError(f"--seeds {_shown(text)}: give A..B, such as 0..999")
    if not dots:
        return range(int(first), int(first) + 1)
    if not last:
        return count(int(first))
    if int(last) < int(first):
        raise OptionError(f"--seeds {text!r}: {last} is before {first}")
    return range(int(first), int(last) + 1)


def _shown(text: str) -> str:
    """Return ``text`` in quotes, shortened to fit on a line."""
    return repr(text if len(text) <= 60 else f"{text[:60]}...")


class _Sim(OwnOptionCommand):
    """Keeps its arguments for the process with compiled modules that replaces this one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)


@click.command(name="sim", cls=_Sim, own=lambda options: options.campaign)
@click.argument("system", default=DEFAULT_SYSTEM)
@click.option(
    "-w",
    "--workload",
    default=ALL,
    show_default=True,
    help="Workload of the clients; all: by seed.",
)
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
    if patch is not None and _ours():
        sys.exit(_with_patch(patch, ctx.meta[_ARGUMENTS]))
    find_system(system)
    if workload != ALL:
        simulated_workload(system, workload)
    seeds = parse_seeds(seed_text or ("0.." if hours else "0..99"))
    if isinstance(seeds, count) and hours is None:
        raise OptionError(f"--seeds {seed_text}: an endless range needs --hours")
    possible.check_simulator(parse_faults(faults))
    campaign = _campaign(ctx)
    first = campaign.options(0)
    least(simulated_workload(system, first.workload), first.floor)
    if corpus is not None and style != "swarm":
        raise OptionError(f"--steer and --style {style} cannot be combined")
    if compiled:
        compiled_tree.go_on("kraftwreck", ["sim", *ctx.meta[_ARGUMENTS]], say)
    source: Source
    if corpus is None:
        source = BySeed(campaign, coverage_file)
    else:
        source = Steered(campaign, corpus, coverage_file)
    progress = Progress(source, len(seeds) if isinstance(seeds, range) else None, say)
    deadline = time.monotonic() + hours * 3600 if hours else None
    run_all(seeds, jobs, deadline, progress)
    source.save()
    cases = _shrunk(progress) if shrinks else []
    report(progress, campaign, json_output, cases)
    failed = any(t.found for t in progress.tested)
    unknown = any(t.unknown for t in progress.tested)
    sys.exit(INVALID if failed else UNKNOWN if unknown else VALID)


def _ours() -> bool:
    """Return whether this process imports the project's node code, and no patched copy."""
    return Path(nodes_package.__file__ or "").resolve().parent == PROJECT_TREE.resolve()


def _with_patch(patch: Path, arguments: Sequence[str]) -> int:
    """Run the campaign in a process that imports the patched node code; return its exit code."""
    with patched_tree(patch) as tree:
        command = [sys.executable, "-P", "-m", "kraftwreck", "sim", *arguments]
        return subprocess.run(command, env=environment(tree), check=False).returncode


def _campaign(ctx: click.Context) -> Campaign:
    """Return the campaign. Raises OptionError for options that a core has no use for."""
    given = ctx.params
    system, faults = given["system"], given["faults"]
    named = None if ctx.get_parameter_source("faults") is ParameterSource.DEFAULT else faults
    known = None
    if is_core(system):
        core, known = load_core(system), families(system)
        for name, option in _NOT_OF_CORES.items():
            if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
                raise OptionError(f"{option} has no meaning for the core {system}")
        if given["workload"] != ALL and core.client is None:
            raise OptionError(f"-w has no meaning for the core {system}")
        if named is None:
            faults = ",".join(core.faults)
    patch = given["patch"]
    return simulator(system).campaign(
        system=system,
        faults=parse_faults(faults, known),
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


def _shrunk(progress: Progress) -> list[Path]:
    """Return the case files of the first failure of each kind."""
    from kraftwreck.campaigns.shrink_kept import shrink_kept

    return shrink_kept(progress.kinds, say)


def report(
    progress: Progress, campaign: Campaign, json_output: bool, cases: Sequence[Path] = ()
) -> None:
    """Print the result of the campaign: text on stderr, JSON on stdout."""
    failed = sorted((t for t in progress.tested if t.found), key=lambda t: t.seed)
    unknown = sorted((t for t in progress.tested if t.unknown), key=lambda t: t.seed)
    digest = combined_digest(progress.tested)
    progress.show()
    for tested in unknown[:3]:
        name, reason = tested.unknown[0]
        click.echo(f"seed {tested.seed}: {name} is unknown: {reason}", err=True)
    for tested in {t.seed: t for t in progress.kinds.values()}.values():
        click.echo(f"repeat: {_repeat(campaign, progress.source, tested)}", err=True)
    for line in _reached(progress.source):
        click.echo(line, err=True)
    click.echo(f"digest of all runs: {digest}", err=True)
    if json_output:
        result = {
            "runs": len(progress.tested),
            "failures": len(failed),
            "unknown": len(unknown),
            "weak": sum(bool(t.weak) for t in progress.tested),
            "digest": digest,
            "sim_s": round(progress.sim_s, 3),
            "cpu_s": round(progress.cpu_s, 3),
            "failed": [as_json(t) for t in failed],
            "shrunk": [str(path) for path in cases],
            "coverage": progress.source.covered.summary(),
        }
        click.echo(json.dumps(result))


def _repeat(campaign: Campaign, source: Source, tested: Tested) -> str:
    if isinstance(source, Steered):
        return command_line("replay", tested.run)
    return campaign.repeat(tested.seed)


def _reached(source: Source) -> Iterator[str]:
    covered = source.covered
    yield f"reached in {covered.runs} runs:"
    yield from (f"  {line}" for line in covered.lines())
    if isinstance(source, Steered):
        chosen = ", ".join(f"{arm} {count}" for arm, count in source.steering.chosen.items())
        yield f"  runs by generator: {chosen}"
        yield f"  corpus: {len(source.corpus.entries)} runs, {source.kept} of them new"
