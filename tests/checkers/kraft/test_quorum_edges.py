"""Rules of the quorum's model, judged right at their edges."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraftwreck.checkers.kraft.quorum_model.causes import Causes
from kraftwreck.checkers.kraft.quorum_model.election_rules import (
    leader_has_a_majority,
    voters_are_updated_one_at_a_time,
    voters_change_one_at_a_time,
)
from kraftwreck.checkers.kraft.quorum_model.log_chain import Election, LogChain
from kraftwreck.checkers.kraft.quorum_model.log_rules import (
    delivers_in_order,
    leader_commits_its_epoch_first,
    snapshot_is_named_by_a_commit,
)
from kraftwreck.checkers.kraft.quorum_model.model import QuorumModel
from kraftwreck.checkers.kraft.quorum_model.replica import Replica
from kraftwreck.checkers.kraft.quorum_model.transitions import _truncate
from kraftwreck.histories.trace import TraceEvent
from tests.checkers.conftest import NODES

pytestmark = pytest.mark.interpreted  # Stand-ins take the place of replicas and quorums.

NOBODY: Any = SimpleNamespace()


def event(kind: str = "hw", hw: int = -1, **detail: Any) -> TraceEvent:
    return cast(TraceEvent, SimpleNamespace(kind=kind, hw=hw, epoch=3, node="n1", detail=detail))


def replica(**known: Any) -> Replica:
    return cast(Replica, SimpleNamespace(name="n1", **known))


def chain_of(*batches: tuple[int, int, int, int]) -> LogChain:
    """Commit batches of (base, epoch, last, epoch of the node that shows it)."""
    chain = LogChain(lambda *_: None)
    for base, epoch, last, at_epoch in batches:
        chain.commit("n1", base, epoch, last, 0, at_epoch, None)
    return chain


@pytest.mark.parametrize(("votes", "enough"), [([1, 2], False), ([1, 2, 3], True)])
def test_half_of_the_voters_is_no_majority(votes: list[int], enough: bool) -> None:
    four = replica(voters=dict.fromkeys((1, 2, 3, 4), ""))
    found = leader_has_a_majority(NOBODY, four, event("elected", granting=votes))
    assert (found is None) is enough


@pytest.mark.parametrize(("hw", "early"), [(10, True), (11, False)])
def test_voters_change_after_a_commit_beyond_the_epochs_start(hw: int, early: bool) -> None:
    quorum: Any = SimpleNamespace(
        changed_voters=lambda *_: ({1: "a"}, {1: "a", 2: "b"}), voter_requests=None
    )
    leader = replica(voters_offset=2, epoch_start=10, epoch_start_of=3, level=1)
    found = voters_change_one_at_a_time(quorum, leader, event("voters", hw, offset=12))
    assert bool(found) is early


@pytest.mark.parametrize(
    ("hw", "epoch", "early"), [(10, 3, False), (11, 3, True), (12, 3, True), (13, 3, False),
                               (12, 2, False)]
)  # fmt: skip
def test_voters_are_updated_after_the_commit_of_the_last_change(
    hw: int, epoch: int, early: bool
) -> None:
    """The leader of epoch 3 began it at 10, and changed the voters at 12."""
    leader = replica(voters_offset=12, epoch_start=10, epoch_start_of=epoch)
    found = voters_are_updated_one_at_a_time(NOBODY, leader, event("voters", hw, offset=14))
    assert bool(found) is early


@pytest.mark.parametrize(
    ("hw", "start", "early"), [(-1, 0, False), (0, 0, True), (7, 7, True), (8, 7, False)]
)
def test_a_high_watermark_of_a_leader_is_beyond_the_start_of_its_epoch(
    hw: int, start: int, early: bool
) -> None:
    found = leader_commits_its_epoch_first(NOBODY, replica(epoch_start=start), event(hw=hw))
    assert (found is not None) is early


@pytest.mark.parametrize(("due", "right"), [(None, True), (-1, True), (0, False), (5, True)])
def test_a_process_delivers_the_next_offset(due: int | None, right: bool) -> None:
    delivered = event("commit", 20, base=5, last=9)
    assert (delivers_in_order(NOBODY, replica(delivered=due), delivered) is None) is right


@pytest.mark.parametrize(
    ("end", "highest", "right"), [(5, -1, True), (5, 0, False), (5, 5, True), (6, 5, False)]
)
def test_a_snapshot_is_below_some_high_watermark(end: int, highest: int, right: bool) -> None:
    quorum: Any = SimpleNamespace(chain=chain_of(), over=True, high_watermark=highest, gaps=[])
    taken = event("snapshot", end=end, epoch=1)
    assert (snapshot_is_named_by_a_commit(quorum, replica(), taken) is None) is right


def test_offsets_inside_a_committed_batch_end_none() -> None:
    chain = chain_of((5, 2, 9, 2))
    found = [chain.epoch_before(offset) for offset in (5, 6, 9, 10, 11)]
    assert found == [None, -1, -1, 2, None]


@pytest.mark.parametrize(("shown_in", "lacks"), [(2, True), (3, False)])
def test_a_leader_lacks_only_commits_of_older_epochs(shown_in: int, lacks: bool) -> None:
    chain = chain_of((0, 2, 4, shown_in))
    chain.hold("n1", 1, 0, 1, 4, 0, (-1, -1))
    election = Election(3, "n1", 5, (0, 1), event("elected"))
    assert (chain.lacking(election) is not None) is lacks


@pytest.mark.parametrize(("leo", "grown"), [(4, False), (5, False), (6, True)])
def test_a_log_has_grown_if_it_ends_later_than_before(leo: int, grown: bool) -> None:
    node = Replica("n1", 1)
    node.restart(0)
    node.push(0, 1, 4, 0)
    node.unseen.clear()
    node.restart(leo)
    assert node.grown is grown
    assert node.unseen == ([(5, 6)] if grown else [])


def test_of_two_followers_with_one_high_watermark_the_first_is_the_proof() -> None:
    causes = Causes({})
    leader: Any = SimpleNamespace(kind="hw", state="leader", leader=1, epoch=3, hw=5, node="n1")
    causes.take(replica(id=1), leader)
    for number in (2, 3):
        follower: Any = SimpleNamespace(
            kind="hw", state="follower", leader=1, epoch=3, hw=9, node=f"n{number}"
        )
        causes.take(replica(id=number, installed=-1), follower)
    [(text, [shown])] = causes.missing()
    assert text.startswith("n2 learns the high watermark 9 from node 1")
    assert shown.node == "n2"


def test_a_snapshot_at_offset_0_is_of_epoch_0() -> None:
    quorum: Any = SimpleNamespace(chain=chain_of(), over=True, high_watermark=9, gaps=[])
    found = snapshot_is_named_by_a_commit(quorum, replica(), event("snapshot", end=0, epoch=1))
    assert isinstance(found, str)
    assert "a batch of epoch 0 ends" in found


@pytest.mark.parametrize(("offset", "may"), [(1, False), (2, True), (4, True), (5, False)])
def test_untraced_offsets_are_held_by_the_present_or_a_replaced_disk(
    offset: int, may: bool
) -> None:
    node = Replica("n1", 1)
    node.unseen = [(2, 5)]
    assert node.may_hold(offset) is may
    node.gone["old"] = set(), [(2, 5)]
    assert node.voted_with({1: "old"}, 0, 1, offset) is may


@pytest.mark.parametrize(("delivered", "after"), [(None, 7), (-1, -1), (0, 7), (6, 7), (8, 8)])
def test_a_snapshot_delivers_what_is_below_its_end(delivered: int | None, after: int) -> None:
    node = Replica("n1", 1)
    node.delivered = delivered
    node.has_delivered(7)
    assert node.delivered == after


@pytest.mark.parametrize(("to", "legal"), [(4, True), (5, True), (6, False)])
def test_a_truncation_never_extends_the_log(to: int, legal: bool) -> None:
    last: Any = SimpleNamespace(leo=5)
    cut: Any = SimpleNamespace(leo=to, state="follower", detail={"from": 5, "to": to})
    assert (_truncate(NOBODY, last, cut) is None) is legal


# --- the whole model ------------------------------------------------------------------------------


def model_of(quorum: Any) -> QuorumModel:
    model = QuorumModel(NODES, ordered=True)
    for each in quorum.events:
        model.take(each)
    return model


def test_the_first_node_with_a_high_watermark_is_its_witness(quorum: Any) -> None:
    quorum.one_epoch()
    [(_, witness)] = model_of(quorum).chain.high_watermarks.values()
    assert witness.node == "n1"


def test_an_election_is_judged_by_commits_of_older_epochs(quorum: Any) -> None:
    quorum.one_epoch()
    first = model_of(quorum)
    first.finish()
    assert first.steps.get("election", 0) == 0
    quorum.elect("n2", 2, ("n1", "n3"))
    second = model_of(quorum)
    assert second.steps["election"] == 1
    assert not any(election.lacks for election in second.chain.elections)


def test_a_process_that_starts_in_its_old_epoch_gives_no_new_vote(quorum: Any) -> None:
    quorum.one_epoch()
    before = dict(model_of(quorum).steps)
    quorum.start("n2")
    after = model_of(quorum).steps
    assert (after["new-vote"], after["new-epoch"]) == (before["new-vote"], before["new-epoch"])


def test_an_epoch_after_epoch_0_is_judged(quorum: Any) -> None:
    quorum.one_epoch()
    assert model_of(quorum).steps["new-epoch"] == 3


@pytest.mark.parametrize(("beyond", "judged"), [(0, 1), (1, 0)])
def test_a_snapshot_up_to_the_last_commit_is_judged_at_once(
    quorum: Any, beyond: int, judged: int
) -> None:
    quorum.one_epoch()
    end = model_of(quorum).chain.end
    quorum.event("n1", "snapshot", {"end": end + beyond, "epoch": 1})
    assert model_of(quorum).steps.get("named", 0) == judged


@pytest.mark.parametrize(
    ("lost", "more"), [(1, ""), (2, " (and 1 more gaps)"), (3, " (and 2 more gaps)")]
)
def test_a_trace_with_gaps_names_the_first_and_counts_the_others(
    quorum: Any, lost: int, more: str
) -> None:
    quorum.one_epoch()
    model = model_of(quorum)
    model.finish()
    model.gaps = [f"gap {number}" for number in range(lost)]
    assert model.missing == f"the trace is incomplete: gap 0{more}"
