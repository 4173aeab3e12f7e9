"""The periods in which faults were in force, and when clients were served after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftwreck.histories.fault import FaultEvent

Ints = npt.NDArray[np.int64]
FOREVER = 1 << 62


def joined(faults: Iterable[FaultEvent]) -> list[tuple[FaultEvent, FaultEvent | None]]:
    """Return every fault's start with its end, None for one that never ended."""
    ends: list[tuple[FaultEvent, FaultEvent | None]] = []
    begun: dict[int, int] = {}
    for fault in faults:
        if fault.phase == "start":
            begun[fault.id] = len(ends)
            ends.append((fault, None))
        elif fault.id in begun:
            place = begun.pop(fault.id)
            ends[place] = (ends[place][0], fault)
    return ends


def fault_windows(faults: Iterable[FaultEvent]) -> list[tuple[int, int, str]]:
    """Return (from, to, kind) of every fault, ns; one that never ended lasts forever."""
    return [
        (start.time, FOREVER if end is None else end.done, start.kind)
        for start, end in joined(faults)
    ]


def name_windows(windows: list[tuple[int, int, str]], moments: Ints) -> pa.Array:
    """Name the kinds of faults in force at each of ``moments``: "kill+pause", "none"."""
    changes: dict[int, Counter[str]] = {}
    for begin, end, kind in windows:
        if end > begin:
            changes.setdefault(begin, Counter())[kind] += 1
            changes.setdefault(end, Counter())[kind] -= 1
    names, codes = ["none"], [0]
    known = {"none": 0}
    active: Counter[str] = Counter()
    edges = sorted(changes)
    for edge in edges:
        active.update(changes[edge])
        name = "+".join(sorted(kind for kind, count in active.items() if count > 0)) or "none"
        if name not in known:
            known[name] = len(names)
            names.append(name)
        codes.append(known[name])
    place = np.searchsorted(np.array(edges, np.int64), moments, side="right")
    chosen = np.array(codes, np.int32)[place]
    return pa.DictionaryArray.from_arrays(pa.array(chosen), pa.array(names)).cast(pa.string())


def first_served(after: Iterable[int | None], invoked: Ints, completed: Ints) -> list[int | None]:
    """Return, for each moment, when the first operation invoked since then was served.

    ``invoked`` and ``completed`` are of the operations that were served. The result is None if
    there is no response, or no moment.
    """
    order = np.argsort(invoked, kind="stable")
    begun = invoked[order]
    # The earliest response to any operation invoked here or later.
    best = np.minimum.accumulate(completed[order][::-1])[::-1]
    found: list[int | None] = []
    for moment in after:
        place = len(begun) if moment is None else int(np.searchsorted(begun, moment))
        found.append(int(best[place]) if place < len(begun) else None)
    return found


def earliest(parts: Iterable[Any], size: int) -> list[int | None]:
    """Merge the results of :func:`first_served` for parts of one history."""
    merged: list[int | None] = [None] * size
    for part in parts:
        for place, moment in enumerate(part or ()):
            known = merged[place]
            if moment is not None and (known is None or moment < known):
                merged[place] = moment
    return merged
