"""Each quorum invariant: correct traces keep it, a trace that breaks it is called by its id."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.histories.tables import TRACE_SCHEMA, from_table, to_table
from kraftwreck.histories.trace import TraceEvent
from tests.checkers.breaks import broken


def test_a_correct_quorum_is_valid(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.event("n1", "claim", {"epoch_start": 0})
    quorum.append("n1", 1)
    quorum.copy("n1", "n2")
    quorum.commit("n1")
    quorum.elect("n2", 2, ["n3"])
    quorum.copy("n2", "n3")
    quorum.commit("n2", "n3")
    quorum.start("n1", state="resigned", leader=1)
    quorum.elect("n3", 3, ["n2", "n1"])
    quorum.copy("n3", "n1", "n2")
    quorum.commit("n3", "n1", "n2")
    result = check(make_run(None, quorum))
    assert (result.valid, result.error, result.anomalies) == (True, None, [])
    assert result.stats["elections"] == 3


def test_traces_in_any_order_of_nodes_and_from_arrow_give_the_same(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.event("n2", "fatal", {"reason": "boom"})
    table = to_table(quorum.events, TRACE_SCHEMA)
    quorum.events = sorted(from_table(table, TraceEvent), key=lambda e: e.node, reverse=True)
    result = check(make_run(None, quorum, ordered=False))
    assert result.valid is False
    assert [a.type for a in result.anomalies] == ["I29"]
    assert result.anomalies[0].events[0]["detail"] == {"reason": "boom"}


def test_no_trace_is_unknown(quorum: Any, make_run: Callable[..., Any]) -> None:
    assert check(make_run()).valid == "unknown"
    quorum.one_epoch()
    quorum.events = [e for e in quorum.events if e.node != "n3"]
    result = check(make_run(None, quorum))
    assert (result.valid, result.error) == ("unknown", "no trace of n3")


def test_a_hole_in_a_trace_is_unknown_and_raises_no_alarm(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    lost = next(e for e in quorum.events if e.node == "n2" and e.kind == "append")
    quorum.events.remove(lost)
    result = check(make_run(None, quorum))
    assert result.valid == "unknown"
    assert result.anomalies == []
    assert "n2: incarnation 1 has event" in (result.error or "")


def test_missing_final_events_of_a_killed_process_are_no_anomaly(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    """The append reached the disk, its trace did not; the restart shows the log's end."""
    quorum.one_epoch()
    quorum.append("n1", 1)
    quorum.copy("n1", "n2")
    quorum.events.pop()
    quorum.start("n2", epoch=1)
    quorum.commit("n1")
    assert check(make_run(None, quorum)).valid is True


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize(("told", "expected"), [(True, set()), (False, {"I8"})])
def test_a_killed_node_may_have_replaced_part_of_its_log_untold(
    quorum: Any, make_run: Callable[..., Any], lost: int, told: bool, expected: set[str]
) -> None:
    """n1 truncated its own batches, fetched as many from the next leader, and died before its
    report: only the epoch of the last record in its start event shows that the log changed."""
    quorum.elect("n1", 1)
    quorum.copy("n1", "n2", "n3")
    quorum.commit("n1", "n2", "n3")
    for _ in range(lost):
        quorum.append("n1", 1)
    quorum.elect("n2", 2, ["n3"])
    quorum.append("n2", 2)
    quorum.logs["n1"] = quorum.logs["n2"][: len(quorum.logs["n1"])]
    quorum.start("n1", epoch=2)
    if not told:
        del quorum.events[-1].detail["last_epoch"]
    quorum.append("n2", 2)
    quorum.copy("n2", "n1", "n3")
    quorum.commit("n2", "n3")
    found = broken(make_run(None, quorum, images=[]))
    assert found == expected
    quorum.commit("n1")
    assert broken(make_run(None, quorum, images=[])) == (expected and {"I8", "I10"})


