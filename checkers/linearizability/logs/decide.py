"""Decides whether the operations on a log have an order.

The offset of an append is its place among the appends. An append without a known offset gets the
one at which its value was seen. An append that was not seen and may not have happened is left out,
unless it must fill a gap: whole reads show that offsets have none. An append that happened gets a
free offset (:mod:`checkers.linearizability.logs.room`).
Levels: ``4n`` a size of n, and seeing nothing at n; ``4n + 1`` the append at n; ``4n + 2``
seeing it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kraftwreck.checkers.linearizability.logs.levels import Placed, contradiction, order_of
from kraftwreck.checkers.linearizability.logs.operations import NOWHERE, LogOperations
from kraftwreck.checkers.linearizability.logs.room import hand_out
from kraftwreck.checkers.linearizability.zones.operations import Flags, Ints


class AmbiguousError(Exception):
    """Several appends of one value may be the one that was seen: a search has to decide."""


@dataclass(frozen=True)
class Verdict:
    """``fault`` names the error and the calls that show it.

    ``order`` makes a legal order of the calls, if there is one.
    """

    fault: tuple[str, list[int]] | None
    order: Callable[[], Ints]


def decide(log: LogOperations) -> Verdict:
    """Decide one log. Raises :class:`AmbiguousError`."""
    offsets, fault = _offsets(log)
    if fault is not None:
        return Verdict(fault, _none)
    placed, calls = _place(log, offsets)
    if _room_needed(log, offsets):
        # Only appends that are not dropped may fill a gap.
        mine = np.flatnonzero((offsets == NOWHERE) & (_sure(log) | log.dense))
        taken = offsets[offsets != NOWHERE]
        ends, sure = log.append_end[mine], _sure(log)[mine]
        given, stuck = hand_out(log.append_start[mine], ends, sure, placed, taken, log.dense)
        if stuck is not None:
            if stuck < len(mine):
                return Verdict(("room", [int(log.append_call[mine[stuck]])]), _none)
            return Verdict(("hole", _above_hole(log, offsets)), _none)
        offsets[mine] = given
        placed, calls = _place(log, offsets)
    found = contradiction(placed)
    if found is not None:
        late, early = found
        return Verdict(("order", [int(calls[early]), int(calls[late])]), _none)

    def order() -> Ints:
        # A call that saw several offsets comes where the last of them allows it.
        whole = calls[order_of(placed)][::-1]
        _, last = np.unique(whole, return_index=True)
        return whole[np.sort(last)][::-1]

    return Verdict(None, order)


def _sure(log: LogOperations) -> Flags:
    return log.append_end < log.never


def _room_needed(log: LogOperations, offsets: Ints) -> bool:
    """Whether an append certainly has an unknown offset, or an offset needs an append."""
    if bool(((offsets == NOWHERE) & _sure(log)).any()):
        return True
    end = max(int(offsets.max(initial=-1)) + 1, int(log.size.max(initial=0)))
    return log.dense and int((offsets != NOWHERE).sum()) < end


def _above_hole(log: LogOperations, offsets: Ints) -> list[int]:
    """Return the calls above the first offset that no append can have."""
    known = np.flatnonzero(offsets != NOWHERE)
    order = known[np.argsort(offsets[known], kind="stable")]
    missing = np.flatnonzero(offsets[order] != np.arange(len(order)))
    if len(missing):
        return [int(log.append_call[order[missing[0]]])]
    return [int(log.size_call[np.argmax(log.size)])]


def _none() -> Ints:
    return np.zeros(0, np.int64)


def _offsets(log: LogOperations) -> tuple[Ints, tuple[str, list[int]] | None]:
    """Return the offset of every append, or a contradiction."""
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
    known = offsets[near] == log.point_offset[seen] if len(order) else np.zeros(len(seen), np.bool_)
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
    where, what = log.point_offset[points], log.point_value[points]
    order = np.argsort(where, kind="stable")
    points, where, what = points[order], where[order], what[order]
    again = where[1:] == where[:-1]
    unlike = np.flatnonzero(again & (what[1:] != what[:-1]))
    if len(unlike):
        pair = points[unlike[0]], points[unlike[0] + 1]
        return offsets, ("two-values", [int(log.point_call[p]) for p in pair])
    first = np.concatenate([np.ones(min(len(where), 1), np.bool_), ~again])
    points, where, what = points[first], where[first], what[first]
    unplaced = np.flatnonzero(offsets == NOWHERE)
    waiting = unplaced[np.isin(log.append_value[unplaced], what)]
    waiting = waiting[np.argsort(log.append_value[waiting], kind="stable")]
    values = log.append_value[waiting]
    if (values[1:] == values[:-1]).any():
        raise AmbiguousError
    at = np.searchsorted(values, what)
    near = np.minimum(at, max(len(values) - 1, 0))
    found = values[near] == what if len(values) else np.zeros(len(what), np.bool_)
    twice = np.sort(what)
    missing = np.flatnonzero(~found)
    if len(missing):
        value = int(what[missing[0]])
        kind = "aborted" if value in set(log.failed.tolist()) else "phantom"
        return offsets, (kind, [int(log.point_call[points[missing[0]]])])
    if (twice[1:] == twice[:-1]).any():
        # One append, seen at two offsets.
        value = int(twice[1:][twice[1:] == twice[:-1]][0])
        places = points[what == value][:2]
        return offsets, ("two-offsets", [int(log.point_call[p]) for p in places])
    offsets[waiting[near]] = where
    return offsets, None


def _place(log: LogOperations, offsets: Ints) -> tuple[Placed, Ints]:
    """Return all operations that bind, by level, and their calls."""
    kept = offsets != NOWHERE
    every = np.ones(int(kept.sum()), np.bool_)
    nothing = log.point_value == NOWHERE
    return (
        Placed(
            np.concatenate(
                [
                    4 * offsets[kept] + 1,
                    4 * log.point_offset + np.where(nothing, 0, 2),
                    4 * log.size,
                ]
            ),
            np.concatenate([log.append_start[kept], log.point_start, log.size_start]),
            np.concatenate([log.append_end[kept], log.point_end, log.size_end]),
            np.concatenate([every, nothing, np.ones(len(log.size), np.bool_)]),
            np.concatenate([every, ~nothing, np.ones(len(log.size), np.bool_)]),
        ),
        np.concatenate([log.append_call[kept], log.point_call, log.size_call]),
    )
