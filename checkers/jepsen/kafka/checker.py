"""The verdict over a history of sends and polls.

Options: ``sub-via`` (a list; with ``subscribe`` consumers may be rebalanced between
operations, so skips and repeats across operations are allowed), ``ww-deps``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options
from kraftwreck.checkers.jepsen.kafka.consumption import consume_counts
from kraftwreck.checkers.jepsen.kafka.cycles import find_cycles
from kraftwreck.checkers.jepsen.kafka.lag import worst_lag
from kraftwreck.checkers.jepsen.kafka.logs import read_logs
from kraftwreck.checkers.jepsen.kafka.losses import (
    aborted_reads,
    certainly_unseen,
    conflicts,
    duplicates,
    lost_writes,
    precommitted_reads,
    unseen,
    unwritten,
)
from kraftwreck.checkers.jepsen.kafka.operations import CALLS, read_operations
from kraftwreck.checkers.jepsen.kafka.order import across, within
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly, Validity

ALLOWED = frozenset(
    {
        # Sends of several producers interleave, in transactions too.
        "int-send-skip",
        "G0",
        "G0-process",
        "G0-realtime",
        "PL-1-cycle-exists",
        "strong-PL-1-cycle-exists",
    }
)
_WITH_SUBSCRIBE = frozenset({"poll-skip", "nonmonotonic-poll"})
_WITH_WW = frozenset(
    {"G1c", "G1c-process", "G1c-realtime", "PL-2-cycle-exists", "strong-PL-2-cycle-exists"}
)
_WORDS = {
    "duplicate": "One value has several offsets",
    "inconsistent-offsets": "One offset has several values",
    "lost-write": "A value was certainly sent and later ones were polled, but it never was",
    "unseen": "Values were certainly sent, but not polled when the history ended",
    "G1a": "A value was polled although its send failed",
    "precommitted-read": "A transaction polled a value that it had sent itself",
    "unwritten": "A value was polled that no operation tried to send",
    "int-poll-skip": "One operation skipped a value of the log between two polls",
    "int-nonmonotonic-poll": "One operation polled a value that is not after the one before",
    "int-nonmonotonic-send": "One operation's sends are not in their order in the log",
    "poll-skip": "A process skipped a value of the log between two polls",
    "nonmonotonic-poll": "A process polled a value that is not after the one before",
    "nonmonotonic-send": "A process's sends are not in their order in the log",
    "empty-transaction-graph": "No operation depends on another, so nothing is proven",
}
_SHOWN = 3


def check(events: Iterable[Event], options: Options) -> Judgement:
    """Look for all errors; allowed ones are reported too."""
    operations = read_operations(events)
    logs = read_logs(operations)
    found: dict[str, Any] = {
        "duplicate": duplicates(logs),
        "inconsistent-offsets": conflicts(logs),
        "precommitted-read": precommitted_reads(operations),
        "G1a": aborted_reads(operations, logs),
        "unwritten": unwritten(logs),
        "lost-write": lost_writes(logs),
        "unseen": unseen(operations),
        **within(operations, logs),
        **across(operations, logs),
        **find_cycles(operations, logs, bool(options.get("ww-deps"))),
    }
    errors = {kind: found[kind] for kind in sorted(found) if found[kind]}
    allowed = set(ALLOWED)
    if "subscribe" in (options.get("sub-via") or ()):
        allowed |= _WITH_SUBSCRIBE
    if options.get("ww-deps"):
        allowed |= _WITH_WW
    if not certainly_unseen(found["unseen"]):
        allowed.add("unseen")
    bad = [kind for kind in errors if kind not in allowed]
    valid: Validity = not bad
    if bad == ["empty-transaction-graph"]:
        valid = "unknown"
    result: dict[str, Any] = {
        "valid?": valid,
        "error-types": list(errors),
        "bad-error-types": bad,
        "errors": errors,
        "worst-realtime-lag": worst_lag(operations),
        "consume-counts": consume_counts(operations),
        "info-txn-causes": _causes(operations),
    }
    anomalies = [_anomaly(kind, errors[kind]) for kind in bad if valid is False]
    error = _WORDS["empty-transaction-graph"] if valid == "unknown" else None
    return Judgement(result=result, anomalies=anomalies, error=error)


def _causes(operations: Iterable[Any]) -> list[Any]:
    causes: list[Any] = []
    for operation in operations:
        cause = operation.event.error
        if operation.type == "info" and operation.f in CALLS and cause not in causes:
            causes.append(cause)
    return causes


def _anomaly(kind: str, errors: Any) -> Anomaly:
    listed = errors if isinstance(errors, list) else [errors]
    words = _WORDS.get(kind, f"Operations depend on each other in a cycle ({kind})")
    cases = []
    for error in listed[:_SHOWN] if kind != "empty-transaction-graph" else ():
        if "key" in error:
            what = error.get("value", error.get("values", error.get("skipped")))
            cases.append(f"key {error['key']}: {what}")
        elif "unseen" in error:
            cases += [f"key {key}: {count}" for key, count in error["unseen"].items()]
    more = f", … ({len(listed)} in all)" if len(listed) > _SHOWN else ""
    shown = f" ({'; '.join(cases)}{more})" if cases else ""
    return Anomaly(type=kind, explanation=f"{words}{shown}.", operations=_indices(listed))


def _indices(errors: Any) -> list[int]:
    """Gather the operations that an error names."""
    places: set[int] = set()
    stack = [errors]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if isinstance(item.get("op-index"), int):
                places.add(item["op-index"])
            stack += item.values()
        elif isinstance(item, list):
            stack += item
    return sorted(places)
