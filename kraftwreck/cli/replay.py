"""``kraftwreck replay RUN``: run a recorded run again and compare."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from kraftwreck import nodes
from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.patched_nodes import environment, patched_tree
from kraftwreck.harness.simulated.store import read_test
from kraftwreck.histories.exit_codes import INVALID, UNKNOWN, VALID
from kraftwreck.runs.replay import (
    SHOWN,
    patch_in,
    replay_nodes,
    replay_simulated,
    totals,
    without_replay,
)


def _again_with(patch: Path, arguments: list[str]) -> int:
    """Replay in a process that imports the patched node code; return its exit code."""
    with patched_tree(patch) as tree:
        command = [sys.executable, "-m", "kraftwreck", "replay", *arguments]
        return subprocess.run(command, env=environment(tree), check=False).returncode


@click.command(name="replay")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--node", help="Replay only this node (of a run on real hosts).")
@click.option("--json", "json_output", is_flag=True, help="Print the result as JSON on stdout.")
def cli(run: Path, node: str | None, json_output: bool) -> None:
    """Repeat the run in folder RUN from what it recorded, and compare.

    RUN may also be a case file of kraftwreck shrink: does it still fail in the same way?

    Exit codes: 0 the same, 1 different, or a step of a node broke a rule, 2 a node left no input
    log.
    """
    if run.is_file():
        from kraftwreck.campaigns.case_replay import replay_case

        found = replay_case(run, lambda line: click.echo(line, err=True))
        if json_output:
            click.echo(json.dumps(found))
        sys.exit(VALID if found["same"] else INVALID)
    test = read_test(run)
    patch = patch_in(test)
    ours = Path(nodes.__file__ or "").resolve().parent == PROJECT_TREE.resolve()
    if patch is not None and ours:
        arguments = [str(run), *(["--node", node] if node else [])]
        sys.exit(_again_with(patch, [*arguments, *(["--json"] if json_output else [])]))
    if test.get("simulated"):
        if node is not None:
            raise OptionError(
                "--node is for runs on real hosts; a simulated run is replayed as a whole"
            )
        sys.exit(_show_simulated(replay_simulated(run), json_output))
    results = replay_nodes(run, node)
    why = without_replay(test, results)
    if why is not None:
        if json_output:
            click.echo(json.dumps({"nodes": results, "compared": totals(results)}))
        click.echo(f"{run}: {why}", err=True)
        sys.exit(UNKNOWN)
    sys.exit(_show_nodes(results, json_output))


def _show_simulated(result: dict[str, Any], json_output: bool) -> int:
    if json_output:
        click.echo(json.dumps(result))
    if result["same"]:
        click.echo(f"the same run: digest {result['digest']}", err=True)
        return VALID
    click.echo(
        f"a different run: digest {result['digest']}, recorded {result['recorded']}"
        " (was the code changed since?)",
        err=True,
    )
    return INVALID


def _show_nodes(results: list[dict[str, Any]], json_output: bool) -> int:
    if json_output:
        click.echo(json.dumps({"nodes": results, "compared": totals(results)}))
    words = {True: "the same", False: "DIFFERENT", None: "cannot be replayed"}
    for result in results:
        text = f"{result['node']}: {words[result['same']]}"
        if "reason" in result:
            text += f": {result['reason'][:SHOWN]}"
        if "starts" in result:
            text += f" ({_counted(result)})"
        click.echo(text, err=True)
        for rule, explanation in result.get("broken", {}).items():
            click.echo(f"  {rule}: {explanation}", err=True)
    click.echo(f"compared: {_counted(totals(results))}", err=True)
    outcomes = {result["same"] for result in results}
    if False in outcomes or any(result.get("broken") for result in results):
        return INVALID
    return UNKNOWN if None in outcomes or not outcomes else VALID


def _counted(counts: dict[str, Any]) -> str:
    return (
        f"{counts['starts']} starts, {counts['inputs']} inputs, {counts['outputs']} outputs, "
        f"{counts['traced']} trace lines"
    )
