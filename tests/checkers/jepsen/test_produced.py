"""The log at the end of a run of sends and polls."""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.jepsen.produced import check
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.operation import Op


def history(*rows: tuple[int, Any, Any, Any, Any], final: bool = True) -> list[Op]:
    """Rows are (process, type, f, value, whether it is final)."""
    ops: list[Op] = []
    for process, kind, f, value, last in rows:
        ops.append(
            Op(
                index=len(ops),
                process=process,
                type=kind,
                f=f,
                value=value,
                time=len(ops),
                final=bool(last) and final,
            )
        )
    return ops


SENT: tuple[tuple[int, Any, Any, Any, Any], ...] = (
    (0, "invoke", "send", [["send", 1, 10]], 0),
    (0, "ok", "send", [["send", 1, [0, 10]]], 0),
    (0, "invoke", "send", [["send", 2, 20]], 0),
    (0, "ok", "send", [["send", 2, [0, 20]]], 0),
)


def read(polled: dict[str, Any]) -> tuple[tuple[int, Any, Any, Any, Any], ...]:
    return (
        (1, "invoke", "poll", [["poll"]], 1),
        (1, "ok", "poll", [["poll", polled]], 1),
    )


CLIENT = {
    "name": "librdkafka",
    "file": "mine.properties",
    "properties": {"acks": "1"},
    "risks": {"unseen": ["acks=1: the leader alone has it"]},
}


def test_a_loss_that_the_configuration_allows_is_one_and_names_the_property() -> None:
    rows = [*SENT, *read({"2": [[0, 20]]})]
    told = check(RunData.from_memory(history(*rows), (), (), (), {"client": CLIENT}))
    assert told.valid is False
    assert "acks=1: the leader alone has it" in told.anomalies[0].explanation
    assert "mine.properties" in told.anomalies[0].explanation
    assert told.stats["client"]["properties"] == {"acks": "1"}


def test_a_loss_that_nothing_allows_is_explained_by_nothing() -> None:
    rows = [*SENT, *read({"2": [[0, 20]]})]
    client = {**CLIENT, "risks": {}}
    told = check(RunData.from_memory(history(*rows), (), (), (), {"client": client}))
    assert "configuration" not in told.anomalies[0].explanation


def verdict(rows: Any, lost: list[int], *, final: bool = True) -> Any:
    test = {"fault_model": {"lost_keys": lost}}
    return check(RunData.from_memory(history(*rows, final=final), (), (), (), test))


def test_all_that_was_sent_is_there() -> None:
    assert verdict([*SENT, *read({"1": [[0, 10]], "2": [[0, 20]]})], []).valid is True


def test_a_record_that_nobody_reads_is_lost_unless_that_was_legal() -> None:
    rows = [*SENT, *read({"2": [[0, 20]]})]
    assert {each.type for each in verdict(rows, []).anomalies} == {"unseen"}
    assert verdict(rows, [1]).valid is True
    assert {each.type for each in verdict(rows, [2]).anomalies} == {"unseen"}


def test_nothing_is_known_before_the_end_was_read() -> None:
    assert verdict([*SENT, *read({"2": [[0, 20]]})], [], final=False).valid == "unknown"
