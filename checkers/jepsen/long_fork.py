"""jepsen.tests.long-fork: two reads must not see two writes in opposite order.

Writes are transactions ``[["w", k, v]]``, each key written once; reads are transactions of
``["r", k, v]``. The reads of one group of keys must form a chain: of any two, one sees all
that the other sees. Option ``group-size``: how many keys every read has (else any number).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import combinations, pairwise
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options, name, unknown
from kraftwreck.checkers.linearizability.models import freeze
from kraftwreck.histories.events import Event
from kraftwreck.histories.verdict import Anomaly

_LISTED = 1000


def check(events: Iterable[Event], options: Options) -> Judgement:
    """Compare all reads of each group of keys."""
    size = options.get("group-size")
    written: set[Hashable] = set()
    twice: Hashable | None = None
    groups: dict[frozenset[Hashable], list[tuple[Event, dict[Hashable, Hashable]]]] = {}
    count = early = late = 0
    fault: str | None = None
    for event in events:
        if event.type == "invoke" and _is_write(event.value):
            key = freeze(event.value[0][1])
            if key in written and twice is None:
                twice = key
            written.add(key)
        elif event.type == "ok" and _is_read(event.value):
            count += 1
            seen = {freeze(mop[1]): freeze(mop[2]) for mop in event.value}
            early += all(value is None for value in seen.values())
            late += all(value is not None for value in seen.values())
            if size and len(seen) != size:
                fault = fault or (
                    f"{event.where()}: every read should see exactly {size} keys, "
                    f"this one saw {len(seen)}"
                )
            groups.setdefault(frozenset(seen), []).append((event, seen))
    counts: dict[str, Any] = {
        "reads-count": count,
        "early-read-count": early,
        "late-read-count": late,
    }
    if twice is not None:
        return unknown(f"key {name(twice)} is written more than once", **counts)
    if fault is not None:
        return unknown(fault, **counts)
    forks: list[tuple[Event, Event]] = []
    for group, reads in groups.items():
        values: dict[Hashable, Hashable] = {}
        for event, seen in reads:
            for key, value in seen.items():
                if value is not None and values.setdefault(key, value) != value:
                    return unknown(
                        f"{event.where()}: key {name(key)} has two values, "
                        "but each key may be written only once",
                        **counts,
                    )
        forks += _forks(group, reads)
    result = {**counts, "valid?": not forks}
    if forks:
        result["forks"] = [
            [{"op-index": a.index}, {"op-index": b.index}] for a, b in forks[:_LISTED]
        ]
        result["fork-count"] = len(forks)
    anomalies = [
        Anomaly(
            type="long-fork",
            explanation=(
                f"The reads {a.index} and {b.index} each see a write that the other does not see."
            ),
            operations=[a.index, b.index],
        )
        for a, b in forks[:_LISTED]
    ]
    return Judgement(result=result, anomalies=anomalies)


def _is_read(value: Any) -> bool:
    return bool(value) and _is_transaction(value) and all(mop[0] == "r" for mop in value)


def _is_write(value: Any) -> bool:
    return _is_transaction(value) and len(value) == 1 and value[0][0] == "w"


def _is_transaction(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(m, list) and len(m) == 3 for m in value)


def _forks(
    group: frozenset[Hashable], reads: list[tuple[Event, dict[Hashable, Hashable]]]
) -> list[tuple[Event, Event]]:
    """Return one pair of reads for each two sets of writes that are no chain."""
    bit = {key: 1 << position for position, key in enumerate(group)}
    first: dict[int, Event] = {}
    for event, seen in reads:
        mask = sum(bit[key] for key, value in seen.items() if value is not None)
        first.setdefault(mask, event)
    ordered = sorted(first, key=int.bit_count)
    if all(a & b == a for a, b in pairwise(ordered)):
        return []
    return [
        (first[a], first[b]) if first[a].index < first[b].index else (first[b], first[a])
        for a, b in combinations(ordered, 2)
        if a & b != a
    ]
