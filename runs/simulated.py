"""``kraftwreck run -c sim``: one run in virtual time, with the project's node code or a patched
copy. Patched node code runs in a separate process, so that this one never imports it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.harness.archive import PROJECT_TREE
from kraftwreck.harness.options import RunOptions, repeat_command
from kraftwreck.harness.patched_nodes import environment
from kraftwreck.harness.run import Outcome
from kraftwreck.harness.simulated.store import options_of
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS, BadInputError, CommandError
from kraftwreck.nemesis.inject import Injector
from kraftwreck.systems.registry import simulated_workload
from kraftwreck.systems.simulators import save, simulate, simulator


def simulated_run(options: RunOptions, tree: Path) -> Outcome:
    """Simulate one test with the node code in ``tree``; return the run folder."""
    if tree == PROJECT_TREE:
        return Outcome(_simulate(options))
    request = msgspec.json.encode({"options": options.as_json(), "tree": str(tree)})
    # -P keeps the working directory from shadowing the patched tree.
    child = subprocess.run(
        [sys.executable, "-P", "-m", "kraftwreck.runs.simulated"],
        input=request,
        capture_output=True,
        env=environment(tree),
        check=False,
    )
    said = child.stderr.decode(errors="replace").strip().splitlines()
    if child.returncode != 0:
        kind = BadInputError if child.returncode == BAD_ARGUMENTS else CommandError
        raise kind(f"the patched nodes: {said[-1] if said else 'no reason given'}")
    return Outcome(Path(child.stdout.decode().strip()))


def _simulate(options: RunOptions) -> Path:
    workload = simulated_workload(options.system, options.workload)
    schedule = simulator(options.system).schedule(options)
    result = simulate(options, workload, schedule, Injector)
    return save(options, workload, result, repeat=repeat_command(options))


def _child() -> None:
    from kraftwreck import nodes

    request: dict[str, Any] = msgspec.json.decode(sys.stdin.buffer.read())
    wanted, found = Path(request["tree"]), Path(str(nodes.__file__)).parent
    if found.resolve() != wanted.resolve():
        sys.exit(f"kraftwreck run: the node code of {found} was imported instead of {wanted}")
    try:
        sys.stdout.write(f"{_simulate(options_of(request['options']))}\n")
    except CommandError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    _child()
