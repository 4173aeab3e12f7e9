"""Sends and polls of records: Jepsen's model of a log, once its end has been read.

Without a completed final poll nothing is known of records that nobody has polled. The records of
keys whose loss was legal (``lost_keys`` in the run's fault model) are not judged: an election was
unclean, or all disks of an in-sync set lost their power.
"""

from __future__ import annotations

from collections.abc import Set
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
        return modelled.parse(MODEL)(run)
    kept = RunData.from_memory([_without(op, lost) for op in run.ops], (), (), (), run.test)
    result = modelled.parse(MODEL)(kept)
    result.stats["lost_keys"] = sorted(lost)
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
