"""Disk images, captured messages and clients' histories, judged right at the edges of rules."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kraftwreck.checkers.calls import pair
from kraftwreck.checkers.kraft import recovery, topics
from kraftwreck.checkers.kraft.invariants.disks import Disks
from kraftwreck.checkers.kraft.quorum_model.log_chain import LogChain
from kraftwreck.checkers.kraft.quorum_model.log_rules import applied_to
from kraftwreck.checkers.kraft.quorum_model.model import QuorumModel
from kraftwreck.checkers.kraft.quorum_model.replica import Replica
from kraftwreck.checkers.kraft.quorum_model.transitions import _start
from kraftwreck.checkers.kraft.recorded.capture import Capture, _extent
from kraftwreck.checkers.kraft.recorded.committed_log import CommittedLog, Snapshot
from kraftwreck.checkers.kraft.recorded.disk_log import StoredBatch
from kraftwreck.nodes.log.batch import encode_batch
from tests.checkers.conftest import NODES
from tests.checkers.kraft.stand_ins import event, evidence, heard, thing

pytestmark = pytest.mark.interpreted  # Stand-ins take the place of images and traces.

RECOVERED = 30_000_000_000


def stored(base: int, epoch: int, last: int) -> StoredBatch:
    return StoredBatch(base, last, epoch, 0, 1, False, b"")


def disks(chain: LogChain, **tracks: Any) -> tuple[Disks, Any]:
    report, trace = heard(), {"chain": chain, "tracks": tracks}
    return Disks(evidence(trace=trace, test={}), report), report


def log_of(*batches: StoredBatch, start: int = 0, end: int = 99) -> Any:
    image = thing(node="n1", label="final", directory=None)
    return thing(image=image, batches=list(batches), shared=0, start=start, end=end)


# --- disks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mark", "epoch", "wrong"), [(5, 1, False), (6, 1, True), (0, 3, False), (0, 4, True)]
)
def test_i10_a_disk_may_hold_another_batch_where_its_node_knew_of_no_commit(
    mark: int, epoch: int, wrong: bool
) -> None:
    """A batch of epoch 2 at offset 5 was committed in epoch 3; a leader of a later epoch had it."""
    chain = LogChain(lambda *_: None)
    chain.commit("n2", 5, 2, 9, 0, 3, None)
    judge, report = disks(chain, n1=thing(max_hw=mark))
    judge._check_log(log_of(stored(0, 1, 4), stored(5, epoch, 9)))
    assert ("I10" in report.found) is wrong


@pytest.mark.parametrize(("start", "held"), [(9, False), (10, True), (11, True)])
def test_i11_a_log_has_the_batches_before_its_start_in_a_snapshot(start: int, held: bool) -> None:
    chain = LogChain(lambda *_: None)
    chain.commit("n2", 5, 2, 9, 0, 3, None)
    judge, report = disks(chain, n1=thing(voters={1: "0" * 32}, voters_offset=0, max_hw=9))
    judge._check_majority({"n1": log_of(start=start)})
    assert ("I11" in report.found) is not held


@pytest.mark.parametrize(
    ("offset", "mark", "known"), [(-1, -1, True), (0, -1, False), (5, 5, False), (5, 6, True)]
)
def test_the_last_voters_are_those_below_a_high_watermark(
    offset: int, mark: int, known: bool
) -> None:
    """Voters of offset -1 are those of the configuration."""
    track = thing(voters={7: "disk"}, voters_offset=offset, max_hw=mark)
    judge, _ = disks(LogChain(lambda *_: None), n1=track)
    found = judge._voters()
    assert (found == {7: "disk"}) is known


def test_the_snapshot_made_by_formatting_begins_no_part_of_the_log() -> None:
    """Its content becomes records of the log."""
    log = CommittedLog({}, [])
    log.snapshots = [Snapshot((0, 0), b"", ""), Snapshot((5, 1), b"", "")]
    parts = list(log._join({0: stored(0, 1, 3), 5: stored(5, 1, 9)}))
    assert [part.origin and part.origin.id for part in parts] == [None, (5, 1)]
    assert [(part.start, part.end) for part in parts] == [(0, 4), (5, 10)]


# --- traces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("incarnation", "legal"), [(1, False), (2, False), (3, True)])
def test_a_process_starts_after_the_one_before(incarnation: int, legal: bool) -> None:
    now = event(0, seq=0, hw=-1, voted=-1, incarnation=incarnation)
    last = event(0, incarnation=2, epoch=0)
    now.detail["directory"] = "d"
    assert (_start(cast(Replica, thing(id=1, directory="d")), last, now) is None) is legal


@pytest.mark.parametrize(("base", "known"), [(4, True), (5, False), (6, False)])
def test_the_end_of_a_log_at_an_election_is_unknown_once_the_leader_has_written(
    base: int, known: bool
) -> None:
    model = QuorumModel(NODES, ordered=False)
    leader = Replica("n1", 1)
    leader.push(base, 2, base, 0)
    model._elected(leader, event(0, epoch=2), {"voters": [1], "epoch_start": 5})
    [election] = model.chain.elections
    assert election.tip == ((base, 2) if known else None)


@pytest.mark.parametrize(("incarnation", "gaps"), [(1, 0), (2, 0), (3, 1), (4, 1)])
def test_a_process_without_a_trace_is_a_gap(incarnation: int, gaps: int) -> None:
    model = QuorumModel(NODES, ordered=False)
    for number in dict.fromkeys((1, incarnation)):
        model.take(event(0, "start", incarnation=number, hw=-1, voted=-1, leo=0, mono=0))
    assert len(model.gaps) == gaps


def test_a_node_that_the_run_does_not_name_gets_the_next_id() -> None:
    model = QuorumModel(NODES, ordered=False)
    model.take(event(0, "start", "n9", hw=-1, voted=-1, leo=0, mono=0))
    assert model.tracks["n9"].id == len(NODES) + 1


@pytest.mark.parametrize(("last_epoch", "unseen"), [(9, []), (7, [(2, 9)])])
def test_a_log_with_another_last_epoch_continues_from_its_last_committed_batch(
    last_epoch: int, unseen: list[tuple[int, int]]
) -> None:
    """Of three batches the first two were committed."""
    model = QuorumModel(NODES, ordered=False)
    node = Replica("n1", 1)
    for base, epoch in ((0, 4), (1, 5), (2, 9)):
        node.push(base, epoch, base, 0)
        if epoch < 9:
            model.chain.commit("n1", base, epoch, base, 0, epoch, None)
    node.unseen.clear()
    started = event(0, "start", leo=9, detail={"last_epoch": last_epoch})
    model._replaced(node, started)
    assert node.unseen == unseen


def test_a_state_at_an_offset_is_that_up_to_the_next_one() -> None:
    image, snapshot = {"offset": 4, "epoch": 2}, {"end": 5, "epoch": 2}
    assert applied_to(event(0, detail=image)) == applied_to(event(0, detail=snapshot)) == (5, 2)


# --- messages and histories -----------------------------------------------------------------------


def test_the_extent_of_records_is_from_the_first_batch_to_the_end_of_the_last() -> None:
    two: list[tuple[bytes | None, bytes | None]] = [(None, b"a"), (None, b"b")]
    first, second = (encode_batch(base, 3, 0, two, control=False) for base in (5, 7))
    assert _extent(first) == (5, 3, 7)
    assert _extent(first + second) == (5, 3, 9)


def test_a_full_capture_counts_what_it_drops() -> None:
    capture = Capture(limit=1)
    for time in range(3):
        capture.answer(time, 1, 2, thing())
        capture.exchange(time, 1, 2, thing(), thing(), time)
        capture.request(time, 2, thing())
    assert (len(capture.messages), capture.dropped) == (1, 8)


@pytest.mark.parametrize(
    ("calls", "valid"),
    [
        ([(4, 5)], "unknown"),
        ([(5, 5)], True),
        ([(5, 5 + RECOVERED)], True),
        ([(5, 6 + RECOVERED)], False),
        ([(5, -1), (4 + RECOVERED, -1)], "unknown"),
        ([(5, -1), (5 + RECOVERED, -1)], False),
    ],
)
def test_an_operation_after_the_last_fault_succeeds_within_30_s(
    calls: list[tuple[int, int]], valid: bool | str
) -> None:
    """It ended at 5; ``calls`` are (begin, success) of operations, -1 for no success."""
    tried = [
        thing(
            invoked=begin, completed=end if end >= 0 else None, type="ok" if end >= 0 else "info",
            f="read", value=1, start=0,
        )
        for begin, end in calls
    ]  # fmt: skip
    fault = thing(id=1, phase="stop", time=5, done=5)
    run: Any = thing(
        calls=tried, faults=[fault], test={"simulated": True},
        derived=lambda *_: thing(tracks={}),
    )  # fmt: skip
    assert recovery.check(run).valid == valid


def test_of_reads_that_agree_between_two_changes_only_two_are_kept(history: Any) -> None:
    """Also of those before the first change."""
    for _ in range(9):
        history.did(0, "read", saw=[])
    history.did(0, "create", "a", key="a")
    for _ in range(9):
        history.did(0, "read", saw=["a"])
    _, _, numbers = topics.judge(pair(history.ops), NODES)
    assert (numbers["complete_reads"], numbers["observations_searched"]) == (18, 4)


def test_reads_that_overlap_with_one_that_disagrees_are_kept() -> None:
    """The second read disagrees with those that follow, of which two began before its end."""
    times = [(0, 1), (2, 9), (3, 4), (5, 6), (10, 11), (12, 13), (14, 15)]
    calls: Any = [
        thing(f="read", type="ok", start=start, end=end, value=[] if end == 9 else ["a"])
        for start, end in times
    ]
    reads = topics.Reads(calls, ["a"])
    assert topics._ends_of_run(reads, reads.present[0], 2, 7) == [2, 3, 4, 6]


@pytest.mark.parametrize("nested", [False, True])
def test_a_read_within_another_may_be_the_only_one_that_is_kept(history: Any, nested: bool) -> None:
    """It ended first and began last."""
    history.did(0, "create", "a", key="a")
    history.invoke(1, "read")
    if nested:
        history.did(2, "read", saw=["a"])
    history.end(1, "ok", ["a"])
    if not nested:
        history.did(2, "read", saw=["a"])
    _, _, numbers = topics.judge(pair(history.ops), NODES)
    assert numbers["observations_searched"] == (1 if nested else 2)
