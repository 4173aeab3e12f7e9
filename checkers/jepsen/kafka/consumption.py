"""How often subscribed consumers polled each value (jepsen.tests.kafka)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from kraftwreck.checkers.jepsen.judgement import name
from kraftwreck.checkers.jepsen.kafka.operations import Operation


def consume_counts(operations: list[Operation]) -> dict[str, Any]:
    """Count, per process, the polls of each value since it subscribed."""
    subscribed: set[int | None] = set()
    counts: Counter[tuple[int | None, str, Hashable]] = Counter()
    for operation in operations:
        if operation.type != "ok":
            continue
        process = operation.event.process
        if operation.f == "subscribe":
            subscribed.add(process)
        elif process in subscribed:
            for key, pairs in operation.reads.items():
                counts.update((process, key, value) for _, value in pairs)
    repeated: dict[str, dict[str, int]] = {}
    for (_, key, value), count in counts.items():
        if count > 1:
            there = repeated.setdefault(key, {})
            there[name(value)] = max(there.get(name(value), 0), count)
    distribution = Counter(counts.values())
    return {
        "distribution": {str(count): distribution[count] for count in sorted(distribution)},
        "dup-counts": repeated,
    }
