"""Which states of the log an answer may speak of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.checkers.kraft.controller_model.exchanges import Commits
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.recorded.capture import Capture
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


def test_the_clock_of_a_node_decides_what_its_answers_may_show(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    """In its own input log no commit is before or after an answer by an error of clocks."""
    quorum.one_epoch()
    capture.own_inputs = True
    quorum.time = 2
    before = quorum.at["n1"]["hw"]
    quorum.append("n1", 1)
    quorum.commit("n1")
    end, at = quorum.at["n1"]["hw"], quorum.events[-1].mono * 1000
    commits = Commits(Evidence(make_run(None, quorum, capture=capture)))

    def ends(sent: int, time: int) -> tuple[int, int] | None:
        exchange = commits.exchange(Message(time, 9, 1, "DeleteTopics", {}, {}, sent=sent))
        return None if exchange is None else (exchange.low, exchange.high)

    assert ends(at - 3000, at - 1000) == (before, before)
    assert ends(at - 1000, at) == (before, end)
    assert ends(at, at + 1000) == (before, end), "the request may have come first in its step"
    assert ends(at + 1000, at + 1000) == (end, end)


def test_an_answer_after_the_end_of_its_nodes_trace_does_not_count(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    capture.own_inputs = True
    last = max(event.mono for event in quorum.events if event.node == "n1") * 1000
    for time in (last, last + 1000):
        capture.api(time, -1, 1, "DeleteTopics", {}, {}, last - 1000)
    kept, cut = Evidence(make_run(None, quorum, capture=capture)).sequence
    assert (kept.response, kept.time, kept.sent) == ({}, last, last - 1000)
    assert (cut.response, cut.time, cut.sent) == (None, last - 1000, -1)


def test_a_request_and_its_answer_are_two_steps_of_the_node_that_answers(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    capture.own_inputs = True
    last = max(event.mono for event in quorum.events if event.node == "n1") * 1000
    capture.api(last, -1, 1, "DeleteTopics", {}, {}, last - 500)
    steps = Evidence(make_run(None, quorum, capture=capture)).steps
    assert {last - 500, last} <= set(steps[1])
    assert -1 not in steps


@pytest.mark.parametrize(("life", "known"), [(0, False), (1, False), (2, True), (3, False)])
def test_what_was_committed_when_a_process_started_is_known_if_its_start_is(
    quorum: Any, make_run: Callable[..., Any], life: int, known: bool
) -> None:
    """The first one started before any commit."""
    quorum.one_epoch()
    quorum.time = 1
    quorum.start("n2")
    quorum.event("n2", "hw")
    committed = quorum.at["n1"]["hw"]
    commits = Commits(Evidence(make_run(None, quorum)))
    assert commits.at_start("n2", life) == (committed if known else 0)


@pytest.mark.parametrize(("before_ns", "counts"), [(4_000, True), (4_001, False)])
def test_a_commit_counts_4_microseconds_before_its_time(
    quorum: Any, make_run: Callable[..., Any], before_ns: int, counts: bool
) -> None:
    """Where clocks run as fast as the test's. Times are rounded to microseconds twice."""
    quorum.one_epoch()
    quorum.time = 1
    quorum.append("n1", 1)
    quorum.commit("n1")
    end = quorum.at["n1"]["hw"]
    told = next(event.mono for event in quorum.events if event.hw == end) * 1000
    commits = Commits(Evidence(make_run(None, quorum)))
    answer = Message(told - before_ns, 9, 1, "DeleteTopics", {}, {}, sent=0)
    exchange = commits.exchange(answer)
    assert exchange is not None
    assert (exchange.high == end) is counts
