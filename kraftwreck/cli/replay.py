"""``kraftwreck replay RUN``: run a recorded run again and compare.

A simulated run is simulated again from its ``test.json`` and must give the same digest. For a run
on real hosts, each node runs again offline from its input log. It must give the same effects, step
by step, and the same trace, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import msgspec

from kraftwreck import nodes
from kraftwreck.cli.campaign import make_injector
from kraftwreck.harness.archive import PROJECT_TREE, build_archive, digest
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.patched_nodes import environment, patch_of, patched_tree
from kraftwreck.harness.remote.deployment import SUMS
from kraftwreck.harness.simulated.run import simulate
from kraftwreck.harness.simulated.store import load, read_test
from kraftwreck.histories.exit_codes import INVALID, UNKNOWN, VALID
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Validity
from kraftwreck.workloads.registry import find

INPUTS, TRACE = "inputs.log", "trace.jsonl"
COUNTS = ("starts", "inputs", "outputs", "traced", "torn")
_SHOWN = 300


def replay_simulated(folder: Path) -> dict[str, Any]:
    """Simulate the run in ``folder`` again; return both digests and whether they are equal.

    Raises :class:`OptionError` when the folder is not a simulated run.
    """
    options, schedule, knobs, recorded = load(folder)
    result = simulate(options, find(options.workload), schedule, make_injector, knobs=knobs)
    return {"same": result.digest == recorded, "recorded": recorded, "digest": result.digest}


def replay_nodes(folder: Path, node: str | None) -> list[dict[str, Any]]:
    """Run the nodes of a real run again from their input logs; return one result for each.

    ``same`` is None where there is no input log. Otherwise the result counts the process
    ``starts``, ``inputs``, ``outputs`` and ``traced`` lines compared. A log that differs from the
    one on its host (by ``sums.json``) is not run, and ``same`` is False. Raises
    :class:`OptionError` for an unknown node.
    """
    names = sorted(path.name for path in (folder / "nodes").glob("*") if path.is_dir())
    if not names:
        errors = read_test(folder).get("errors") or ["there is no folder of a node"]
        raise OptionError(f"{folder}: nothing to replay, the run did not start: {errors[0]}")
    if node is not None and node not in names:
        raise OptionError(f"{folder}: no node {node!r}; it has {', '.join(names) or 'none'}")
    return [_replay_node(folder / "nodes" / name) for name in (names if node is None else [node])]


def _replay_node(folder: Path) -> dict[str, Any]:
    from kraftwreck.nodes.server.reexecution import replay

    inputs, trace = folder / INPUTS, folder / TRACE
    result: dict[str, Any] = {"node": folder.name, "same": None}
    if not inputs.is_file():
        return {**result, "reason": f"{inputs} is missing"}
    try:
        changed = _changed(folder)
        if changed is not None:
            return {**result, "same": False, "reason": changed}
        found = replay(inputs, trace=trace if trace.is_file() else None, node=folder.name)
    except (OSError, ValueError) as error:
        return {**result, "reason": str(error)}
    result |= {
        "same": found.mismatch is None,
        "starts": found.starts,
        "inputs": found.inputs,
        "outputs": found.outputs,
        "traced": found.traced,
        "torn": found.torn,
    }
    if found.mismatch is not None:
        result["reason"] = f"line {found.mismatch.line}: {found.mismatch.reason}"
    return result


def _changed(folder: Path) -> str | None:
    """Return why the recorded files differ from those on the host, None if they do not."""
    path = folder / SUMS
    if not path.is_file():
        return None
    told = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, Any]])
    for name, sums in told.items():
        file = folder / name
        content = file.read_bytes() if file.is_file() else b""
        if hashlib.sha256(content).hexdigest() != sums.get("sha256"):
            now, then = len(content), sums.get("bytes")
            return f"{file} was changed after the run: {now} bytes, {then} on the host"
    return None


def _patch(test: dict[str, Any]) -> Path | None:
    """Return the patch that was applied in the run, None for unpatched node code."""
    options = RunOptions(mutant=test.get("mutant"), patch=_path(test.get("patch")))
    return patch_of(options.mutant) if options.mutant is not None else options.patch


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


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

    Exit codes: 0 the same, 1 different, 2 a node left no input log.
    """
    if run.is_file():
        from kraftwreck.cli.case_replay import replay_case

        sys.exit(replay_case(run, json_output))
    test = read_test(run)
    patch = _patch(test)
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
    sys.exit(_show_nodes(replay_nodes(run, node), json_output))


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
            text += f": {result['reason'][:_SHOWN]}"
        if "starts" in result:
            text += f" ({_counted(result)})"
        click.echo(text, err=True)
    click.echo(f"compared: {_counted(totals(results))}", err=True)
    outcomes = {result["same"] for result in results}
    if False in outcomes:
        return INVALID
    return UNKNOWN if None in outcomes or not outcomes else VALID


def totals(results: list[dict[str, Any]]) -> dict[str, int]:
    """Return how much was compared, over all nodes."""
    return {name: sum(result.get(name, 0) for result in results) for name in COUNTS}


def _counted(counts: dict[str, Any]) -> str:
    return (
        f"{counts['starts']} starts, {counts['inputs']} inputs, {counts['outputs']} outputs, "
        f"{counts['traced']} trace lines"
    )


def check_replay(folder: Path, test: dict[str, Any]) -> CheckerResult:
    """Run every node of a real run again, as the checker ``replay`` of its verdict.

    A node that cannot be run again is an anomaly: either it is not a pure function of its inputs,
    or its recording was changed. If the node code has changed since the run, a difference proves
    nothing, and the result is unknown.
    """
    patch = _patch(test)
    with patched_tree(patch) if patch is not None else nullcontext(PROJECT_TREE) as tree:
        changed = test.get("versions", {}).get("nodes") not in (None, digest(build_archive(tree)))
        if tree == PROJECT_TREE:
            results = replay_nodes(folder, None)
        else:
            command = [sys.executable, "-P", "-m", "kraftwreck", "replay", str(folder), "--json"]
            done = subprocess.run(
                command, env=environment(tree), check=False, capture_output=True, text=True
            )
            if done.returncode not in (VALID, INVALID, UNKNOWN):
                said = (done.stderr.strip().splitlines() or ["no message"])[-1]
                return CheckerResult(valid="unknown", error=f"the replay failed: {said}")
            results = json.loads(done.stdout)["nodes"]
    anomalies = [
        Anomaly(type="not-replayable", explanation=f"{r['node']}, {r['reason'][:_SHOWN]}")
        for r in results
        if r["same"] is False
    ]
    if changed and anomalies:
        return CheckerResult(valid="unknown", error="the node code has changed since the run")
    unseen = [f"{r['node']}: {r['reason']}" for r in results if r["same"] is None]
    valid: Validity = "unknown" if unseen or not results else True
    return CheckerResult(
        valid=False if anomalies else valid,
        anomalies=anomalies,
        stats=dict(totals(results)),
        error="; ".join(unseen) or None,
    )
