"""Each invariant of snapshots and cleaned logs is shown to fail, and to hold."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.checkers.kraft.rule import simulated
from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    CleanLog,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
)
from kraftwreck.nodes.consensus.kraft.messages import FetchSnapshotRequest
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.disk import Disk
from kraftwreck.systems.kraft.simulated.binding import disk_of
from tests.simulation.watched import Watched, batch, snapshot


@pytest.fixture
def run() -> Watched:
    return Watched()


# --- logs that begin later --------------------------------------------------------------------


def test_a_cleaned_log_and_an_installed_one_agree_with_the_whole(run: Watched) -> None:
    run.commit(1, 2, upto=6)
    run.make(1, 4)
    run.told(1, 4, hw=6)
    run.disk(1, CleanLog(4))
    run.trace(1, "start")
    run.host(3).disk.lose_power(0)
    run.world.wipe("n3", Disk(b"c" * 16))
    run.make(3, 4)
    run.disk(3, InstallSnapshot(4, 1), AppendLog(batch(4)), AppendLog(batch(5)), FlushLog())
    run.trace(3, "hw", hw=6)
    run.disk(1, AppendLog(batch(6)), FlushLog())
    run.disk(3, AppendLog(batch(6)), FlushLog())
    run.trace(1, "hw", hw=7)
    assert run.found == []
    assert run.watch.quorum.chain.end == 7


def test_a_batch_that_differs_after_an_installed_snapshot_is_seen(run: Watched) -> None:
    run.commit(1, upto=6)
    run.make(1, 4)
    run.told(1, 4, hw=6)
    run.world.wipe("n3", Disk(b"c" * 16))
    run.make(3, 4)
    run.disk(3, InstallSnapshot(4, 1))
    run.trace(3, "state", epoch=2)
    run.disk(3, AppendLog(batch(4, 2)), FlushLog())
    run.trace(3, "hw", hw=5, epoch=2)
    assert run.found == ["I10"]


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_follower_of_an_older_leader_may_truncate_newer_commits(run: Watched, epoch: int) -> None:
    """A deposed leader has followers for a while; the batches it lacks were committed without
    them. Seed 407594."""
    run.commit(1, 2, upto=3)
    for number in (1, 2, 3):
        run.disk(number, AppendLog(batch(3)), FlushLog())
    run.trace(1, "hw", hw=4, epoch=2)
    run.trace(3, "state", epoch=epoch)
    run.disk(3, TruncateLog(3))
    assert run.found == ([] if epoch == 1 else ["I10"])
    run.disk(3, TruncateLog(2))
    assert "I10" in run.found, "that was committed in epoch 1"


def test_a_log_that_begins_where_nothing_committed_ends_is_seen(run: Watched) -> None:
    run.commit(1, upto=3)
    run.make(3, 9)
    run.disk(3, InstallSnapshot(9, 1))
    run.watch.finish()
    assert "I20" in run.found


def test_a_wiped_disk_holds_nothing_and_does_not_count(run: Watched) -> None:
    for number in (1, 2, 3):
        run.voters(number, "123")
    run.world.wipe("n3", Disk(b"c" * 16))
    for number in (1, 3):
        run.disk(number, AppendLog(batch(0)), FlushLog())
    run.trace(1, "hw", hw=1)
    assert run.found == ["I11"], "n3 has the batch, but with that disk it is no voter"


def test_reports_of_a_replaced_machine_still_count(run: Watched) -> None:
    """The leader learns of it only after the machine is gone: that is one loss, and allowed."""
    for number in (1, 2, 3):
        run.voters(number, "123")
        run.disk(number, AppendLog(batch(0)), FlushLog())
    for number in (1, 2):
        run.disk(number, AppendLog(batch(1)), FlushLog())
    run.world.wipe("n2", Disk(b"c" * 16))
    run.trace(1, "hw", hw=2)
    assert run.found == []
    run.disk(1, AppendLog(batch(2)), FlushLog())
    run.trace(1, "hw", hw=3)
    assert run.found == ["I11"], "the old disk never had that"


def test_the_majority_is_that_of_the_voters_in_force(run: Watched) -> None:
    run.voters(1, "12")
    run.disk(1, AppendLog(batch(0)), FlushLog())
    run.trace(1, "hw", hw=1)
    assert run.found == ["I11"]
    again = Watched()
    again.voters(1, "1")
    again.disk(1, AppendLog(batch(0)), FlushLog())
    again.trace(1, "hw", hw=1)
    assert again.found == []


# --- snapshots --------------------------------------------------------------------------------


def test_i20_a_snapshot_is_named_by_a_committed_end_and_its_epoch(run: Watched) -> None:
    run.commit(1, upto=5)
    run.commit(upto=6)
    for end, epoch, hw in ((4, 2, 5), (6, 1, 5)):
        run.make(1, end, epoch)
        run.told(1, end, epoch, hw)
    assert run.found[0] == "I20"
    assert run.found.count("I20") == 2
    run.told(1, 5, hw=5)
    assert run.found.count("I20") == 3, "it says there is one, but there is none"


def test_i20_a_new_leader_keeps_its_known_high_watermark(run: Watched) -> None:
    run.commit(1, upto=6)
    run.make(1, 4)
    run.told(1, 4, hw=-1)
    assert run.found == []
    run.trace(1, "start")
    run.told(1, 4, hw=-1)
    assert run.found == ["I20"]


@pytest.mark.parametrize(
    "content", [b"", snapshot()[:-1], snapshot()[:68], b"x" + snapshot()[1:]],
    ids=["empty", "torn", "no-footer", "flipped"],
)  # fmt: skip
def test_i20_a_snapshot_that_is_not_whole_is_seen(run: Watched, content: bytes) -> None:
    run.commit(1, upto=6)
    run.make(1, 4, content=content)
    run.told(1, 4, hw=6)
    assert run.found == ["I20"]


def test_i20_a_log_may_begin_above_all_that_is_known_to_be_committed(run: Watched) -> None:
    """n1 is killed between the end of its snapshot and the word that it saw it committed."""
    run.commit(1, upto=2)
    run.commit(upto=6)
    run.make(1, 4)
    run.disk(1, CleanLog(4))
    run.trace(1, "start")
    run.make(1, 6)
    run.told(1, 6, hw=6)
    run.voters(2, "123")
    run.trace(2, "hw", hw=6)
    run.watch.finish()
    assert run.found == []
    assert run.watch.quorum.chain.end == 6


def test_i19_a_fetched_snapshot_was_made_by_some_node(run: Watched) -> None:
    run.commit(1, upto=6)
    run.make(1, 4)
    run.told(1, 4, hw=6)
    run.make(3, 4, content=snapshot(timestamp=8))
    run.disk(3, InstallSnapshot(4, 1))
    assert run.found == ["I19"]


def test_i19_all_pieces_are_one_leaders(run: Watched) -> None:
    def ask(leader: int, epoch: int, position: int) -> None:
        request = FetchSnapshotRequest("c", 3, b"d" * 16, 100, epoch, 4, 1, position)
        run.watch.snapshots.asked(run.host(leader), request)

    for leader, epoch, position in ((1, 2, 0), (1, 2, 100), (2, 3, 0), (2, 3, 100), (1, 2, 100)):
        ask(leader, epoch, position)
    assert run.found == []
    ask(1, 4, 200)
    assert run.found == ["I19"]


def test_i19_a_disk_that_failed_may_hold_the_snapshot_after_all(run: Watched) -> None:
    run.commit(1, upto=6)
    made = snapshot(timestamp=8)
    disk_of(run.host(1)).snapshots[4, 1] = made  # Written, but the call told of an error.
    disk_of(run.host(2)).snapshots[4, 1] = made[:-1]
    run.watch.snapshots.restarted(run.host(1))
    run.watch.snapshots.restarted(run.host(2))
    run.make(3, 4, content=made)
    run.disk(3, InstallSnapshot(4, 1))
    assert run.found == []
    run.make(2, 4, content=made[:-1])
    run.disk(2, InstallSnapshot(4, 1))
    assert run.found == ["I19"]


def test_i19_one_name_is_one_state_though_its_bytes_may_differ(run: Watched) -> None:
    run.commit(1, 2, upto=6)
    for number, timestamp in ((1, 7), (2, 8)):
        run.make(number, 4, content=snapshot(timestamp=timestamp))
        run.told(number, 4, hw=6, digest="one")
    assert run.found == []
    run.make(3, 4, content=snapshot(timestamp=9))
    run.told(3, 4, hw=6, digest="other")
    assert run.found == ["I19"]


def image(digest: str) -> dict[str, Any]:
    return {"offset": 1000, "epoch": 1, "digest": digest}


def test_i23_images_at_one_offset_are_equal(run: Watched) -> None:
    run.trace(1, "image", detail=image("one"))
    run.trace(2, "image", detail=image("one"))
    assert run.found == []
    run.trace(3, "image", detail=image("other"))
    assert run.found == ["I23"]


def test_i21_a_log_is_cleaned_only_below_a_snapshot(run: Watched) -> None:
    run.commit(1, upto=6)
    run.disk(1, CleanLog(4))
    assert run.found == ["I21"]


def test_i21_a_log_that_is_whole_needs_no_snapshot(run: Watched) -> None:
    run.commit(1, upto=6)
    run.disk(1, CleanLog(0))
    assert run.found == []


@pytest.mark.parametrize(("end", "broken"), [(3, ["I21"]), (4, []), (6, []), (7, ["I21"])])
def test_i21_at_a_start_the_latest_snapshot_ends_in_the_log(
    run: Watched, end: int, broken: list[str]
) -> None:
    run.commit(1, upto=6)
    run.make(1, 4)
    run.disk(1, CleanLog(4))
    snapshots = disk_of(run.host(1)).snapshots
    snapshots[end, 1] = snapshots.pop((4, 1))
    run.trace(1, "start")
    assert [each for each in run.found if each == "I21"] == broken


def test_i21_at_a_start_the_latest_snapshot_meets_the_log(run: Watched) -> None:
    run.commit(1, upto=6)
    run.make(1, 4)
    run.disk(1, CleanLog(4))
    run.trace(1, "start")
    assert run.found == []
    disk_of(run.host(1)).snapshots.clear()
    run.trace(1, "start")
    assert run.found == ["I21"]


@pytest.mark.parametrize("kind", ["install", "load"])
def test_i22_a_leader_takes_no_snapshot(run: Watched, kind: str) -> None:
    run.trace(1, kind, detail={"end": 4, "epoch": 1})
    assert run.found == []
    run.trace(1, kind, "leader", detail={"end": 4, "epoch": 1})
    assert run.found == ["I22"]


def test_the_page_lists_the_rules_that_only_a_simulator_judges() -> None:
    page = Path(__file__).parents[2] / "docs" / "simulator.md"
    rows = simulated()
    assert [row.split(" | ")[0] for row in rows[2:]] == [f"| F{n}" for n in range(1, 39)]
    assert "\n".join(rows) in page.read_text(encoding="utf-8")


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("reached", "right", "broken"), [(3, False, True), (3, True, False), (2, False, False)]
)
def test_a_snapshot_that_was_made_while_the_log_grew_is_read(
    reached: int, right: bool, broken: bool
) -> None:
    """It has no records; the snapshot ends at 3."""
    run = Watched()
    run.commit(1, 2, 3, upto=4)
    run.make(1, 3)
    node = Node.__new__(Node)
    image: Any = SimpleNamespace(stable_offset=reached)
    node.image = image
    run.host(1).node = node
    run.told(1, 3, hw=4, digest=MetadataImage().digest() if right else "f" * 32)
    assert ("I19" in run.found) is broken
