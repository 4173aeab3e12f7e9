"""At most one leader per epoch from three sources, and no leader after its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraftwreck.checkers.kraft.epochs import check
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.protocol.records import LEADER_CHANGE, encode_control
from tests.checkers.breaks import findings


def claim(history: Any, node: int, epoch: int, leader: int | None = None) -> None:
    value = {"leader": node if leader is None else leader, "epoch": epoch, "hw": 0, "node": node}
    history.did(node, "leader", saw=value, node=f"n{node}")


def test_one_leader_per_epoch_is_valid(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.elect("n2", 2, ["n3"])
    claim(history, 1, 1)
    claim(history, 2, 2)
    history.did(3, "leader", node="n3")
    result = check(make_run(history, quorum))
    assert (result.valid, result.anomalies) == (True, [])
    assert result.stats["epochs_with_leader"] == 2
    assert result.stats["claims_told_to_clients"] == 2


def test_a_node_that_names_another_leader_makes_no_claim(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    claim(history, 2, 1, leader=3)
    assert check(make_run(history, quorum)).valid is True


def test_two_leaders_of_one_epoch_in_answers_to_clients(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.event("n1", "state", epoch=7)
    claim(history, 1, 7)
    claim(history, 3, 7)
    result = check(make_run(history, quorum))
    assert result.valid is False
    assert result.anomalies[0].type == "I1"
    assert result.anomalies[0].operations == [0, 1, 2, 3]


def test_a_claim_against_the_trace(history: Any, quorum: Any, make_run: Callable[..., Any]) -> None:
    quorum.one_epoch()
    claim(history, 3, 1)
    result = check(make_run(history, quorum))
    assert result.valid is False
    assert "traced by" in result.anomalies[0].explanation


def test_a_leader_change_record_on_a_disk_against_the_trace(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    body = {"version": 0, "leader_id": 3, "voters": [], "granting_voters": []}
    record = encode_control(LEADER_CHANGE, body)
    quorum.logs["n3"] = [encode_batch(0, 1, 0, [record], control=True)]
    result = check(make_run(None, quorum))
    assert result.valid is False
    assert "n3's disk" in result.anomalies[0].explanation


def test_nothing_seen_is_unknown(quorum: Any, make_run: Callable[..., Any]) -> None:
    result = check(make_run(None, quorum))
    assert (result.valid, result.error) == (
        "unknown",
        "no leader was ever seen: nothing was checked",
    )


def test_a_missing_trace_is_unknown(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    claim(history, 1, 1)
    assert check(make_run(history)).valid == "unknown"


def deposed(history: Any, quorum: Any, late_s: float) -> None:
    """n2 succeeds n1 at about 0.05 s; n1 claims to a client ``late_s`` later that it leads."""
    quorum.one_epoch()
    quorum.elect("n2", 2, ["n3"])
    history.time = quorum.time + late_s
    claim(history, 1, 1)


def test_a_deposed_leader_may_not_know_for_a_while(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    deposed(history, quorum, 4.5)
    assert findings(make_run(history, quorum), check) == []
    assert check(make_run(history, quorum, simulated=True)).valid is False


def test_a_deposed_leader_must_stop_within_the_bound(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    deposed(history, quorum, 5.5)
    (anomaly,) = findings(make_run(history, quorum), check)
    assert anomaly.type == "stale-leader"
    assert anomaly.operations == [0, 1]
    assert "n1 still leads epoch 1" in anomaly.explanation
    slower = make_run(history, quorum, knobs={"node": {"fetch_timeout_ms": 4000}})
    assert findings(slower, check) == [], "its fetch time-out was longer"


def test_a_paused_leader_cannot_stop(
    history: Any, quorum: Any, make_run: Callable[..., Any], make_fault: Callable[..., Any]
) -> None:
    deposed(history, quorum, 5.5)
    paused = make_fault(1, "pause", 1.0, 2.0, "n1")
    assert findings(make_run(history, quorum, faults=paused), check) == []
    other = make_fault(1, "pause", 1.0, 2.0, "n3")
    assert findings(make_run(history, quorum, faults=other), check)
    before = make_fault(1, "pause", 0.0, 0.001, "n1")
    assert findings(make_run(history, quorum, faults=before), check)


def test_client_claims_alone_show_a_deposed_leader(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.event("n1", "state", epoch=2)
    claim(history, 2, 2)
    history.time += 6
    claim(history, 1, 1)
    assert findings(make_run(history, quorum), check)
