"""Acknowledged records must be read at the end; errors of librdkafka say what became of a send."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_records import PARTITIONS, WORKLOAD, check, failed

from kraftwreck.checkers.recorded.run_data import RunData
from tests.checkers.rows import Row, done, history


def sent(process: int, value: int, offset: int, kind: str = "ok") -> list[Row]:
    """A send to partition 0."""
    asked = [["send", 0, value]]
    saw = [["send", 0, [offset, value]]] if kind == "ok" else asked
    return [(process, "invoke", "send", asked), (process, kind, "send", saw)]


def polled(*pairs: list[int]) -> list[Row]:
    return done(9, "poll", [["poll"]], [["poll", {"0": list(pairs)}]])


def verdict(*rows: list[Row]) -> Any:
    run = RunData.from_memory(history(row for part in rows for row in part), [], [], [], {})
    result = check(run)
    return result.valid, {anomaly.type for anomaly in result.anomalies}


def test_all_that_was_acknowledged_was_read() -> None:
    lost = sent(3, 7, 2, "info")
    assert verdict(sent(1, 5, 0), sent(2, 6, 1), lost, polled([0, 5], [1, 6])) == (True, set())
    assert verdict(sent(1, 5, 0), lost, polled([0, 5], [1, 7])) == (True, set())


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        ([[0, 5]], {"unseen"}),
        ([[0, 5], [2, 7]], {"lost-write", "unseen"}),
        ([[0, 5], [1, 7], [2, 6]], {"inconsistent-offsets", "duplicate"}),
        ([[0, 5], [1, 6], [2, 7], [3, 5]], {"duplicate"}),
        ([[0, 5], [1, 6], [2, 7], [3, 8]], {"unwritten"}),
    ],
)
def test_lost_repeated_reordered_and_invented_records_are_found(
    pairs: list[list[int]], found: set[str]
) -> None:
    valid, kinds = verdict(sent(1, 5, 0), sent(1, 6, 1), sent(1, 7, 2), polled(*pairs))
    assert valid is False
    assert found <= kinds


def test_records_in_another_order_than_they_were_sent_are_found() -> None:
    rows = (sent(1, 5, 0), sent(1, 6, 2), sent(1, 7, 1))
    assert verdict(*rows, polled([0, 5], [1, 7], [2, 6])) == (False, {"nonmonotonic-send"})


def test_a_record_that_was_refused_must_not_be_read() -> None:
    assert verdict(sent(1, 5, 0, "fail"), polled([0, 5]))[0] is False


def test_without_a_poll_to_the_end_nothing_is_known() -> None:
    unread = [(9, "invoke", "poll", [["poll"]]), (9, "fail", "poll", None)]
    assert verdict(sent(1, 5, 0), unread) == ("unknown", set())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("MSG_SIZE_TOO_LARGE", "fail"),
        ("_QUEUE_FULL", "fail"),
        ("NOT_ENOUGH_REPLICAS", "info"),
        ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "info"),
        ("NOT_LEADER_FOR_PARTITION", "info"),
        ("_MSG_TIMED_OUT", "info"),
        ("_TRANSPORT", "info"),
        ("_FATAL", "info"),
    ],
)
def test_only_a_certain_refusal_is_a_fail(error: str, kind: str) -> None:
    assert failed(error, "why").type == kind


def test_values_are_unique_and_partitions_are_all_used() -> None:
    plans = [WORKLOAD.plan(1, thread, count) for thread in range(5) for count in range(200)]
    sends = [plan.value[0] for plan in plans]
    assert len({value for _, _, value in sends}) == len(sends)
    assert {partition for _, partition, _ in sends} == set(range(PARTITIONS))
