"""The client view of committed metadata: acknowledged changes are in every later read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.checkers.calls import Call, pair
from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.kraft import topics
from kraftwreck.histories.operation import Op

NODES = ["n1", "n2"]


def finals(history: Any, *names: str) -> None:
    for node in NODES:
        history.did(90, "read", saw=sorted(names), node=node, final=True)


def judge(history: Any) -> tuple[Findings, list[str]]:
    findings, doubts, _ = topics.judge(pair(history.ops), NODES)
    return findings, doubts


def test_a_history_without_topics_is_none_of_its_business(history: Any) -> None:
    history.did(0, "read", saw=3, key="r")
    assert topics.judge(pair(history.ops), NODES)[1:] == ([], {})


def test_acknowledged_topics_are_present(history: Any) -> None:
    history.did(0, "create", "a", key="a")
    history.did(0, "create", "b", key="b")
    history.did(1, "read", saw=["a", "b"])
    history.did(0, "delete", "a", key="a")
    history.did(1, "read", saw=["b"])
    finals(history, "b")
    findings, doubts = judge(history)
    assert (findings.anomalies, doubts) == ([], [])


def test_an_acknowledged_topic_that_is_lost(history: Any) -> None:
    history.did(0, "create", "a", key="a")
    history.did(1, "read", saw=[])
    finals(history, "a")
    findings, _ = judge(history)
    (anomaly,) = findings.anomalies
    assert anomaly.type == "lost"
    assert "Topic a was created" in anomaly.explanation
    assert anomaly.operations == [0, 1, 2, 3]


def test_a_topic_lost_only_on_one_node_at_the_end(history: Any) -> None:
    history.did(0, "create", "a", key="a")
    history.did(0, "read", saw=["a"], node="n1", final=True)
    history.did(0, "read", saw=[], node="n2", final=True)
    findings, _ = judge(history)
    assert [a.type for a in findings.anomalies] == ["lost"]
    assert "the final read of n2" in findings.anomalies[0].explanation


def test_a_deleted_topic_that_comes_back(history: Any) -> None:
    history.did(0, "create", "a", key="a")
    history.did(0, "delete", "a", key="a")
    finals(history, "a")
    assert [a.type for a in judge(history)[0].anomalies] == ["resurrected"]


def test_a_topic_without_a_request(history: Any) -> None:
    history.did(0, "create", "a", key="a")
    finals(history, "a", "b")
    findings, _ = judge(history)
    assert [a.type for a in findings.anomalies] == ["phantom"]
    assert "Topic b" in findings.anomalies[0].explanation


def test_a_failed_creation_must_not_show(history: Any) -> None:
    history.did(0, "create", "a", key="a", kind="fail")
    finals(history, "a")
    assert [a.type for a in judge(history)[0].anomalies] == ["phantom"]


def test_two_creations_of_one_topic_cannot_both_succeed(history: Any) -> None:
    history.did(0, "create", "a", key="a")
    history.did(0, "create", "a", key="a")
    finals(history, "a")
    assert [a.type for a in judge(history)[0].anomalies] == ["nonlinearizable"]


def test_indeterminate_changes_are_allowed_either_way(history: Any) -> None:
    history.did(0, "create", "a", key="a", kind="info")
    history.did(1, "create", "b", key="b")
    history.did(2, "delete", "b", key="b", kind="info")
    history.did(3, "delete", "c", key="c", kind="info")
    history.did(4, "read", saw=["b"])
    history.did(4, "read", saw=["a", "b"])
    finals(history, "a")
    findings, doubts = judge(history)
    assert (findings.anomalies, doubts) == ([], [])


def test_an_indeterminate_change_happens_once(history: Any) -> None:
    history.did(0, "create", "a", key="a", kind="info")
    history.did(1, "read", saw=["a"])
    history.did(1, "delete", "a", key="a")
    finals(history, "a")
    assert [a.type for a in judge(history)[0].anomalies] == ["resurrected"]


def test_a_missing_final_read_is_unknown(
    history: Any, cluster: Any, make_run: Callable[..., Any]
) -> None:
    history.did(0, "create", "t", key="t")
    for node in ("n1", "n3"):
        history.did(0, "read", saw=["t"], node=node, final=True)
    history.did(0, "read", node="n2", final=True, kind="fail")
    result = topics.check(make_run(history, cluster))
    assert (result.valid, result.error) == ("unknown", "no complete final read from n2")
    history.did(0, "read", saw=["t"], node="n2", final=True)
    assert topics.check(make_run(history, cluster)).valid is True
    history.did(0, "read", saw=[], node="n2", final=True)
    assert topics.check(make_run(history, cluster)).valid is False


def test_many_reads_that_say_the_same_are_not_searched(history: Any) -> None:
    history.did(0, "create", "a", key="a")
    for _ in range(500):
        history.did(1, "read", saw=["a"])
    finals(history, "a")
    assert topics.judge(pair(history.ops), NODES)[2]["observations_searched"] <= 4


@st.composite
def concurrent_histories(draw: st.DrawFn) -> list[Op]:
    """Changes of one topic by two clients, reads by three, overlapping as it comes."""
    ops: list[Op] = []
    open_ops: dict[int, Op] = {}
    process_of = list(range(5))

    def add(process: int, kind: Any, f: str, value: Any) -> Op:
        key = None if f == "read" else "a"
        op = Op(
            index=len(ops), process=process, type=kind, f=f, key=key, value=value, time=len(ops)
        )
        ops.append(op)
        return op

    for thread in draw(st.lists(st.integers(0, 4), min_size=4, max_size=44)):
        process = process_of[thread]
        begun = open_ops.pop(process, None)
        if begun is None:
            f = draw(st.sampled_from(["create", "delete"])) if thread < 2 else "read"
            open_ops[process] = add(process, "invoke", f, None if f == "read" else "a")
        elif begun.f == "read":
            add(process, "ok", "read", ["a"] if draw(st.booleans()) else [])
        else:
            kind = draw(st.sampled_from(["ok", "ok", "info", "fail"]))
            add(process, kind, begun.f, "a")
            if kind == "info":
                process_of[thread] += 5
    return ops


def _all_reads(reads: topics.Reads, seen: Any, own: list[Call]) -> list[Call]:
    return [topics._observation(c, bool(p)) for c, p in zip(reads.calls, seen, strict=True)]


@settings(max_examples=600, deadline=None)
@given(concurrent_histories())
def test_leaving_reads_out_never_changes_the_verdict(ops: list[Op]) -> None:
    calls = pair(ops)
    quick = topics.judge(calls, [])[0].counts
    with patch.object(topics, "_telling_reads", _all_reads):
        slow = topics.judge(calls, [])[0].counts
    assert bool(quick) == bool(slow)
