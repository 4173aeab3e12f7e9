"""Coverage per test as data for the page's script, whose heat maps follow the filter."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

from kraftwreck.reports.store.coverage import Part, Reached, states_of

MAX_PARTS = 500
"""Data is sent for the tests with the most runs; the others count as unknown tests."""


def coverage_data(reached: Reached, names: Sequence[str]) -> dict[str, Any]:
    """Return fault classes, states, and per test its runs and coverage, as bits.

    Bit ``i * len(names) + j`` of the first text means that class ``j`` began after class ``i``.
    Bit ``i * len(states) + k`` of the second means that class ``i`` hit a node in state ``k``.
    Bits are counted from the lowest of the first byte; texts are base64.
    """
    states = states_of(reached)
    told = sorted(
        ((test, part) for test, part in reached.parts.items() if test is not None),
        key=lambda each: -each[1].runs,
    )
    left = sum(part.runs for _, part in told[MAX_PARTS:])
    whole = reached.parts.get(None, Part())
    fault = {name: number for number, name in enumerate(names)}
    state = {name: number for number, name in enumerate(states)}

    def bits(part: Part) -> list[str]:
        pairs = (fault[a] * len(names) + fault[b] for a, b in part.pairs)
        struck = (fault[f] * len(states) + state[s] for s, f in part.struck)
        return [_bits(pairs, len(names) ** 2), _bits(struck, len(names) * len(states))]

    return {
        "classes": list(names),
        "states": states,
        "untold": whole.runs + left,
        "tests": [
            [t.system, t.workload, t.faults, t.cluster, int(t.planted), part.runs, *bits(part)]
            for t, part in told[:MAX_PARTS]
        ],
    }


def _bits(numbers: Iterable[int], size: int) -> str:
    found = bytearray(-(-size // 8))
    for number in numbers:
        found[number >> 3] |= 1 << (number & 7)
    return b64encode(bytes(found).rstrip(b"\0")).decode()
