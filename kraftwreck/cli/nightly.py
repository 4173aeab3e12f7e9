"""``kraftwreck nightly``: a night of runs within a budget; after a fix, the confirming runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import msgspec

from kraftwreck.cli.option_types import SEED, Number
from kraftwreck.harness.patched_nodes import environment
from kraftwreck.histories.exit_codes import INVALID, VALID
from kraftwreck.nightly.cells import Cell, load
from kraftwreck.nightly.confidence import CONFIDENCE, alike, runs_needed, seen
from kraftwreck.nightly.config import Config
from kraftwreck.nightly.confirm import confirming, find
from kraftwreck.nightly.folder import NightError, NightFolder
from kraftwreck.nightly.night import Work, make_plan, open_night, unfinished
from kraftwreck.nightly.plan import length, order, weights
from kraftwreck.nightly.record import Record
from kraftwreck.nightly.request import Tools

TOOLS = Tools(
    worker=(sys.executable, "-m", "kraftwreck.cli.nightly_worker"),
    shrink=(sys.executable, "-m", "kraftwreck.cli.nightly_worker", "shrink"),
    environment=environment,
)
_SHOWN_CELLS = 40
CONFIRM_OPTIONS = "--tree, --failure-rate, --confidence, --seed, --jobs and --json"


def say(line: str) -> None:
    """Print one line for people."""
    click.echo(line, err=True)


@click.command(name="nightly")
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option("--new", is_flag=True, help="Start a new night, even if the last one did not finish.")
@click.option(
    "--resume", is_flag=True, help="Continue a night that did not finish, if there is one."
)
@click.option(
    "--plan", "only_plan", is_flag=True, help="Show the planned cells and their order; run nothing."
)
@click.option("--confirm", "confirm", metavar="NIGHT#N|CASE|RUN",
              help="After a fix: run enough tests to show that this failure is gone.")  # fmt: skip
@click.option("--tree", help="With --confirm: the build to test [default: the one that failed].")
@click.option("--failure-rate", "rate", type=Number(1e-9, 1.0),
              help="With --confirm: failure rate [default: that of its night].")  # fmt: skip
@click.option("--confidence", type=Number(0.01, 0.999_999),
              default=CONFIDENCE, show_default=True,
              help="With --confirm: confidence to reach.")  # fmt: skip
@click.option("--seed", type=SEED,
              help="With --confirm: random seed [default: a random one].")  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(1, 256), help="Parallel processes [default: as configured]."
)
@click.option("--json", "as_json", is_flag=True, help="Print night.json on stdout at the end.")
def cli(
    config: Path | None,
    new: bool,
    resume: bool,
    only_plan: bool,
    confirm: str | None,
    tree: str | None,
    rate: float | None,
    confidence: float,
    seed: int | None,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Run the tests of one night as CONFIG describes, or continue an unfinished night.

    Exit codes: 0 all valid, 1 some invalid, 2 some unknown, 255 the harness failed, 130
    interrupted.
    """
    if (config is None) == (confirm is None):
        raise NightError("give CONFIG.toml, or --confirm with the failed run or case")
    if confirm is not None:
        if new or resume or only_plan:
            raise NightError(
                "--confirm only allows --tree, --failure-rate, --confidence, --seed and --jobs"
            )
        sys.exit(_confirm(confirm, tree, rate, confidence, seed, jobs or 1, as_json))
    assert config is not None
    if new and resume:
        raise NightError("--new and --resume cannot be combined")
    if tree is not None or rate is not None or seed is not None:
        raise NightError("--tree, --failure-rate and --seed need --confirm")
    settings, found = load(config)
    if jobs is not None:
        settings = msgspec.structs.replace(settings, jobs=jobs)
    if only_plan:
        _show_plan(settings, found)
        sys.exit(VALID)
    if resume and unfinished(settings) is None:
        say(f"night {settings.name}: no unfinished night to resume")
        sys.exit(VALID)
    folder = open_night(settings, found, new=new)
    sys.exit(_work(Work(settings, found, folder, TOOLS, say), folder, as_json))


def _work(work: Work, folder: NightFolder, as_json: bool) -> int:
    planned = "" if work.night.planned is None else f", {work.night.planned} runs"
    done = len(folder.records)
    say(
        f"night {folder.path}: seed {work.night.seed}{planned}" + (f", {done} done" if done else "")
    )
    try:
        code = work.go()
    finally:
        folder.close()
    if as_json:
        click.echo(msgspec.json.encode(work.night).decode())
    return code


def _show_plan(config: Config, found: list[Cell]) -> None:
    """Print the plan, the most frequent cells first."""
    plan = make_plan(config, found)
    total = length(plan, config, found)
    say(f"{len(plan.corpus)} stored cases, then {len(plan.known.again)} failures of earlier nights")
    counts: dict[str, int] = {}
    few = 1000 if total is None else total
    for planned in order(plan, config, found):
        if planned.n >= few:
            break
        if planned.kind == "cell" and planned.cell is not None:
            counts[planned.cell.key] = counts.get(planned.cell.key, 0) + 1
    many = "any number of" if total is None else total
    say(f"{many} runs; cells of the first {few}, if none of them finds anything new:")
    ranked = sorted(found, key=lambda cell: -counts.get(cell.key, 0))
    weighed = weights(plan, config, found)
    for cell in ranked[:_SHOWN_CELLS]:
        say(f"  {counts.get(cell.key, 0):>6}  weight {weighed[cell.key]:.2f}  {cell.key}")
    if len(ranked) > _SHOWN_CELLS:
        say(f"  and {len(ranked) - _SHOWN_CELLS} more cells")


def _confirm(
    text: str,
    tree: str | None,
    rate: float | None,
    confidence: float,
    seed: int | None,
    jobs: int,
    as_json: bool,
) -> int:
    """Run the tests that confirm a fix; return 0 if none failed as before."""
    target = find(text)
    record, past = target.record, seen(target.record, target.records)
    chance = past.rate if rate is None else rate
    runs = 1 if record.kind == "corpus" else runs_needed(chance, confidence)
    say(f"{record.why}")
    if rate is None:
        rarest = runs_needed(past.least, confidence)
        say(
            f"it was seen in {past.failed} of {past.runs} runs ({chance:.2%}): {runs} runs"
            f" without it show with {confidence:.0%} that it is gone ({rarest}, were it as rare"
            f" as {past.least:.2%}: --failure-rate)"
        )
    config, found, plan = confirming(target, runs, tree=tree, jobs=jobs, seed=seed)
    same = alike(record)
    folder = NightFolder.create(config.store_path, config.name, plan)
    work = Work(config, found, folder, TOOLS, say, until=same)
    code = _work(work, folder, False)
    back = [each for each in folder.records if same(each)]
    gone = code == VALID and not back
    if back:
        say(f"NOT gone: {_named(back[0])} failed in the same way: {back[0].repeat}")
    elif gone:
        sure = f"{confidence:.0%} sure at a rate of {chance:.2%}"
        say(f"gone: none of {len(folder.records)} runs failed ({sure})")
    else:
        say("not shown to be gone: no run failed in the same way, but not all are valid")
    if as_json:
        result = {
            "gone": gone,
            "rate": round(chance, 6),
            "confidence": confidence,
            "needed": runs,
            "runs": len(folder.records),
            "failed_again": [each.n for each in back],
            "night": str(folder.path),
        }
        click.echo(json.dumps(result))
    return INVALID if back else code


def _named(record: Record) -> str:
    return record.cell if record.kind == "corpus" else f"seed {record.seed}"
