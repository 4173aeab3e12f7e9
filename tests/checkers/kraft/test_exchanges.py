"""Which states of the log an answer may speak of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.controller_model.exchanges import Commits
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.histories.message import Message

SECOND = 1_000_000_000


@pytest.mark.parametrize("second", [1, 1.5, 2])
def test_a_commit_at_the_time_of_the_answer_counts_despite_a_slow_clock(
    quorum: Any, make_run: Callable[..., Any], second: float
) -> None:
    quorum.one_epoch()
    quorum.time = second / 2
    quorum.append("n1", 1)
    quorum.commit("n1")
    end = quorum.at["n1"]["hw"]
    told = next(event.mono for event in quorum.events if event.hw == end)
    # Of 2.5 s the clock counted 1.25 s, one microsecond of which is lost in rounding.
    halved = {"offset_us": 0, "samples": [[0, 0], [2_500_000, 1_249_999]]}
    clocks = {"n1": halved, "n2": {"offset_us": 0}, "n3": {"offset_us": 0}}
    commits = Commits(Evidence(make_run(None, quorum, clock=clocks)))
    at = 2 * told * 1000
    same = Message(at, 9, 1, "DeleteTopics", {}, {}, sent=at - SECOND // 1000)
    exchange = commits.exchange(same)
    assert exchange is not None
    assert exchange.high == end
    before = commits.exchange(Message(at - 20_000, 9, 1, "DeleteTopics", {}, {}, sent=0))
    assert before is not None
    assert before.high < end


def test_commits_count_from_the_earliest_trace_though_events_are_listed_node_by_node(
    quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    quorum.append("n2", 1)
    quorum.time += 1
    quorum.copy("n2", "n1")
    written = next(e.mono for e in quorum.events if e.kind == "append" and e.node == "n2")
    quorum.commit("n2")
    committed = quorum.events[-1].mono
    end = quorum.at["n2"]["hw"]
    quorum.time += 1
    quorum.commit("n1")
    commits = Commits(Evidence(make_run(None, quorum, ordered=False)))
    assert commits.when(end) is not None
    assert commits.when(end) <= committed * 1000
    last_append = max(e.mono for e in quorum.events if e.kind == "append" and e.node == "n2")
    assert written <= last_append
    assert commits.written(end) == last_append * 1000
