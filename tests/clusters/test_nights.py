"""A night on hosts that other people have brought up, as on machines of one's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

CONFIG = """
name = "hosts"
store = "{store}"
[budget]
runs = 1
[[matrix]]
clusters = ["hosts:{inventory}"]
workloads = ["register"]
faults = ["none"]  # A node that is down for most of a short test would prove nothing.
time_limit_s = 4
nodes = 1
brokers = 0
"""


def kraftwreck(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kraftwreck", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ}, timeout=300, check=False
    )


def test_a_night_works_on_hosts_of_an_inventory(
    netns_possible: None, own_state_directories: Path, tmp_path: Path
) -> None:
    up = json.loads(kraftwreck("cluster", "up", "--nodes", "1", "--json").stdout)
    inventory = Path(up["inventory"])
    config = tmp_path / "night.toml"
    config.write_text(CONFIG.format(store=tmp_path / "store", inventory=inventory))
    try:
        night = kraftwreck("nightly", str(config))
        assert night.returncode == 0, night.stdout + night.stderr
    finally:
        kraftwreck("cluster", "down", inventory.parent.name)
    (run,) = (tmp_path / "store" / "nights").glob("*/runs.jsonl")
    (record,) = map(json.loads, run.read_text().splitlines())
    assert (record["valid"], record["cluster"]) == (True, f"hosts:{inventory}")
