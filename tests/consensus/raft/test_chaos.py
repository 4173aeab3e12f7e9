"""Random runs hold all invariants, and find every planted bug."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kraftwreck.harness.archive import IMPORT_ROOT, PROJECT_TREE
from kraftwreck.harness.patched_nodes import environment, patched_tree
from kraftwreck.nodes.consensus.raft.messages import InstallSnapshotRequest
from tests.consensus.raft.chaos import first_failure, run

PATCHES = Path(__file__).parent / "mutants"
MUTANTS = {
    "X01": "AppendEntries removes all uncommitted entries after its own (paper, 5.3)",
    "X02": "the commit offset follows the leader up to the log's end (paper, figure 2)",
    "X04": "a vote is not written to disk (PySyncObj #201, #202)",
    "X05": "a candidate of a newer term is rejected",
    "X06": "a leader serves reads without confirming that it leads (Jepsen: etcd, 2014)",
    "X08": "the term before the log's start is forgotten (redisraft #22, NuRaft #185)",
    "X09": "a follower acknowledges entries that it has not flushed (Jepsen: Redis-Raft)",
    "X10": "all election timeouts are equal",
    "Y01": "entries of older terms are committed by counting (figure 8)",
    "Y02": "voters compare the lengths of logs only",
    "Y03": "voters do not compare logs",
    "Y04": "a leader counts its own log before it is flushed",
    "Y05": "a new leader assumes that all followers have its log",
    "Y06": "a member votes twice in a term",
    "Y07": "a restarted member forgets its vote",
    "Y08": "responses to requests of an earlier state count",
    "Y09": "one follower confirms a read, instead of a majority",
    "Y10": "a new leader serves before its no-op is committed",
    "Y11": "an installed snapshot does not empty the log on disk",
    "Y12": "a repeated piece of a snapshot is written twice",
    "Y13": "an entry of another term is not replaced",
    "Y14": "the consistency check accepts a newer term than the leader's",
    "Y15": "a late heartbeat lowers the commit offset",
    "Y16": "a follower with a longer log skips the snapshot, whatever its term",
    "Y17": "half of the members commit, instead of a majority",
    "Y18": "a newer term does not clear the vote",
}
SEEDS = 250
RARE = ("Y09",)
"""Found after many runs."""


def test_random_runs_break_nothing() -> None:
    assert first_failure(range(150)) is None


def test_random_runs_reach_what_they_should() -> None:
    runs = [run(seed) for seed in range(60)]
    assert sum(len(r.watch.leaders) for r in runs) > 200
    assert sum(call.type == "ok" for r in runs for call in r.calls) > 1000
    pieces = [
        p for r in runs for p in r.group.sent if isinstance(p.message, InstallSnapshotRequest)
    ]
    assert len(pieces) > 50
    assert all(r.group.abandoned == 0 for r in runs), "no healthy member sends a contradiction"


def test_same_seed_makes_the_same_run() -> None:
    once, again = run(7), run(7)
    assert [repr(p) for p in once.group.sent] == [repr(p) for p in again.group.sent]
    assert repr(once.calls) == repr(again.calls)


def test_every_patch_has_a_title() -> None:
    assert {path.stem for path in PATCHES.glob("*.patch")} == set(MUTANTS)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "mutant",
    [pytest.param(each, marks=pytest.mark.whole_run) if each in RARE else each for each in MUTANTS],
)
def test_planted_bug_is_found(mutant: str) -> None:
    with patched_tree(PATCHES / f"{mutant}.patch") as tree:
        changed = [
            path
            for path in tree.rglob("*.py")
            if path.read_bytes() != (PROJECT_TREE / path.relative_to(tree)).read_bytes()
        ]
        assert changed
        done = subprocess.run(
            [sys.executable, "-m", "tests.consensus.raft.chaos", str(SEEDS)],
            env=environment(tree), cwd=IMPORT_ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert done.stdout.startswith("seed ")
    # A slip of the patch itself would be found by anybody, and for the wrong reason.
    assert any(kind in done.stdout for kind in ("BrokenError", "FatalError"))
