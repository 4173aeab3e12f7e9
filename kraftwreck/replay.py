"""``kraftwreck replay RUN``: run a recorded run again and compare.

A simulated run is simulated again from its ``test.json`` and must give the same digest. Of
a run on real hosts each node is run again, offline, from its input log, and must give the
same effects, step by step.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

import nodes
from harness.archive import PROJECT_TREE
from harness.options import OptionError, RunOptions
from harness.patched_nodes import patch_of, patched_tree
from harness.simulated import simulate
from harness.simulated_store import load
from kraftwreck.campaign import make_injector
from kraftwreck.hunt import environment
from workloads.registry import find

SAME, DIFFERENT, UNKNOWN, BAD_ARGUMENTS, FAILED = 0, 1, 2, 254, 255
INPUTS = "inputs.log"


def replay_simulated(folder: Path) -> dict[str, Any]:
    """Simulate the run in ``folder`` again; return both digests and whether they agree.

    Raises :class:`OptionError` when the folder is no simulated run.
    """
    options, schedule, knobs, recorded = load(folder)
    result = simulate(options, find(options.workload), schedule, make_injector, knobs=knobs)
    return {"same": result.digest == recorded, "recorded": recorded, "digest": result.digest}


def replay_nodes(folder: Path, node: str | None) -> list[dict[str, Any]]:
    """Run the nodes of a real run again from their input logs; one result for each.

    ``same`` is None where there is no input log. Raises :class:`OptionError` for an unknown
    node.
    """
    from nodes.server.input_log import replay

    names = sorted(path.name for path in (folder / "nodes").glob("*") if path.is_dir())
    if node is not None and node not in names:
        raise OptionError(f"{folder}: no node {node!r}; it has {', '.join(names) or 'none'}")
    results: list[dict[str, Any]] = []
    for name in names if node is None else [node]:
        path = folder / "nodes" / name / INPUTS
        if not path.is_file():
            results.append({"node": name, "same": None, "reason": f"{path} is not there"})
            continue
        try:
            mismatch = replay(path)
        except (OSError, ValueError) as error:
            results.append({"node": name, "same": None, "reason": str(error)})
            continue
        if mismatch is None:
            results.append({"node": name, "same": True})
        else:
            reason = f"line {mismatch.line}: {mismatch.reason}"
            results.append({"node": name, "same": False, "reason": reason})
    return results


def _test_of(folder: Path) -> dict[str, Any]:
    path = folder / "test.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}; give a run folder") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: {' '.join(str(error).split())}") from error


def _patch(test: dict[str, Any]) -> Path | None:
    """Return the patch that was planted in the run, None for our own node code."""
    options = RunOptions(mutant=test.get("mutant"), patch=_path(test.get("patch")))
    return patch_of(options.mutant) if options.mutant is not None else options.patch


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _again_with(patch: Path, arguments: list[str]) -> int:
    """Do the replay in a process that imports the patched node code; return its exit code."""
    with patched_tree(patch) as tree:
        command = [sys.executable, "-m", "kraftwreck.replay", *arguments]
        return subprocess.run(command, env=environment(tree), check=False).returncode


@click.command(name="replay")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--node", help="Only this node (of a run on real hosts).")
@click.option("--json", "json_output", is_flag=True, help="Print the result as JSON on stdout.")
def cli(run: Path, node: str | None, json_output: bool) -> None:
    """Run the run in folder RUN again, from what it recorded, and compare.

    Exit codes: 0 the same, 1 different, 2 a node left no input log.
    """
    try:
        test = _test_of(run)
        patch = _patch(test)
        ours = Path(nodes.__file__ or "").resolve().parent == PROJECT_TREE.resolve()
        if patch is not None and ours:
            arguments = [str(run), *(["--node", node] if node else [])]
            sys.exit(_again_with(patch, [*arguments, *(["--json"] if json_output else [])]))
        if test.get("simulated"):
            if node is not None:
                raise OptionError("a simulated run is replayed whole; leave --node out")
            sys.exit(_show_simulated(replay_simulated(run), json_output))
        sys.exit(_show_nodes(replay_nodes(run, node), json_output))
    except OptionError as error:
        click.echo(f"kraftwreck replay: {error}", err=True)
        sys.exit(BAD_ARGUMENTS)


def _show_simulated(result: dict[str, Any], json_output: bool) -> int:
    if json_output:
        click.echo(json.dumps(result))
    if result["same"]:
        click.echo(f"the same run: digest {result['digest']}", err=True)
        return SAME
    click.echo(
        f"another run: digest {result['digest']}, recorded {result['recorded']}"
        " (was the code changed since?)",
        err=True,
    )
    return DIFFERENT


def _show_nodes(results: list[dict[str, Any]], json_output: bool) -> int:
    if json_output:
        click.echo(json.dumps({"nodes": results}))
    words = {True: "the same", False: "DIFFERENT", None: "cannot be replayed"}
    for result in results:
        text = f"{result['node']}: {words[result['same']]}"
        click.echo(f"{text}: {result['reason']}" if "reason" in result else text, err=True)
    outcomes = {result["same"] for result in results}
    if False in outcomes:
        return DIFFERENT
    return UNKNOWN if None in outcomes or not outcomes else SAME


if __name__ == "__main__":
    cli()
