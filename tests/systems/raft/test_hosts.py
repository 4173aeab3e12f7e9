"""The store on Raft as processes on namespace hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

Run = Any


@pytest.mark.cluster
@pytest.mark.usefixtures("netns_possible")
def test_a_run_on_hosts_is_valid(kraftwreck: Run, tmp_path: Path) -> None:
    faults = ("-n", "partition,kill,pause", "-w", "register", "-t", 10, "--floor", "none")
    where = ("-c", "netns", "--nodes", 3, "--no-tables", "--store", tmp_path)
    done = kraftwreck("run", "raft", *faults, *where, "--seed", 5, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["checkers"]["model/register"] is True
    folder = Path(told["run"])
    assert "the store listens" in (folder / "nodes" / "n1" / "stdout.log").read_text()
    assert list((folder / "nodes" / "n1").rglob("quorum-state"))


def test_a_clock_that_it_does_not_load_is_refused(kraftwreck: Run) -> None:
    done = kraftwreck("run", "raft", "-c", "netns", "-n", "clock")
    assert (done.code, done.err.count("\n")) == (254, 1)
    assert "do not load the library" in done.err
