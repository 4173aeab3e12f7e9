"""The log of each key, as far as the history shows it.

Offsets have gaps (control records, aborted transactions). An *index* is a place among the
offsets at which something was seen. Sends count only if they certainly took effect: they
ended ``ok``, or ``info`` and some of the same operation was polled. Polls always count:
consumers must never get anything that is not in the log.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from kraftwreck.checkers.jepsen.kafka.operations import CALLS, Operation
from kraftwreck.checkers.linearizability.models import thaw

Values = dict[str, set[Hashable]]


class KeyLog(msgspec.Struct):
    """The log of one key.

    ``offsets`` are the offsets in order, ``values`` the values seen at each (in the order of
    the history), ``by_index`` one value of each, ``by_value`` the index of each value.
    """

    offsets: list[int]
    values: list[list[Hashable]]
    by_index: list[Hashable]
    by_value: dict[Hashable, int]


class Logs(msgspec.Struct):
    """All logs, with the writers and readers of their values."""

    logs: dict[str, KeyLog]
    writer: dict[str, dict[Hashable, Operation]]
    readers: dict[str, dict[Hashable, list[Operation]]]
    read_ok: Values
    failed: Values

    def index(self, key: str, value: Hashable) -> int | None:
        """Return the index of ``value`` in the log of ``key``, None if unknown."""
        log = self.logs.get(key)
        return None if log is None else log.by_value.get(value)

    def between(self, key: str, low: int, high: int) -> list[Any]:
        """Return the values strictly between two indices."""
        return [thaw(value) for value in self.logs[key].by_index[low + 1 : high]]

    def committed(self, operation: Operation) -> bool:
        """Return whether a send certainly took effect."""
        if operation.type == "ok":
            return True
        return operation.type == "info" and any(
            value in self.read_ok.get(key, ())
            for key, pairs in operation.writes.items()
            for _, value in pairs
        )


def read_logs(operations: list[Operation]) -> Logs:
    """Gather the logs from all completions."""
    found = Logs({}, {}, {}, {}, {})
    for operation in operations:
        if operation.type == "invoke":
            continue
        for key, pairs in operation.writes.items():
            for _, value in pairs:
                found.writer.setdefault(key, {})[value] = operation
                if operation.type == "fail":
                    found.failed.setdefault(key, set()).add(value)
        for key, pairs in operation.reads.items():
            for _, value in pairs:
                found.readers.setdefault(key, {}).setdefault(value, []).append(operation)
                if operation.type == "ok":
                    found.read_ok.setdefault(key, set()).add(value)
    at: dict[str, dict[int, list[Hashable]]] = {}
    for operation in operations:
        if operation.f not in CALLS:
            continue
        sends = found.committed(operation)
        for _, send, key, (offset, value) in operation.moves:
            if offset is not None and (sends or not send):
                there = at.setdefault(key, {}).setdefault(offset, [])
                if value not in there:
                    there.append(value)
    for key, values_at in at.items():
        offsets = sorted(values_at)
        values = [values_at[offset] for offset in offsets]
        by_index = [there[0] for there in values]
        by_value = {value: index for index, value in enumerate(by_index)}
        found.logs[key] = KeyLog(offsets, values, by_index, by_value)
    return found
