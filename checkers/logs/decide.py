"""Is there an order of the operations on a log?

The offset of an append says where it stands among the appends. An append whose offset nobody
told gets that at which its value was seen. One that nobody saw and that may not have
happened is left out; one that happened stands behind all that whole reads saw, or anywhere
where there are none (offsets have gaps).
Levels: ``4n`` a size of n, and seeing nothing at n; ``4n + 1`` the append at n; ``4n + 2``
seeing it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from checkers.logs.levels import Placed, contradiction, order_of
from checkers.logs.operations import NOWHERE, LogOperations
from checkers.zones.operations import Ints


class AmbiguousError(Exception):
    """Several appends of one value might be what was seen: a search has to decide."""


@dataclass(frozen=True)
class Verdict:
    """``fault`` names what is wrong and the calls that show it; ``order`` are calls."""

    fault: tuple[str, list[int]] | None
    order: Ints


def decide(log: LogOperations) -> Verdict:
    """Decide one log. Raises :class:`AmbiguousError`."""
    offsets, fault = _offsets(log)
    if fault is not None:
        return Verdict(fault, np.zeros(0, np.int64))
    placed, calls = _place(log, offsets)
    found = contradiction(placed)
    if found is not None:
        late, early = found
        return Verdict(("order", [int(calls[early]), int(calls[late])]), np.zeros(0, np.int64))
    # A call that saw several offsets stands where the last of them allows it.
    order = calls[order_of(placed)][::-1]
    _, last = np.unique(order, return_index=True)
    return Verdict(None, order[np.sort(last)][::-1])


def _offsets(log: LogOperations) -> tuple[Ints, tuple[str, list[int]] | None]:
    """Return the offset of every append, or what contradicts another."""
    offsets = log.append_offset.copy()
    told = np.flatnonzero(offsets != NOWHERE)
    order = told[np.argsort(offsets[told], kind="stable")]
    same = np.flatnonzero(offsets[order[1:]] == offsets[order[:-1]])
    if len(same):
        pair = order[same[0]], order[same[0] + 1]
        return offsets, ("one-offset", [int(log.append_call[p]) for p in pair])
    seen = np.flatnonzero(log.point_value != NOWHERE)
    if not len(seen):
        return offsets, None
    at = np.searchsorted(offsets[order], log.point_offset[seen])
    near = order[np.minimum(at, len(order) - 1)] if len(order) else np.zeros(len(seen), np.int64)
    known = (
        (at < len(order)) & (offsets[near] == log.point_offset[seen])
        if len(order)
        else np.zeros(len(seen), np.bool_)
    )
    unlike = known & (log.append_value[near] != log.point_value[seen]) if len(order) else known
    if unlike.any():
        first = int(np.flatnonzero(unlike)[0])
        calls = [int(log.append_call[near[first]]), int(log.point_call[seen[first]])]
        return offsets, ("other-value", calls)
    return _matched(log, offsets, seen[~known])


def _matched(
    log: LogOperations, offsets: Ints, points: Ints
) -> tuple[Ints, tuple[str, list[int]] | None]:
    """Give appends of unknown offset those at which their values were seen."""
    at: dict[int, tuple[int, int]] = {}
    for point in points:
        offset, value = int(log.point_offset[point]), int(log.point_value[point])
        first = at.setdefault(offset, (value, int(point)))
        if first[0] != value:
            calls = [int(log.point_call[first[1]]), int(log.point_call[point])]
            return offsets, ("two-values", calls)
    if not at:
        return offsets, None
    waiting: dict[int, list[int]] = defaultdict(list)
    wanted = {value for value, _ in at.values()}
    for append in np.flatnonzero(offsets == NOWHERE):
        value = int(log.append_value[append])
        if value in wanted:
            waiting[value].append(int(append))
    for candidates in waiting.values():
        # Those that certainly happened have to stand somewhere, so they come first.
        candidates.sort(key=lambda a: log.append_start[a], reverse=True)
    for offset in sorted(at):
        value, point = at[offset]
        if not waiting[value]:
            kind = "aborted" if value in set(log.failed.tolist()) else "phantom"
            return offsets, (kind, [int(log.point_call[point])])
        offsets[waiting[value].pop()] = offset
    return offsets, None


def _place(log: LogOperations, offsets: Ints) -> tuple[Placed, Ints]:
    """Return all that binds, by level, and the calls it belongs to."""
    nowhere = offsets == NOWHERE
    sure = log.append_end < log.never
    end = int(log.size.max()) if len(log.size) else 0
    level = 4 * offsets + 1
    free = nowhere & sure
    if log.dense:
        level[nowhere] = 4 * max(end, int(offsets.max(initial=-1)) + 1) + 1
    else:
        level[nowhere] = 0
    kept = ~nowhere | sure
    binds = ~free if not log.dense else np.ones(len(level), np.bool_)
    nothing = log.point_value == NOWHERE
    return (
        Placed(
            np.concatenate(
                [
                    level[kept],
                    4 * log.point_offset + np.where(nothing, 0, 2),
                    4 * log.size,
                ]
            ),
            np.concatenate([log.append_start[kept], log.point_start, log.size_start]),
            np.concatenate([log.append_end[kept], log.point_end, log.size_end]),
            np.concatenate([binds[kept], nothing, np.ones(len(log.size), np.bool_)]),
            np.concatenate([binds[kept], ~nothing, np.ones(len(log.size), np.bool_)]),
        ),
        np.concatenate([log.append_call[kept], log.point_call, log.size_call]),
    )
