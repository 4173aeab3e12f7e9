"""Values that are lost, aborted, duplicated, in conflict or not yet seen."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import plain_list
from kraftwreck.checkers.jepsen.kafka.logs import KeyLog, Logs
from kraftwreck.checkers.jepsen.kafka.operations import CALLS, Operation
from kraftwreck.checkers.linearizability.models import thaw

Errors = list[dict[str, Any]]


def conflicts(logs: Logs) -> Errors:
    """Find offsets at which more than one value was seen."""
    return [
        {"key": key, "offset": log.offsets[index], "index": index, "values": plain_list(values)}
        for key, log in logs.logs.items()
        for index, values in enumerate(log.values)
        if len(values) > 1
    ]


def duplicates(logs: Logs) -> Errors:
    """Find values that were seen at more than one offset."""
    errors = []
    for key, log in logs.logs.items():
        places: dict[Hashable, list[int]] = {}
        for offset, values in zip(log.offsets, log.values, strict=True):
            for value in values:
                places.setdefault(value, []).append(offset)
        errors += [
            {"key": key, "value": thaw(value), "count": len(offsets), "offsets": offsets}
            for value, offsets in places.items()
            if len(offsets) > 1
        ]
    return errors


def aborted_reads(operations: list[Operation], logs: Logs) -> Errors:
    """Find values that a completed poll returned although their send failed (G1a)."""
    return [
        {
            "key": key,
            "value": thaw(value),
            "writer": logs.writer[key][value].name,
            "reader": operation.name,
        }
        for operation in operations
        if operation.type == "ok" and operation.f in ("txn", "poll")
        for key, pairs in operation.reads.items()
        for _, value in pairs
        if value in logs.failed.get(key, ())
    ]


def precommitted_reads(operations: list[Operation]) -> Errors:
    """Find transactions that polled their own sends."""
    errors = []
    for operation in operations:
        for key, pairs in operation.writes.items():
            own = {value for _, value in pairs}
            seen = [value for _, value in operation.reads.get(key, ()) if value in own]
            if seen:
                errors.append({"op": operation.name, "key": key, "value": thaw(seen[0])})
    return errors


def unwritten(logs: Logs) -> Errors:
    """Find values that were polled although no operation tried to send them."""
    return [
        {"key": key, "value": thaw(value), "reader": readers[0].name}
        for key, values in logs.readers.items()
        for value, readers in values.items()
        if value not in logs.writer.get(key, ())
    ]


def lost_writes(logs: Logs) -> Errors:
    """Find values below the highest polled one that were never polled.

    A value may have several offsets, and an offset several values. The last place of a value
    decides whether it must have been polled; the first decides how far polls have reached.
    """
    errors: Errors = []
    for key, read in logs.read_ok.items():
        log = logs.logs.get(key)
        if log is None:
            continue
        first, last = _places(log)
        bound = max((first[value] for value in read if value in first), default=-1)
        must = [
            value
            for index in range(bound + 1)
            for value in log.values[index]
            if last[value] == index
        ]
        proof = _proof(logs, key, log, last, bound)
        for value in dict.fromkeys(must):
            writer = logs.writer.get(key, {}).get(value)
            if value in read or writer is None or not logs.committed(writer):
                continue
            errors.append(
                {
                    "key": key,
                    "value": thaw(value),
                    "index": first[value],
                    "max-read-index": bound,
                    "writer": writer.name,
                    "max-read": proof,
                }
            )
    return errors


def _places(log: KeyLog) -> tuple[dict[Hashable, int], dict[Hashable, int]]:
    first: dict[Hashable, int] = {}
    last: dict[Hashable, int] = {}
    for index, values in enumerate(log.values):
        for value in values:
            first.setdefault(value, index)
            last[value] = index
    return first, last


def _proof(
    logs: Logs, key: str, log: KeyLog, last: dict[Hashable, int], bound: int
) -> dict[str, int] | None:
    """Return an operation that polled the highest value."""
    if bound < 0:
        return None
    for value in log.values[bound]:
        readers = logs.readers.get(key, {}).get(value)
        if readers and last[value] == bound:
            return readers[0].name
    return None


def unseen(operations: list[Operation]) -> dict[str, Any] | None:
    """Return values that completed operations sent and none polled by the end; None if none.

    Like Jepsen, this also counts values that the last operation polled of keys to which no ``ok``
    operation sent. They have the same names, but ``not-sent`` lists those keys, and it is no error.
    """
    sent: dict[str, dict[Hashable, None]] = {}
    polled: dict[str, set[Hashable]] = {}
    moment = None
    fresh: dict[str, list[Hashable]] = {}
    for operation in operations:
        if operation.type != "ok" or operation.f not in CALLS:
            continue
        moment = operation.event.time
        for key, pairs in operation.writes.items():
            sent.setdefault(key, {}).update(dict.fromkeys(value for _, value in pairs))
        fresh = {
            key: list(dict.fromkeys(value for _, value in pairs))
            for key, pairs in operation.reads.items()
            if key not in sent and key not in polled
        }
        for key, pairs in operation.reads.items():
            polled.setdefault(key, set()).update(value for _, value in pairs)
    left = {
        key: [value for value in values if value not in polled.get(key, ())]
        for key, values in sent.items()
    }
    left = {key: values for key, values in sorted({**left, **fresh}.items()) if values}
    if not left:
        return None
    result: dict[str, Any] = {
        "time": moment,
        "unseen": {key: len(values) for key, values in left.items()},
        "messages": {key: plain_list(values) for key, values in left.items()},
    }
    if fresh:
        result["not-sent"] = sorted(fresh)
    return result


def certainly_unseen(found: dict[str, Any] | None) -> bool:
    """Return whether :func:`unseen` found any value that was certainly sent."""
    return found is not None and set(found["unseen"]) > set(found.get("not-sent", ()))
