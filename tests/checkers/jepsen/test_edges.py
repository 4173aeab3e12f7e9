"""Comparisons of Jepsen's checkers, judged right at their edges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from kraftwreck.checkers.catalogue import Settings, find
from kraftwreck.checkers.jepsen.judgement import quantiles, some
from kraftwreck.checkers.jepsen.kafka.cycles import _shortest
from kraftwreck.histories.events import Event
from kraftwreck.histories.source import Events, HistoryFile


def test_a_balance_of_zero_is_not_below_zero(judge: Any, done: Any) -> None:
    rows = done(0, "read", None, {"0": 10, "1": 0})
    assert judge("bank", rows, accounts=[0, 1], total_amount=10).result.valid is True


@pytest.mark.parametrize(("count", "more"), [(16, False), (17, True)])
def test_an_explanation_says_how_many_elements_it_leaves_out(count: int, more: bool) -> None:
    assert (f"({count} in all)" in some(range(count))) is more


def test_the_last_quantile_is_the_greatest_value() -> None:
    assert quantiles([7]) == dict.fromkeys(("0", "0.5", "0.95", "0.99", "1"), 7)
    assert quantiles([8, 7]) == {"0": 7, "0.5": 8, "0.95": 8, "0.99": 8, "1": 8}
    assert quantiles(range(1, 101)) == {"0": 1, "0.5": 51, "0.95": 96, "0.99": 100, "1": 100}


def test_an_offset_at_the_last_event_is_not_repeated(tmp_path: Path) -> None:
    rows = [
        {"process": "nemesis", "type": "info", "f": "check-offsets", "time": 10**9 * second,
         "clock-offsets": {"n1": 0.5}}
        for second in (1, 3)
    ]  # fmt: skip
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    details = find("clock").judge(HistoryFile(path), Settings()).details
    assert details["offsets"] == {"n1": [[1.0, 0.5], [3.0, 0.5]]}


@pytest.mark.parametrize("matches", [1000, 1001])
def test_a_thousand_matches_in_logs_are_listed_and_all_are_counted(
    tmp_path: Path, matches: int
) -> None:
    (tmp_path / "history.jsonl").write_text("")
    (tmp_path / "nodes/n1").mkdir(parents=True)
    (tmp_path / "nodes/n1/stdout.log").write_text("panic\n" * matches)
    details = (
        find("log-file-pattern")
        .judge(HistoryFile(tmp_path / "history.jsonl"), Settings(options={"pattern": "panic"}))
        .details
    )
    assert (details["count"], len(details["matches"])) == (matches, 1000)


def test_2000_characters_of_a_line_are_listed(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text("")
    (tmp_path / "nodes/n1").mkdir(parents=True)
    (tmp_path / "nodes/n1/stdout.log").write_text("panic" * 1000)
    settings = Settings(options={"pattern": "panic"})
    found = find("log-file-pattern").judge(HistoryFile(tmp_path / "history.jsonl"), settings)
    [match] = found.details["matches"]
    assert len(match["line"]) == 2000


def test_48_ids_that_came_twice_are_listed(judge: Any, done: Any) -> None:
    rows = [row for value in [*range(49)] * 2 for row in done(0, "generate", None, value)]
    details = judge("unique-ids", rows).details
    assert (details["duplicated-count"], len(details["duplicated"])) == (49, 48)


def test_1000_forks_are_listed(judge: Any) -> None:
    keys = range(46)
    rows = []
    for seen in keys:
        mops = [["r", key, 1 if key == seen else None] for key in keys]
        rows += [(0, "invoke", "read", [["r", key, None] for key in keys])]
        rows += [(0, "ok", "read", mops)]
    details = judge("long-fork", rows).details
    assert (details["fork-count"], len(details["forks"])) == (46 * 45 // 2, 1000)


def test_the_8_elements_that_were_stale_longest_are_listed(judge: Any, done: Any) -> None:
    elements = list(range(9))
    rows = [row for element in elements for row in done(0, "add", element)]
    rows += done(1, "read", None, [])
    rows += done(1, "read", None, elements)
    details = judge("set-full", rows).details
    assert (details["stale-count"], len(details["worst-stale"])) == (9, 8)


def test_an_empty_read_before_all_writes_lacks_nothing(judge: Any, done: Any) -> None:
    assert judge("causal-reverse", done(0, "read", None, [])).result.valid is True


def test_only_the_elements_that_a_read_has_twice_are_duplicated(judge: Any, done: Any) -> None:
    rows = [*done(0, "add", 1), *done(0, "add", 2), *done(0, "read", None, [1, 2, 2])]
    assert judge("set-full", rows).details["duplicated"] == {"2": 2}


# --- values that never decrease -------------------------------------------------------------------


def rows_of(*rows: tuple[int, int]) -> list[dict[str, int]]:
    return [{"val": value, "sts": time, "proc": 0, "node": 0, "tb": 0} for value, time in rows]


def test_two_rows_may_have_one_time_but_not_one_value(judge: Any, done: Any) -> None:
    added = [*done(0, "add", {"val": 1}), *done(0, "add", {"val": 2})]
    one_time = judge("monotonic", [*added, *done(1, "read", None, rows_of((1, 5), (2, 5)))])
    assert one_time.details["order-by-errors"] == []
    assert one_time.result.valid is True
    one_value = judge("monotonic", [*added, *done(1, "read", None, rows_of((2, 5), (2, 6)))])
    assert len(one_value.details["value-reorders"]) == 1


def test_a_number_may_be_read_twice_and_a_lower_one_is_held_against_the_first(
    judge: Any, done: Any
) -> None:
    reads = [row for value in (5, 5, 4) for row in done(0, "read", None, value)]
    assert judge("monotonic", reads[:4]).result.valid is True
    assert judge("monotonic", reads[:4], linearizable=True).result.valid is True
    later = judge("monotonic", reads, linearizable=True)
    assert later.details["errors"] == [[{"op-index": 1}, {"op-index": 5}]]


def test_of_all_values_read_before_the_greatest_one_counts(judge: Any, done: Any) -> None:
    reads = [row for value in (1, 3, 2) for row in done(0, "read", None, value)]
    report = judge("monotonic", reads, linearizable=True)
    assert report.details["errors"] == [[{"op-index": 3}, {"op-index": 5}]]


# --- elements of a set ----------------------------------------------------------------------------


def at_times(*rows: tuple[str, str, Any, int]) -> Events:
    """Return events of one process: type, kind, value, and nanoseconds."""
    return Events(
        [
            Event(index=index, process=0, type=kind, f=f, value=value, time=time)  # type: ignore[arg-type]
            for index, (kind, f, value, time) in enumerate(rows)
        ]
    )


@pytest.mark.parametrize(("begun", "latency"), [(999_998, 0), (999_999, 1)])
def test_an_element_appears_one_nanosecond_after_the_last_read_without_it_at_the_earliest(
    begun: int, latency: int
) -> None:
    history = at_times(
        ("invoke", "add", 1, 0), ("ok", "add", 1, 0),
        ("invoke", "read", None, begun), ("ok", "read", [], 10**6),
        ("invoke", "read", None, 10**7), ("ok", "read", [1], 10**7),
    )  # fmt: skip
    details = find("set-full").judge(history, Settings()).details
    assert details["stable-latencies"]["1"] == latency


@pytest.mark.parametrize(("begun", "latency"), [(999_998, 0), (999_999, 1)])
def test_an_element_is_lost_one_nanosecond_after_the_last_read_with_it_at_the_earliest(
    begun: int, latency: int
) -> None:
    history = at_times(
        ("invoke", "add", 1, 0), ("ok", "add", 1, 0),
        ("invoke", "read", None, begun), ("ok", "read", [1], 10**6),
        ("invoke", "read", None, 10**7), ("ok", "read", [], 10**7),
    )  # fmt: skip
    details = find("set-full").judge(history, Settings()).details
    assert details["lost-latencies"]["1"] == latency


# --- sends and polls ------------------------------------------------------------------------------


def sent(process: int, key: str, offset: int, value: int) -> list[Any]:
    return [
        (process, "invoke", "send", [["send", key, value]]),
        (process, "ok", "send", [["send", key, [offset, value]]]),
    ]


def polled(process: int, key: str, *pairs: tuple[int, int]) -> list[Any]:
    moves = [["poll", {key: [list(pair) for pair in pairs]}]]
    return [(process, "invoke", "poll", [["poll"]]), (process, "ok", "poll", moves)]


@pytest.mark.parametrize(("count", "more"), [(3, False), (4, True)])
def test_three_errors_of_a_kind_are_named(judge: Any, count: int, more: bool) -> None:
    rows = polled(1, "x", *((number, number) for number in range(count)))
    [anomaly] = [a for a in judge("kafka", rows).result.anomalies if a.type == "unwritten"]
    assert (f"({count} in all)" in anomaly.explanation) is more


def test_values_polled_once_are_no_repetitions(judge: Any, done: Any) -> None:
    rows = [*sent(0, "x", 0, 1), *sent(0, "x", 1, 2), *done(1, "subscribe", ["x"])]
    rows += [*polled(1, "x", (0, 1), (1, 2)), *polled(1, "x", (1, 2))]
    assert judge("kafka", rows).details["consume-counts"] == {
        "distribution": {"1": 1, "2": 1},
        "dup-counts": {"x": {"2": 2}},
    }


def test_of_two_polls_with_the_same_lag_the_first_is_reported(judge: Any) -> None:
    rows = [*sent(0, "x", 0, 1), *sent(0, "y", 0, 2), *polled(1, "x", (0, 1))]
    assert judge("kafka", rows).details["worst-realtime-lag"]["lag"] == 0
    later = judge("kafka", [*rows, *polled(2, "y", (0, 2))])
    assert later.details["worst-realtime-lag"]["process"] == 1


def test_a_value_at_the_first_offset_proves_that_another_one_there_is_lost(judge: Any) -> None:
    rows = [*sent(1, "x", 1, 7), *sent(2, "x", 1, 8), *polled(3, "x", (1, 7))]
    (lost,) = judge("kafka", rows).details["errors"]["lost-write"]
    assert (lost["value"], lost["max-read-index"]) == (8, 0)
    assert lost["max-read"] == {"op-index": 5}


def test_exactly_the_values_between_two_polls_are_skipped(judge: Any) -> None:
    rows = [row for at in range(4) for row in sent(0, "x", at, 10 + at)]
    rows += polled(1, "x", (0, 10), (1, 11), (2, 12), (3, 13))
    errors = judge("kafka", [*rows, *polled(2, "x", (0, 10), (3, 13))]).details["errors"]
    assert [error["skipped"] for error in errors["int-poll-skip"]] == [[11, 12]]


@pytest.mark.parametrize("between", [0, 1, 2, 3])
def test_a_value_polled_before_it_was_sent_is_a_cycle_whatever_happened_between(
    judge: Any, between: int
) -> None:
    rows = polled(1, "x", (0, 7))
    rows += [row for at in range(between) for row in sent(2, "y", at, at)]
    errors = judge("kafka", [*rows, *sent(3, "x", 0, 7)]).details["errors"]
    (cycle,) = errors["G1c-realtime"]
    assert [step["type"] for step in cycle["steps"]] == ["wr", "realtime"]


def edges(*pairs: tuple[int, int]) -> Any:
    return dict.fromkeys(pairs, ("wr", "x", 1, None))


def test_of_two_shortest_cycles_the_first_is_shown() -> None:
    there_and_back = edges((0, 1), (1, 0))
    assert _shortest(nx.DiGraph(list(there_and_back)), [0, 1], there_and_back) == [0, 1]


@pytest.mark.parametrize(("before", "length"), [(63, 2), (64, 70)])
def test_the_shortest_cycle_is_sought_through_64_dependencies(before: int, length: int) -> None:
    ring = [(number, (number + 1) % 70) for number in range(70)]
    short = (5, 4)
    ordered = edges(*ring[6 : 6 + before], short)
    graph = nx.DiGraph([*ring, short])
    assert len(_shortest(graph, list(range(70)), ordered)) == length


@pytest.mark.parametrize("count", [8, 9])
def test_eight_cycles_of_a_kind_are_listed(judge: Any, count: int) -> None:
    rows: list[Any] = []
    for number in range(count):
        x, y = f"x{number}", f"y{number}"
        one = [["send", x, [0, 1]], ["poll", {y: [[0, 2]]}]]
        other = [["send", y, [0, 2]], ["poll", {x: [[0, 1]]}]]
        rows += [(process, "invoke", "txn", []) for process in (0, 1)]
        rows += [(0, "ok", "txn", one), (1, "ok", "txn", other)]
    errors = judge("kafka", rows).details["errors"]
    assert (len(errors["G1c"]), len(errors["PL-2-cycle-exists"])) == (8, count)