def test_i8_a_start_with_another_log_excuses_nothing_committed(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.elect("n1", 1)
    quorum.append("n1", 1)
    quorum.copy("n1", "n2")
    quorum.commit("n1", "n2")
    quorum.elect("n3", 2, ["n2"])
    quorum.append("n3", 2)
    quorum.logs["n2"] = [*quorum.logs["n3"]]
    quorum.start("n2", epoch=2)
    quorum.append("n3", 2)
    quorum.copy("n3", "n2")
    quorum.commit("n2")
    assert {"I8", "I10"} <= broken(make_run(None, quorum, images=[]))


def test_i1_two_leaders_of_one_epoch(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.elect("n1", 1, ["n2"])
    quorum.event("n3", "state", state="candidate", epoch=1, voted=3)
    quorum.win("n3", 1, [3, 2])
    assert "I1" in broken(make_run(None, quorum))


def test_i1_two_nodes_follow_different_leaders(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.event("n1", "state", state="follower", epoch=4, leader=2)
    quorum.event("n3", "state", state="follower", epoch=4, leader=1)
    assert broken(make_run(None, quorum)) == {"I1"}


def test_i2_a_second_vote_in_one_epoch(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.grant("n2", "n1", 1)
    quorum.grant("n2", "n3", 1)
    assert broken(make_run(None, quorum, images=[])) == {"I2"}


def test_i2_i3_a_vote_forgotten_over_a_restart(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.grant("n2", "n1", 1)
    quorum.start("n2", voted=-1)
    assert broken(make_run(None, quorum)) == {"I3"}
    quorum.grant("n2", "n3", 1)
    assert broken(make_run(None, quorum)) == {"I2", "I3"}


def test_a_pre_vote_is_no_vote(quorum: Any, make_run: Callable[..., Any]) -> None:
    for candidate in (1, 3):
        quorum.event(
            "n2",
            "grant",
            {"epoch": 0, "candidate": candidate, "pre": True, "candidate_last_epoch": 0,
             "candidate_last_offset": 0, "last_epoch": 0, "last_offset": 0},
        )  # fmt: skip
    assert broken(make_run(None, quorum)) == set()


@pytest.mark.parametrize("pre", [True, False])
def test_i4_a_vote_for_a_shorter_log(quorum: Any, make_run: Callable[..., Any], pre: bool) -> None:
    quorum.one_epoch()
    quorum.append("n1", 1)
    quorum.copy("n1", "n2")
    quorum.grant("n2", "n3", 2, pre=pre)
    assert broken(make_run(None, quorum)) == {"I4"}


def test_i4_a_vote_asked_for_twice_is_the_same_vote(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.grant("n2", "n3", 2)
    before = broken(make_run(None, quorum))
    quorum.append("n1", 1)
    quorum.copy("n1", "n2")
    quorum.grant("n2", "n3", 2)
    assert before == broken(make_run(None, quorum)) == set()


def test_i5_a_leader_without_majority(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.event("n1", "state", state="candidate", epoch=1, voted=1)
    quorum.win("n1", 1, [1])
    assert "I5" in broken(make_run(None, quorum))


def test_i5_a_leader_that_counts_a_vote_never_given(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.event("n1", "state", state="candidate", epoch=1, voted=1)
    quorum.win("n1", 1, [1, 2])
    quorum.event("n2", "state", state="follower", epoch=1, leader=1)
    assert broken(make_run(None, quorum)) == {"I5"}


def test_i6_an_epoch_that_goes_back(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.start("n2", epoch=0, voted=-1)
    assert broken(make_run(None, quorum)) == {"I6"}


def test_i7_a_batch_of_another_epoch(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.append("n1", 2)
    assert "I7" in broken(make_run(None, quorum))


def test_i8_one_batch_with_two_contents(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.append("n1", 1, b"a")
    quorum.append("n3", 1, b"b")
    assert "I8" in broken(make_run(None, quorum))


def test_i8_a_hole_in_the_log(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.append("n1", 1)
    quorum.append("n1", 1)
    quorum.store("n2", quorum.logs["n1"][-1])
    assert "I8" in broken(make_run(None, quorum))


def test_i9_a_leader_without_a_committed_batch(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.append("n1", 1)
    quorum.copy("n1", "n2")
    quorum.commit("n1")
    quorum.event("n2", "state", state="unattached", epoch=2, leader=-1, voted=-1)
    quorum.event("n3", "state", state="candidate", epoch=2, voted=3, leader=-1)
    quorum.win("n3", 2, [3, 2])
    assert "I9" in broken(make_run(None, quorum))


def test_i9_a_leader_with_other_content_where_it_was_committed(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    """Figure 8 of the Raft paper: a commit of epoch 3 was overwritten by epoch 2's log."""
    quorum.one_epoch()
    quorum.at["n3"].update(state="candidate", epoch=2, voted=3, leader=-1)
    quorum.win("n3", 2, [3, 2, 1])
    quorum.append("n3", 2)
    quorum.elect("n1", 3, ["n2"])
    quorum.copy("n1", "n2")
    quorum.commit("n1", "n2")
    quorum.event("n3", "state", state="candidate", epoch=4, voted=3, leader=-1)
    quorum.win("n3", 4, [3, 2])
    assert "I9" in broken(make_run(None, quorum))


def test_i10_two_batches_below_the_high_watermark(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.append("n1", 1)
    quorum.copy("n1", "n2")
    quorum.commit("n1", "n2")
    quorum.at["n3"].update(state="candidate", epoch=2, voted=3, leader=-1)
    quorum.win("n3", 2, [3, 2, 1])
    quorum.commit("n3")
    assert {"I9", "I10"} <= broken(make_run(None, quorum))


def test_i11_a_high_watermark_without_majority(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.append("n1", 1)
    quorum.commit("n1")
    assert broken(make_run(None, quorum)) == {"I11"}


def test_i12_committing_an_older_epoch_by_counting(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.elect("n2", 2, ["n3"])
    quorum.event("n2", "hw", hw=2)
    assert broken(make_run(None, quorum)) == {"I12"}


def test_i13_a_high_watermark_that_goes_back(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.event("n3", "hw", hw=1)
    assert broken(make_run(None, quorum)) == {"I13"}


def test_i14_a_truncation_below_the_high_watermark(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.event("n3", "truncate", {"from": 2, "to": 1}, leo=1, hw=1)
    assert "I14" in broken(make_run(None, quorum))


def test_i14_a_high_watermark_beyond_the_log(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.event("n3", "hw", hw=9)
    assert "I14" in broken(make_run(None, quorum))


def test_i15_a_node_that_starts_as_leader(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.start("n1", state="leader", leader=1, epoch=1)
    assert broken(make_run(None, quorum)) == {"I15"}


def test_i15_a_leader_that_was_no_candidate(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.event("n2", "state", state="leader", leader=2, epoch=2, voted=-1, hw=-1)
    assert broken(make_run(None, quorum)) == {"I15"}


def test_i16_a_pre_vote_that_raises_the_epoch(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    quorum.event("n2", "state", state="prospective", epoch=2, leader=-1)
    assert broken(make_run(None, quorum)) == {"I16"}


def test_operations_that_failed_in_the_controller(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    detail = {"api": "CreateTopics", "error": "KeyError: 'x'", "epoch": 1}
    quorum.event("n1", "controller-error", detail)
    assert broken(make_run(None, quorum)) == {"controller-error", "C24"}, "and it still leads"


def test_i25_deliveries_out_of_order(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    again = next(e for e in quorum.events if e.node == "n3" and e.kind == "commit")
    quorum.event("n3", "commit", again.detail)
    assert broken(make_run(None, quorum)) == {"I25"}


def test_i25_a_delivery_beyond_the_high_watermark(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.elect("n1", 1)
    appended = next(e for e in quorum.events if e.node == "n1" and e.kind == "append")
    quorum.event("n1", "commit", appended.detail)
    assert broken(make_run(None, quorum, images=[])) == {"I25"}


def test_i25_a_claim_before_the_epoch_is_committed(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.elect("n1", 1)
    quorum.event("n1", "claim", {"epoch_start": 0})
    assert broken(make_run(None, quorum)) == {"I25"}


def test_i29_a_fatal_error(quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.event("n1", "fatal", {"reason": "two leaders in epoch 3"})
    (anomaly,) = check(make_run(None, quorum)).anomalies
    assert anomaly.type == "I29"
    assert "two leaders in epoch 3" in anomaly.explanation


def test_anomalies_are_counted_but_not_all_kept(quorum: Any, make_run: Callable[..., Any]) -> None:
    for _ in range(30):
        quorum.event("n1", "fatal", {"reason": "again"})
    result = check(make_run(None, quorum))
    assert len(result.anomalies) == 10
    assert result.stats["broken"] == {"I29": 30}


def test_ten_thousand_events_are_checked_in_a_blink(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    template = quorum.events[-1]
    batch = {"epoch": 1, "crc": 7}
    for base in range(2, 1700):
        for node, by in (("n1", "leader"), ("n2", "follower")):
            at = quorum.at[node]
            at["leo"] = base + 1
            for kind in ("append", "hw", "commit"):
                at["hw"] = base if kind == "append" else base + 1
                detail = {"base": base, "last": base, **batch, "by": by}
                quorum.events.append(
                    msgspec.structs.replace(template, node=node, kind=kind, detail=detail, **at)
                )
                at["seq"] += 1
    assert len(quorum.events) > 10_000
    run = make_run(None, quorum, ordered=False, images=[])
    begin = process_time()
    assert check(run).anomalies == []
    assert process_time() - begin < 1.5, "some 30 ms on an idle machine"
