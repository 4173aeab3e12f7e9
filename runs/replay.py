"""Run a recorded run again and compare.

A simulated run is simulated again from its ``test.json`` and must give the same digest. For a run
on real hosts, each node runs again offline from its input log. It must give the same effects, step
by step, and the same trace, byte for byte.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kraftwreck.harness.archive import PROJECT_TREE, build_archive, digest
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.patched_nodes import chosen_patch, environment, tested_tree
from kraftwreck.harness.simulated.store import read_test
from kraftwreck.histories.exit_codes import INVALID, UNKNOWN, VALID
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Validity
from kraftwreck.nemesis.inject import Injector
from kraftwreck.runs.node_replay import ReplayAhead, node_folders, replay_all
from kraftwreck.systems.registry import simulated_workload, systems
from kraftwreck.systems.simulators import load, simulate

COUNTS = ("starts", "inputs", "outputs", "traced", "torn")
SHOWN = 300
"""How many characters of a reason are shown."""


def replay_simulated(folder: Path) -> dict[str, Any]:
    """Simulate the run in ``folder`` again; return both digests and whether they are equal.

    Raises :class:`OptionError` when the folder is not a simulated run.
    """
    options, schedule, knobs, recorded = load(folder)
    result = simulate(
        options,
        simulated_workload(options.system, options.workload),
        schedule,
        Injector,
        knobs=knobs,
    )
    return {"same": result.digest == recorded, "recorded": recorded, "digest": result.digest}


def replay_nodes(folder: Path, node: str | None) -> list[dict[str, Any]]:
    """Run the nodes of a real run again from their input logs; return one result for each.

    ``same`` is None where there is no input log. Otherwise the result counts the process
    ``starts``, ``inputs``, ``outputs`` and ``traced`` lines compared. ``broken`` has the rules that
    a node's steps broke, with explanations; it is left out if there are none. A log that differs
    from the one on its host (by ``sums.json``) is not run, and ``same`` is False. Raises
    :class:`OptionError` for an unknown node.
    """
    names = [path.name for path in node_folders(folder)]
    if not names:
        errors = read_test(folder).get("errors") or ["there is no folder of a node"]
        raise OptionError(f"{folder}: nothing to replay, the run did not start: {errors[0]}")
    if node is not None and node not in names:
        raise OptionError(f"{folder}: no node {node!r}; it has {', '.join(names) or 'none'}")
    chosen = names if node is None else [node]
    return replay_all(folder, [folder / "nodes" / name for name in chosen])


def without_replay(test: dict[str, Any], results: Sequence[dict[str, Any]]) -> str | None:
    """Return why the run cannot be replayed at all, None if it can: no node has an input log, and
    its system records none."""
    system = systems().get(str(test.get("system")))
    if getattr(system, "replayable", False) or any(each["same"] is not None for each in results):
        return None
    again = f"; to repeat the test: {test['repeat']}" if test.get("repeat") else ""
    return f"there is no replay: nodes of {test.get('system')} record no inputs{again}"


def patch_in(test: dict[str, Any]) -> Path | None:
    """Return the patch that was applied in the run, None for unpatched node code."""
    patch = test.get("patch")
    planted = RunOptions(mutant=test.get("mutant"), patch=None if patch is None else Path(patch))
    return chosen_patch(planted)


def totals(results: list[dict[str, Any]]) -> dict[str, int]:
    """Return how much was compared, over all nodes."""
    return {name: sum(result.get(name, 0) for result in results) for name in COUNTS}


def check_replay(
    folder: Path, test: dict[str, Any], ahead: ReplayAhead | None = None
) -> CheckerResult:
    """Run every node of a real run again, as the checker ``replay`` of its verdict.

    ``ahead`` may have done so already with this project's node code.
    A node that cannot be run again is an anomaly: either it is not a pure function of its inputs,
    or its recording was changed. If the node code has changed since the run, a difference proves
    nothing, and the result is unknown. A step that breaks a rule of the system is an anomaly, too.
    """
    with tested_tree(patch_in(test)) as tree:
        changed = test.get("versions", {}).get("nodes") not in (None, digest(build_archive(tree)))
        if tree == PROJECT_TREE:
            results = (ahead.results() if ahead else None) or replay_nodes(folder, None)
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
        Anomaly(type="not-replayable", explanation=f"{r['node']}, {r['reason'][:SHOWN]}")
        for r in results
        if r["same"] is False
    ]
    if changed and anomalies:
        return CheckerResult(valid="unknown", error="the node code has changed since the run")
    anomalies += [
        Anomaly(type=rule, explanation=explanation)
        for r in results
        for rule, explanation in r.get("broken", {}).items()
    ]
    unseen = [f"{r['node']}: {r['reason']}" for r in results if r["same"] is None]
    valid: Validity = "unknown" if unseen or not results else True
    return CheckerResult(
        valid=False if anomalies else valid,
        anomalies=anomalies,
        stats=dict(totals(results)),
        error="; ".join(unseen) or None,
    )
