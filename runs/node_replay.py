"""Run the nodes of a real run again from their input logs, in this process or ahead of it.

``python -m kraftwreck.runs.node_replay`` does so for the run in the current folder, once standard
input has a line, and prints the results of all nodes as JSON.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.checkers.recorded.captured import GROUP
from kraftwreck.harness.archive import IMPORT_ROOT
from kraftwreck.histories.plugins import plugins
from kraftwreck.histories.store import SUMS
from kraftwreck.histories.system_name import system_of

INPUTS, TRACE = "inputs.log", "trace.jsonl"


def main() -> None:
    """Replay all nodes of the run in the current folder, unless standard input ends before."""
    from kraftwreck.nodes.server import reexecution  # noqa: F401  ready before the recordings are

    own = _system_of(Path())
    if own is not None:
        own.step_rules("")
    if sys.stdin.buffer.readline():
        results = replay_all(Path(), node_folders(Path()))
        sys.stdout.buffer.write(msgspec.json.encode(results))


def node_folders(run: Path) -> list[Path]:
    """Return the folders of a run's nodes, in order of name."""
    return sorted(path for path in (run / "nodes").glob("*") if path.is_dir())


def replay_all(run: Path, folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Run the nodes recorded in ``folders`` of ``run`` again; see
    :func:`runs.replay.replay_nodes`."""
    own = _system_of(run)
    return [replay_node(folder, own.step_rules(folder.name) if own else None) for folder in folders]


def _system_of(run: Path) -> Any:
    """Return what the checkers have for the system of a run, None if they have nothing."""
    try:
        test = msgspec.json.decode((run / "test.json").read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        test = {}  # The rules are those of the default system.
    return plugins(GROUP).found.get(system_of(test))


def replay_node(folder: Path, rules: Any = None) -> dict[str, Any]:
    """Run the node recorded in ``folder`` again, and judge its steps by ``rules``
    (:class:`~checkers.recorded.run_data.StepRules`)."""
    from kraftwreck.nodes.server.reexecution import replay

    inputs, trace = folder / INPUTS, folder / TRACE
    result: dict[str, Any] = {"node": folder.name, "same": None}
    if not inputs.is_file():
        return {**result, "reason": f"{inputs} is missing"}
    try:
        changed = _changed(folder)
        if changed is not None:
            return {**result, "same": False, "reason": changed}
        recorded_trace = trace if trace.is_file() else None
        found = replay(inputs, trace=recorded_trace, node=folder.name, watch=rules)
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
    if rules is not None and rules.broken:
        result["broken"] = dict(rules.broken)
    if found.mismatch is not None:
        result["reason"] = f"line {found.mismatch.line}: {found.mismatch.reason}"
    return result


def _changed(folder: Path) -> str | None:
    """Return why the recorded files differ from those on the host, None if they do not."""
    path = folder / SUMS
    if not path.is_file():
        return None
    recorded_sums = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, Any]])
    for name, sums in recorded_sums.items():
        file = folder / name
        content = file.read_bytes() if file.is_file() else b""
        if hashlib.sha256(content).hexdigest() != sums.get("sha256"):
            now, then = len(content), sums.get("bytes")
            return f"{file} was changed after the run: {now} bytes, {then} on the host"
    return None


class ReplayAhead:
    """A replay that begins when the recordings are there, in a process that is started before.

    It only saves time: without its result, the nodes are replayed in this process.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self, folder: Path) -> None:
        """Start the process for the run in ``folder``, which may be renamed later."""
        with suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "kraftwreck.runs.node_replay"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # The process stays in this folder, whatever its name.
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(IMPORT_ROOT.absolute())},
                start_new_session=True,
            )

    def begin(self) -> None:
        """Start replaying the nodes, whose recordings are there now."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(b"\n")
                self._process.stdin.flush()

    def results(self) -> list[dict[str, Any]] | None:
        """Return the results once all nodes were replayed and are the same; otherwise None.

        Differences are left to a replay that knows the folder's final name.
        """
        process = self._process
        if process is None:
            return None
        out, _ = process.communicate()
        self._process = None
        if process.returncode != 0:
            return None
        results: list[dict[str, Any]] = msgspec.json.decode(out)
        return results if results and all(r["same"] is True for r in results) else None

    def close(self) -> None:
        """End a replay whose results were not fetched."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    main()
