"""A full disk on the control node: one clear line, the history is kept, the hosts are gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kraftwreck.histories.reading import read_history

RUN = """
mount -t tmpfs -o size=$1 tmpfs "$2" || exit 9
store=$2 kept=$3; shift 3
"$@" --store "$store"
status=$?
cp -r "$store/." "$kept"
exit $status
"""
"""Runs a command with its store on a small disk that nobody else sees; keeps what is there."""


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "seconds", "phase"),
    [
        pytest.param("128k", "60", "run: ", id="while it runs"),
        pytest.param("192k", "2", "collect: ", id="when it is over", marks=pytest.mark.whole_run),
    ],
)
def test_a_full_disk_ends_the_test_with_one_line(
    size: str, seconds: str, phase: str, tmp_path: Path, netns_possible: None
) -> None:
    store, kept, runtime = (tmp_path / name for name in ("store", "kept", "runtime"))
    for folder in (store, kept, runtime):
        folder.mkdir()
    command = [sys.executable, "-m", "kraftwreck", "run", "-n", "partition,pause", "-t", seconds]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", RUN, "sh", size, str(store), str(kept), *command,
         "--nodes", "3", "--seed", "1", "--rate", "300"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime), "JAVA_HOME": "/nonexistent"},
    )  # fmt: skip
    assert done.returncode == 255, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: {phase}")
    assert "No space left on device" in line
    assert "Traceback" not in done.stderr
    (folder,) = (path.parent for path in kept.rglob("history.jsonl"))
    assert read_history(folder).num_rows > 10
    assert not [path for path in (runtime / "kraftwreck").iterdir() if path.is_dir()]
