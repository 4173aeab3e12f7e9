"""Several checkers over one run: the worst verdict wins, and none hides another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers import stats
from kraftwreck.checkers.kraft import recovery
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import CHECKERS, check, compares_nodes
from kraftwreck.histories.tables import HISTORY_SCHEMA, TRACE_SCHEMA, HistoryError
from kraftwreck.histories.verdict import Anomaly, CheckerResult
from tests.checkers.breaks import findings


def boom(run: RunData) -> CheckerResult:
    raise RuntimeError("the checker has a bug")


def test_a_checker_that_raises_is_unknown_and_hides_no_other(
    history: Any, make_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHECKERS, "boom", boom)
    history.did(0, "read", saw=1, key="k")
    verdict = check(make_run(history, workload="register"), ["boom", "linearizable"])
    assert verdict.valid is False
    assert verdict.checkers["boom"].valid == "unknown"
    assert verdict.checkers["boom"].error == "RuntimeError: the checker has a bug"
    assert verdict.checkers["linearizable"].valid is False


@compares_nodes("I1")
def against(run: RunData) -> CheckerResult:
    kind = str(run.test.get("kind", "I5"))
    return CheckerResult(valid=False, anomalies=[Anomaly(type=kind, explanation="no votes")])


def test_findings_without_the_records_of_a_node_are_no_proof(
    make_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHECKERS, "conformance", against)
    monkeypatch.setitem(CHECKERS, "linearizable", lambda run: against(run))
    run = make_run()
    assert check(run, ["conformance"]).valid is False
    run.test["uncollected"] = ["n2"]
    verdict = check(run, ["conformance", "linearizable"])
    doubted = verdict.checkers["conformance"]
    assert doubted.valid == "unknown"
    assert doubted.error is not None
    assert "without the records of n2" in doubted.error
    assert len(doubted.anomalies) == 1, "people may look at it all the same"
    assert verdict.checkers["linearizable"].valid is False, "by what clients were told alone"
    run.test["kind"] = "I1"
    assert check(run, ["conformance"]).valid is False, "what the others recorded proves it alone"


def _always(result: CheckerResult, run: RunData) -> CheckerResult:
    return result


def test_a_finding_that_two_checkers_share_is_listed_by_the_first(
    make_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, equal = (Anomaly(type="I1", explanation="two lead") for _ in range(2))
    for name, found in (("first", [shared]), ("second", [shared, equal])):
        result = CheckerResult(valid=False, anomalies=found)
        monkeypatch.setitem(CHECKERS, name, partial(_always, result))
    checkers = check(make_run(), ["first", "second"]).checkers
    assert [len(checkers[name].anomalies) for name in ("first", "second")] == [1, 1]
    assert checkers["second"].anomalies[0] is equal, "equal words do not make it the same"
    assert checkers["second"].valid is False


def test_an_unknown_name_is_unknown(make_run: Callable[..., Any]) -> None:
    verdict = check(make_run(), ["nonsense"])
    assert verdict.valid == "unknown"
    assert "no checker 'nonsense'; there are conformance, drained" in str(
        verdict.checkers["nonsense"].error
    )


def test_a_checker_that_an_older_run_names_is_skipped(make_run: Callable[..., Any]) -> None:
    assert list(check(make_run(None), ["partitions", "stats"]).checkers) == ["stats"]


def test_a_history_that_makes_no_sense_is_unknown_for_all(
    history: Any, make_run: Callable[..., Any]
) -> None:
    history.invoke(0, "read")
    history.invoke(0, "read")
    verdict = check(make_run(history), ["stats", "linearizable"])
    assert verdict.valid == "unknown"
    assert "operation 1: process 0 invokes read" in str(verdict.checkers["stats"].error)


def test_a_run_folder_gives_the_same_as_memory(
    tmp_path: Path, history: Any, traces: Any, make_run: Callable[..., Any]
) -> None:
    traces.one_epoch()
    history.did(0, "create", "a")
    for node in traces.logs:
        history.did(0, "read", saw=["a"], node=node, final=True)
    run = make_run(history, traces, ordered=False)
    (tmp_path / "test.json").write_bytes(msgspec.json.encode(run.test))
    lines = b"".join(msgspec.json.encode(op) + b"\n" for op in run.ops)
    (tmp_path / "history.jsonl").write_bytes(lines + b'{"index": 99, "torn')
    for image in run.images:
        node = tmp_path / "nodes" / image.node
        log = node / "images" / "final" / "__cluster_metadata-0"
        log.mkdir(parents=True)
        (log / f"{0:020d}.log").write_bytes(image.log[:100])
        (log / f"{2:020d}.log").write_bytes(image.log[100:])
        (log / "quorum-state").write_bytes(msgspec.json.encode(image.quorum_state))
        own = [event for event in run.events if event.node == image.node]
        data = b"".join(msgspec.json.encode(event) + b"\n" for event in own)
        (node / "trace.jsonl").write_bytes(data)
    again = RunData.from_folder(tmp_path)
    names = ["stats", "topics", "invariants"]
    assert check(again, names) == check(run, names)
    assert check(again, names).valid is True
    assert again.images == run.images
    assert again.history.schema == HISTORY_SCHEMA
    assert again.trace.schema == TRACE_SCHEMA
    assert again.history == run.history


def test_a_folder_without_a_test_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"test\.json: No such file"):
        RunData.from_folder(tmp_path)
    (tmp_path / "test.json").write_text("{")
    with pytest.raises(HistoryError, match=r"test\.json: "):
        RunData.from_folder(tmp_path)


# --- stats --------------------------------------------------------------------------------


def test_stats_count_by_kind_and_outcome(history: Any, make_run: Callable[..., Any]) -> None:
    history.did(0, "read", saw=1)
    history.did(0, "read", kind="fail", value=None)
    history.did(0, "write", 1)
    history.did(1, "write", 2, kind="info")
    result = stats.check(make_run(history))
    assert result.valid is True
    assert result.stats["by_f"]["write"] == {
        "count": 2, "ok": 1, "fail": 0, "info": 1, "ok_rate": 0.5,
    }  # fmt: skip
    assert result.stats["count"] == 4


def test_a_kind_that_never_succeeded_was_not_tested(
    history: Any, make_run: Callable[..., Any]
) -> None:
    history.did(0, "read", saw=1)
    history.did(0, "write", 1, kind="fail")
    result = stats.check(make_run(history))
    assert (result.valid, result.error) == (
        "unknown",
        "never succeeded, so not tested: write",
    )
    assert stats.check(make_run()).valid == "unknown"
    for error in ("refused", "no such field", "no such field"):
        history.invoke(0, "write", 1)
        history.end(0, "fail", error=error)
    result = stats.check(make_run(history))
    assert result.stats["errors"] == {"no such field": 2, "refused": 1}
    assert str(result.error).endswith("not tested: write; the most frequent error: no such field")


def test_operations_that_are_not_required_may_always_be_refused(
    history: Any, make_run: Callable[..., Any]
) -> None:
    history.did(0, "read", saw=1)
    history.did(0, "cancel", 1, kind="fail")
    result = stats.check(make_run(history, owed=["read", "create"]))
    assert (result.valid, result.error) == (True, None)
    assert result.stats["never"] == ["cancel"]
    history.did(0, "create", 1, kind="fail")
    result = stats.check(make_run(history, owed=["read", "create"]))
    assert (result.valid, result.error) == (
        "unknown",
        "never succeeded, so not tested: create",
    )


# --- recovery -----------------------------------------------------------------------------


def test_success_soon_after_the_last_fault(
    history: Any, make_run: Callable[..., Any], make_fault: Callable[..., Any]
) -> None:
    faults = make_fault(1, "kill", 1, 5, "n1")
    history.time = 8
    history.did(0, "write", 1)
    result = recovery.check(make_run(history, faults=faults))
    assert result.valid is True
    assert result.stats["first_success_after_s"] == pytest.approx(3.002)


def test_no_success_for_the_whole_bound(
    history: Any, make_run: Callable[..., Any], make_fault: Callable[..., Any]
) -> None:
    faults = make_fault(1, "kill", 1, 5, "n1")
    history.did(0, "write", 1)
    for second in range(6, 40, 2):
        history.time = second
        history.did(0, "write", 1, kind="fail")
        history.did(0, "leader")
    run = make_run(history, faults=faults)
    assert [finding.type for finding in findings(run, recovery.check)] == ["no-recovery"]
    assert recovery.check(run).valid == "unknown", "the limit is what a valid run promises"
    history.time = 41
    history.did(0, "write", 1)
    (late,) = findings(make_run(history, faults=faults), recovery.check)
    assert "the first success came after 35" in late.explanation


def test_time_without_operations_does_not_count(
    history: Any, make_run: Callable[..., Any], make_fault: Callable[..., Any]
) -> None:
    # Seed 10357: a slow disk caught up for half a minute, and final reads wait for that.
    faults = make_fault(1, "kill", 1, 5, "n1")
    history.time = 40
    history.did(0, "write", 1)
    result = recovery.check(make_run(history, faults=faults))
    assert result.valid is True
    assert result.stats["first_success_after_s"] == pytest.approx(35.002)


def test_too_short_a_look_is_unknown(
    history: Any, make_run: Callable[..., Any], make_fault: Callable[..., Any]
) -> None:
    faults = make_fault(1, "kill", 1, 5, "n1")
    history.did(0, "write", 1)
    result = recovery.check(make_run(history, faults=faults))
    assert (result.valid, result.error) == (
        "unknown",
        "no operation was tried after the last fault ended",
    )
    history.time = 15
    history.did(0, "write", 1, kind="info")
    result = recovery.check(make_run(history, faults=faults))
    assert result.valid == "unknown"
    assert "only 0.0 s were watched" in (result.error or "")


def test_a_fault_that_never_ended_is_unknown(
    history: Any, make_run: Callable[..., Any], make_fault: Callable[..., Any]
) -> None:
    history.did(0, "write", 1)
    result = recovery.check(make_run(history, faults=make_fault(4, "pause", 1, None, "n1")))
    assert (result.valid, result.error) == ("unknown", "never ended: pause one (4)")


def test_a_healed_cluster_that_the_harness_never_saw_ready_is_suspected(
    history: Any, make_run: Callable[..., Any], make_fault: Callable[..., Any]
) -> None:
    history.time = 8
    history.did(0, "write", 1)
    run = make_run(history, faults=make_fault(1, "kill", 1, 5, "n1"))
    run.test["unrecovered"] = "partitions without a leader: t-0 after 30 s"
    assert recovery.check(run).valid == "unknown"
    (finding,) = findings(run, recovery.check)
    assert finding.type == "no-recovery"
    assert "partitions without a leader: t-0 after 30 s" in finding.explanation
