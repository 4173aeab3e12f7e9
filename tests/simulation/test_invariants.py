"""Each invariant of snapshots, changing voters and cleaned logs is shown to fail, and to hold."""

from __future__ import annotations

from typing import Any

import pytest

from histories.trace import TraceEvent
from nodes.consensus.effects import (
    AppendLog,
    AppendSnapshot,
    CleanLog,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    Reply,
    ResponseReceived,
    WriteQuorumState,
)
from nodes.consensus.kraft.messages import (
    BeginQuorumEpochResponse,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from nodes.consensus.recovered import Recovered
from nodes.log.snapshots import footer_batch, header_batch
from nodes.protocol import errors
from simulation.disk import Disk
from simulation.disk_index import Durable
from simulation.host import Host, SimNode
from simulation.invariants import Invariants
from simulation.network import Rpc
from simulation.storm_watch import MOST_IN_VAIN
from simulation.world import World


def batch(base: int, epoch: int = 1, fill: int = 0) -> bytes:
    return base.to_bytes(8, "big") + bytes(4) + epoch.to_bytes(4, "big") + bytes([fill]) + bytes(14)


def snapshot(epoch: int = 1, timestamp: int = 7) -> bytes:
    return header_batch(epoch, 5, timestamp) + footer_batch(1, epoch, 5)


class Watched:
    """Three hosts without nodes: the test is what happens to them. n3 has another disk."""

    def __init__(self) -> None:
        self.world = World(["n1", "n2", "n3"], self._none, 1)
        for host in self.world.hosts:
            host.disk = Disk(bytes([host.id]) * 16, segment_bytes=1)
        self.watch = Invariants(self.world)

    def _none(self, host: Host, recovered: Recovered, now: int, wall_ms: int) -> SimNode:
        raise AssertionError("nothing runs here")

    def host(self, number: int) -> Host:
        return self.world.host(f"n{number}")

    def disk(self, number: int, *effects: Durable) -> None:
        host = self.host(number)
        for effect in effects:
            for told in self.world.on_disk:
                told(host, effect)
            host.disk.note(effect)

    def trace(
        self,
        number: int,
        kind: str,
        state: str = "follower",
        *,
        epoch: int = 1,
        hw: int = -1,
        detail: dict[str, Any] | None = None,
    ) -> None:
        host = self.host(number)
        event = TraceEvent(
            node=host.name,
            incarnation=1,
            seq=0,
            mono=0,
            wall=0,
            kind=kind,
            state=state,
            epoch=epoch,
            leader=1,
            voted=-1,
            leo=max(host.disk.end_offset, hw),
            hw=hw,
            detail=detail or {},
        )
        host.last_trace = event
        for told in self.world.on_trace:
            told(host, event)

    def told(
        self, number: int, end: int, epoch: int = 1, hw: int = -1, digest: str | None = None
    ) -> None:
        """The node tells of a snapshot that it made."""
        detail = {"end": end, "epoch": epoch, "by": "created", "digest": digest}
        self.trace(number, "snapshot", hw=hw, detail=detail)

    def commit(self, *numbers: int, upto: int, of: int = 3) -> None:
        """Give all hosts the same log of ``upto`` records, committed as ``numbers`` see it."""
        for number in range(1, of + 1):
            for base in range(self.host(number).disk.end_offset, upto):
                self.disk(number, AppendLog(batch(base)), FlushLog())
        for number in numbers:
            self.trace(number, "hw", hw=upto)

    def make(self, number: int, end: int, epoch: int = 1, content: bytes | None = None) -> None:
        data = snapshot(epoch) if content is None else content
        self.disk(number, AppendSnapshot(end, epoch, 0, data), FinishSnapshot(end, epoch))

    def voters(self, number: int, ids: str, offset: int = -1, level: int = 1) -> None:
        """The node tells that the hosts ``ids`` (such as ``"123"``) vote, with their disks."""
        voters = [[int(i), (bytes([int(i)]) * 16 if level else bytes(16)).hex()] for i in ids]
        detail = {"voters": voters, "kraft_version": level, "offset": offset}
        self.trace(number, "voters", detail=detail)

    @property
    def found(self) -> list[str]:
        return [failure.type for failure in self.watch.failures.items]


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
    run.world.wipe("n3", Disk(bytes([3]) * 16))
    run.make(3, 4)
    run.disk(3, InstallSnapshot(4, 1), AppendLog(batch(4)), AppendLog(batch(5)), FlushLog())
    run.trace(3, "hw", hw=6)
    run.disk(1, AppendLog(batch(6)), FlushLog())
    run.disk(3, AppendLog(batch(6)), FlushLog())
    run.trace(1, "hw", hw=7)
    assert run.found == []
    assert len(run.watch.logs.committed) == 7


def test_a_batch_that_differs_after_an_installed_snapshot_is_seen(run: Watched) -> None:
    run.commit(1, upto=6)
    run.make(1, 4)
    run.told(1, 4, hw=6)
    run.world.wipe("n3", Disk(bytes([3]) * 16))
    run.make(3, 4)
    run.disk(3, InstallSnapshot(4, 1), AppendLog(batch(4, 2)), FlushLog())
    run.trace(3, "hw", hw=5, epoch=2)
    assert run.found == ["I10"]


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


def test_what_a_replaced_machine_had_told_before_counts(run: Watched) -> None:
    """The leader hears of it only after the machine is gone: that is one loss, and allowed."""
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
    run.commit(1, upto=6)
    for end, epoch, hw in ((4, 2, 6), (6, 1, 5)):
        run.make(1, end, epoch)
        run.told(1, end, epoch, hw)
    assert run.found[0] == "I20"
    assert run.found.count("I20") == 2
    run.told(1, 5, hw=6)
    assert run.found.count("I20") == 3, "it says there is one, but there is none"


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
    assert len(run.watch.logs.committed) == 6


def test_i20_a_log_that_begins_where_nothing_is_ever_committed(run: Watched) -> None:
    run.commit(1, upto=2)
    run.commit(upto=6)
    run.make(1, 4)
    run.disk(1, CleanLog(4))
    run.make(1, 6)
    run.told(1, 6, hw=6)
    assert run.found == []
    run.watch.finish()
    assert run.found == ["I20", "I20"]


def test_i19_what_is_fetched_is_what_somebody_has_made(run: Watched) -> None:
    run.commit(1, upto=6)
    run.make(1, 4)
    run.told(1, 4, hw=6)
    run.make(3, 4, content=snapshot(timestamp=8))
    run.disk(3, InstallSnapshot(4, 1))
    assert run.found == ["I19"]


def test_i19_a_disk_that_failed_may_hold_the_snapshot_after_all(run: Watched) -> None:
    run.commit(1, upto=6)
    made = snapshot(timestamp=8)
    run.host(1).disk.snapshots[4, 1] = made  # Written, but the call told of an error.
    run.host(2).disk.snapshots[4, 1] = made[:-1]
    run.watch.snapshots.restarted(run.host(1))
    run.watch.snapshots.restarted(run.host(2))
    run.make(3, 4, content=made)
    run.disk(3, InstallSnapshot(4, 1))
    assert run.found == []
    run.make(1, 4, content=made[:-1])
    run.disk(1, InstallSnapshot(4, 1))
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


def test_i21_a_log_is_not_cleaned_without_a_snapshot_of_what_goes(run: Watched) -> None:
    run.commit(1, upto=6)
    run.disk(1, CleanLog(4))
    assert run.found == ["I21"]


def test_i21_at_a_start_the_latest_snapshot_meets_the_log(run: Watched) -> None:
    run.commit(1, upto=6)
    run.make(1, 4)
    run.disk(1, CleanLog(4))
    run.trace(1, "start")
    assert run.found == []
    run.host(1).disk.snapshots.clear()
    run.trace(1, "start")
    assert run.found == ["I21"]


@pytest.mark.parametrize("kind", ["install", "load"])
def test_i22_a_leader_takes_no_snapshot(run: Watched, kind: str) -> None:
    run.trace(1, kind, detail={"end": 4, "epoch": 1})
    assert run.found == []
    run.trace(1, kind, "leader", detail={"end": 4, "epoch": 1})
    assert run.found == ["I22"]


# --- voters -----------------------------------------------------------------------------------


def elect(run: Watched, number: int, *granting: int, epoch: int = 5, start: int = 3) -> None:
    detail = {"granting": list(granting), "epoch_start": start}
    run.trace(number, "elected", "leader", epoch=epoch, detail=detail)


def lead(run: Watched, level: int = 1) -> None:
    """n1 leads epoch 5, which starts at offset 3, with the vote of n2."""
    run.voters(1, "123", level=level)
    vote(run, 2, 1)
    elect(run, 1, 1, 2)
    assert run.found == []


def change(run: Watched, ids: str, offset: int, hw: int) -> None:
    """The leader n1 appends other voters."""
    voters = [[int(i), (bytes([int(i)]) * 16).hex()] for i in ids]
    detail = {"voters": voters, "offset": offset, "kraft_version": 1}
    run.trace(1, "voters", "leader", epoch=5, hw=hw, detail=detail)


def test_i26_one_voter_at_a_time_each_committed_before_the_next(run: Watched) -> None:
    lead(run)
    change(run, "12", 5, 5)
    change(run, "123", 7, 6)
    assert run.found == []
    change(run, "12", 8, 7)
    assert run.found == ["I26"], "the record at 7 is not below the high watermark 7"
    change(run, "3", 9, 9)
    assert run.found == ["I26", "I26"], "two voters are gone, one has come"


def test_i26_nothing_is_changed_before_the_epoch_has_committed(run: Watched) -> None:
    lead(run)
    change(run, "12", 5, -1)
    assert run.found == ["I26"]


def test_i26_a_follower_that_cuts_its_log_goes_back_to_other_voters(run: Watched) -> None:
    run.voters(2, "123", offset=8)
    run.voters(2, "12", offset=4)
    run.voters(2, "3", offset=9)
    assert run.found == []


def test_i26_making_the_disks_known_changes_nobody(run: Watched) -> None:
    lead(run, level=0)
    change(run, "123", 5, 5)
    assert run.found == []


def vote(run: Watched, voter: int, candidate: int) -> None:
    """``voter`` grants its vote of epoch 5, durably."""
    run.disk(voter, WriteQuorumState(5, -1, candidate, bytes([candidate]) * 16, ()))
    request = VoteRequest(
        None, voter, 5, candidate, bytes([candidate]) * 16, bytes(16), 9, 9, False
    )
    reply = Reply(1, VoteResponse(0, 0, -1, 5, True))
    rpc = Rpc(candidate, 1, voter, 1, voter, 1, request, 0)
    for told in run.world.wires.on_reply:
        told(run.host(voter), rpc, reply)


@pytest.mark.parametrize(
    ("fetched", "silent", "found"), [(1, 0, []), (2, 0, ["I17"]), (2, 1.9, ["I17"]), (2, 2.1, [])]
)
def test_i17_a_follower_that_has_fetched_of_late_grants_no_pre_vote(
    run: Watched, fetched: int, silent: float, found: list[str]
) -> None:
    run.trace(2, "state")
    host = run.host(2)
    for _ in range(fetched):
        answer = FetchResponse(0, 0, 1, 1, -1, 0, -1, -1, -1, -1, b"")
        for told in run.world.on_response:
            told(host, ResponseReceived(1, 1, answer))
    run.world.run(int(silent * 1_000_000))
    request = VoteRequest(None, 2, 1, 3, bytes(16), bytes(16), 9, 9, True)
    rpc = Rpc(3, 1, 2, 1, 2, 1, request, 0)
    for replied in run.world.wires.on_reply:
        replied(host, rpc, Reply(1, VoteResponse(0, 0, -1, 1, True)))
    assert run.found == found


def test_i27_votes_of_a_wiped_voter_do_not_count(run: Watched) -> None:
    run.voters(1, "123")
    run.world.wipe("n2", Disk(b"b" * 16))
    vote(run, 2, 1)
    elect(run, 1, 1, 2)
    assert run.found == ["I27"]


def test_i27_and_i5_hold_for_votes_that_were_given(run: Watched) -> None:
    run.voters(1, "123")
    vote(run, 2, 1)
    elect(run, 1, 1, 2)
    assert run.found == []
    run.voters(3, "123")
    elect(run, 3, 3, epoch=6)
    assert run.found == ["I5"]


def test_i2_a_new_disk_may_vote_again_an_old_one_may_not(run: Watched) -> None:
    vote(run, 2, 1)
    run.world.wipe("n2", Disk(b"b" * 16))
    vote(run, 2, 3)
    assert "I2" not in run.found
    vote(run, 2, 1)
    assert "I2" in run.found


# --- storms -----------------------------------------------------------------------------------


def answered(run: Watched, message: Any, times: int) -> None:
    """n1 hears ``message`` from n2 so many times at once."""
    for number in range(times):
        for told in run.world.on_response:
            told(run.host(1), ResponseReceived(2, number, message))


@pytest.mark.parametrize("error", [True, False])
def test_l8_who_asks_in_vain_waits(run: Watched, error: bool) -> None:
    refusal = BeginQuorumEpochResponse(0, errors.FENCED_LEADER_EPOCH, 1, 1) if error else None
    answered(run, refusal, MOST_IN_VAIN - 1)
    assert run.found == []
    answered(run, refusal, 1)
    assert run.found == ["L8"]


def test_l8_answers_that_bring_something_may_come_fast(run: Watched) -> None:
    answered(run, BeginQuorumEpochResponse(0, errors.NONE, 1, 1), 3 * MOST_IN_VAIN)
    assert run.found == []
