"""Hunt one planted bug: run simulated tests, seed after seed, until one fails.

Runs as a separate process (``python -m kraftwreck.campaigns.counted_hunt``), in whose import path
the patched node code comes before the project's: see :func:`harness.patched_nodes.environment`.
Prints JSON lines: :class:`Progress` now and then, and at the end a :class:`Hunted`. It ends when
its standard input is closed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click
import msgspec

from kraftwreck import nodes
from kraftwreck.campaigns.campaign import SIMULATOR, Tested, run_seed
from kraftwreck.campaigns.executed import Executed, executed
from kraftwreck.campaigns.loop_guard import LOOP_S, loop_guard
from kraftwreck.harness.options import Style
from kraftwreck.histories.exit_codes import FAILED
from kraftwreck.histories.system_name import DEFAULT_SYSTEM
from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.systems.campaign import Campaign
from kraftwreck.systems.simulators import everything

PROGRESS_S = 2.0
"""CPU seconds between two lines of progress."""
CRASH = "crash"
IMPORT = "import"
UNKNOWN = "unknown"
NODES = "nodes/"


class Hunted(msgspec.Struct, kw_only=True):
    """The result of a hunt.

    ``checker``, ``anomaly``, ``explanation``, ``seed`` and ``workload`` describe the test that
    found the bug. The checker is :data:`CRASH` if the node code failed outside of any node,
    :data:`IMPORT` if it could not be imported. ``runs``, ``sim_s`` and ``cpu_s`` are the cost; the
    CPU time excludes the start of the process. ``not_its`` are seeds whose test fails without the
    bug, too, each with that failure: they do not count as finding it. ``executed`` says how often
    each statement that the patch changes was executed (:mod:`campaigns.executed`).
    """

    found: bool
    cpu_s: float
    runs: int
    sim_s: float
    checker: str | None = None
    anomaly: str | None = None
    explanation: str | None = None
    seed: int | None = None
    workload: str | None = None
    not_its: dict[int, str] = {}
    executed: Executed = {}


class Progress(msgspec.Struct, kw_only=True):
    """How far a hunt is: tests that were run, and CPU seconds."""

    runs: int
    cpu_s: float


def hunt(
    campaign: Campaign,
    first_seed: int,
    budget_s: float,
    runs: int | None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    *,
    loop_s: float = LOOP_S,
) -> Hunted:
    """Run tests from ``first_seed`` upward until one fails, or the CPU budget or ``runs`` end.

    A run that loops fails: L8, or I29 in a node. For ``loop_s`` see
    :func:`~campaigns.loop_guard.loop_guard`.
    """
    begun = time.process_time()
    said = begun
    sim_s = 0.0
    done = 0
    while time.process_time() - begun < budget_s and (runs is None or done < runs):
        seed = first_seed + done
        done += 1
        try:
            with loop_guard(loop_s):
                tested = run_seed(campaign, seed, keep=False, eager=True)
        except FatalError as error:
            # The simulated world loops outside of any node.
            tested = Tested(seed, campaign.options(seed).workload, "", 0.0, 0.0)
            tested.found = [(SIMULATOR, "L8", str(error))]
        except Exception as error:
            tested = Tested(seed, campaign.options(seed).workload, "", 0.0, 0.0)
            where = place_of(error)
            text = " ".join(f"{error} (in {where})".split())
            if where.startswith(NODES):
                tested.found = [(CRASH, type(error).__name__, text)]
            else:
                # A rule met a state of a node that it does not know.
                tested.unknown = [(SIMULATOR, f"{type(error).__name__}: {text}")]
        sim_s += tested.sim_s
        now = time.process_time()
        if now - said >= PROGRESS_S:
            said = now
            on_progress(Progress(runs=done, cpu_s=round(now - begun, 3)))
        # A later run without the patch shows whether a checker gives "unknown" there, too.
        suspicious = tested.found or [(name, UNKNOWN, why) for name, why in tested.unknown]
        if suspicious:
            checker, anomaly, explanation = suspicious[0]
            return Hunted(
                found=True,
                cpu_s=round(time.process_time() - begun, 3),
                runs=done,
                sim_s=round(sim_s, 3),
                checker=checker,
                anomaly=anomaly,
                explanation=explanation,
                seed=tested.seed,
                workload=tested.workload,
                executed=executed(),
            )
    spent = round(time.process_time() - begun, 3)
    return Hunted(found=False, cpu_s=spent, runs=done, sim_s=round(sim_s, 3), executed=executed())


def place_of(error: BaseException) -> str:
    """Return the innermost place of a traceback in the code of the nodes, which begins with
    :data:`NODES`; without one, the innermost place."""
    home = Path(nodes.__file__ or "").parent
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        path = Path(frame.filename)
        if path.is_relative_to(home):
            return f"{NODES}{path.relative_to(home)}:{frame.lineno}"
    return "/".join(Path(frames[-1].filename).parts[-2:]) + f":{frames[-1].lineno}"


@click.command()
@click.option("--tree", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--budget", type=float, required=True)
@click.option("--first-seed", type=int, default=0)
@click.option("--runs", type=int)
@click.option("--nodes", "count", type=int, default=0)
@click.option("-t", "--time-limit", type=float, default=30.0)
@click.option("--style", type=click.Choice(get_args(Style)), default="swarm")
@click.option("--system", default=DEFAULT_SYSTEM)
@click.option("--option", "own", multiple=True)
def cli(
    tree: Path,
    budget: float,
    first_seed: int,
    runs: int | None,
    count: int,
    time_limit: float,
    style: Style,
    system: str,
    own: tuple[str, ...],
) -> None:
    """Hunt the bug in the node code below TREE."""
    imported = Path(nodes.__file__ or "").resolve().parent
    if imported != tree.resolve():
        click.echo(
            f"kraftwreck hunt: nodes was imported from {imported} instead of {tree}", err=True
        )
        sys.exit(FAILED)
    campaign = replace(
        everything(system),
        nodes=count,
        time_limit_s=time_limit,
        style=style,
        system_options=own,
    )
    threading.Thread(target=_end_with_parent, daemon=True).start()
    hunted = hunt(campaign, first_seed, budget, runs, _print)
    _print(hunted)


def _print(message: Hunted | Progress) -> None:
    print(msgspec.json.encode(message).decode(), flush=True)


def _end_with_parent() -> None:
    """End this process when its standard input closes: its parent has ended, however it did."""
    while os.read(0, 4096):
        pass
    os._exit(FAILED)


if __name__ == "__main__":
    cli()
