"""Nodes on hosts that are restarted in order and upgraded, and cuts by what nodes do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraftwreck.harness.options import RunOptions
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.reading import read_faults
from tests.clusters.whole_run import another_version, assert_valid_and_replayed, carry_out, fault

pytestmark = pytest.mark.cluster

PATIENCE_S = 60.0


def restarted(tmp_path: Path, seconds: int, schedule: list[Fault]) -> dict[str, FaultEvent]:
    """Carry out a run that is valid and replays; return the ends of its faults by their shapes."""
    options = RunOptions(
        faults=("restart", "pause"), time_limit_s=seconds, nodes=3, seed=1,
        store=tmp_path / "store", other=another_version(tmp_path),
    )  # fmt: skip
    folder = carry_out(options, schedule)
    assert_valid_and_replayed(folder, 3)
    ends = {e.shape: e for e in read_faults(folder) if e.phase == "stop"}
    # What the nodes themselves say: as many process starts as restarts, and one.
    for node in ("n1", "n2", "n3"):
        text = (folder / "nodes" / node / "trace.jsonl").read_text()
        starts = sum(json.loads(line)["kind"] == "start" for line in text.splitlines())
        assert starts == 1 + sum(
            bool(end.evidence.get(node, {}).get("up")) for end in ends.values()
        )
    return ends


@pytest.mark.whole_run
def test_a_whole_run_of_an_upgrade_is_valid_and_replays(
    netns_possible: None, own_state_directories: Path, tmp_path: Path
) -> None:
    schedule = [fault(1, "restart", "upgrade", 8), fault(3, "pause", "leader", 1)]
    ends = restarted(tmp_path, 10, schedule)
    upgraded = {node: told for node, told in ends["upgrade"].evidence.items() if told.get("code")}
    assert upgraded, "whoever was not held by another fault"
    for told in upgraded.values():
        assert told["signal"] == "SIGTERM"
        assert told["code"] != told["code_before"]


@pytest.mark.whole_run
def test_a_whole_run_of_restarts_is_valid_and_replays(
    netns_possible: None, own_state_directories: Path, tmp_path: Path
) -> None:
    schedule = [
        fault(1, "restart", "bounce-leader", 2),
        fault(4, "restart", "together-backwards", 4),
    ]
    ends = restarted(tmp_path, 9, schedule)
    (bounced,) = ends["bounce-leader"].evidence.values()
    assert bounced["after"] == "ESRCH"
    assert bounced["up"]
    assert ends["together-backwards"].evidence
