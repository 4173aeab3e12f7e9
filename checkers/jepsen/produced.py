"""Sends and polls of records: Jepsen's model of a log, once its end has been read.

A run whose clients had a configuration of the user's names it (``client`` in ``test.json``), and
each anomaly names the properties that allow it.

Without a completed final poll nothing is known of records that nobody has polled. The records of
keys whose loss was legal (``lost_keys`` in the run's fault model) are not judged: an election was
unclean, or all disks of an in-sync set lost their power.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import msgspec

from kraftwreck.checkers import modelled
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.operation import OK, Op
from kraftwreck.histories.verdict import CheckerResult

MODEL = modelled.by_model("kafka")


def check(run: RunData) -> CheckerResult:
    """Judge the sends and polls of a run."""
    if not any(op.f == "poll" and op.type == OK and op.final for op in run.ops):
        return CheckerResult(valid="unknown", error="no poll has read the log to its end")
    lost = frozenset(str(key) for key in run.test.get("fault_model", {}).get("lost_keys", ()))
    if not lost:
        return _explained(modelled.parse(MODEL)(run), run.test.get("client"))
    kept = RunData.from_memory([_without(op, lost) for op in run.ops], (), (), (), run.test)
    result = modelled.parse(MODEL)(kept)
    result.stats["lost_keys"] = sorted(lost)
    return result


def _explained(result: CheckerResult, client: Mapping[str, Any] | None) -> CheckerResult:
    """Return ``result`` with the configuration of the run's clients, and for each anomaly the
    properties that allow it: it stays a violation."""
    if client is None:
        return result
    result.stats["client"] = {name: value for name, value in client.items() if name != "risks"}
    risks, file = client.get("risks", {}), client.get("file")
    for anomaly in result.anomalies:
        if whys := risks.get(anomaly.type):
            given = f" Properties: {file}." if file else ""
            anomaly.explanation += f" The configuration allows it ({'; '.join(whys)}).{given}"
    return result


def _without(op: Op, lost: Set[str]) -> Op:
    """Return ``op`` without the sends to keys in ``lost``, and without what it polled of them."""
    if op.f == "assign" and isinstance(op.value, list):
        value: list[Any] = [key for key in op.value if str(key) not in lost]
    elif op.f in ("send", "poll") and isinstance(op.value, list):
        value = [kept for move in op.value if (kept := _move(move, lost)) is not None]
    else:
        return op
    return msgspec.structs.replace(op, value=value)


def _move(move: Any, lost: Set[str]) -> Any:
    match move:
        case ["send", key, _] if str(key) in lost:
            return None
        case ["poll", dict() as polled]:
            return ["poll", {key: pairs for key, pairs in polled.items() if str(key) not in lost}]
    return move
