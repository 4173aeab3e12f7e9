"""FIFO queues, decided by sorting if all enqueued values are distinct.

After Henzinger, Sezgin and Vafeiadis (CONCUR 2013) and Bouajjani, Emmi, Enea and Hamza (ICALP
2015). Such a history has no order iff one of these holds. A value is dequeued that was not enqueued
(or only later), or is dequeued twice. Or a was enqueued before b, and b dequeued before a. Or a
dequeue saw an empty queue although at each of its moments some value was certainly in the queue.
The verdict is invalid only with such a proof, and valid only with an order; all other cases are
left to the search.

1. An indeterminate enqueue of a value that was never dequeued is left out. Indeterminate dequeues
   are assigned to values that must have been dequeued, the earliest to the first of them.
2. Value v is certainly in the queue from ``lo``, its first end, to ``hi``, its last start. A
   dequeue that saw the queue empty is placed at its first moment outside of all such intervals. It
   divides the values into those before and those after it.
3. Between two such moments values pass one after the other. v may be next if no other remaining
   value ended its enqueue, or its dequeue, before v began the same. Each then happens as early as
   it can.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from kraftwreck.checkers.calls import OPEN, Call
from kraftwreck.checkers.linearizability.models import ModelError, freeze
from kraftwreck.checkers.linearizability.witness import misplaced
from kraftwreck.histories.operation import FAIL, OK

_STAYS = OPEN + 1
"""When a value is dequeued that stays in the queue."""
_SHOWN = 6


@dataclass(frozen=True)
class Decision:
    """``order`` is a legal order of calls; else ``window`` are calls without an order, and ``why``
    explains it. ``phantom``: a dequeued value may have been enqueued later."""

    valid: bool
    order: list[Call]
    window: list[Call]
    why: str = ""
    phantom: bool = False


def unproven(calls: Sequence[Call], order: Sequence[Call]) -> str | None:
    """Return why ``order`` is no legal order of the calls on a queue, or None if it is one."""
    wrong = misplaced(calls, [call.start for call in order], lambda call: True)
    if wrong is not None:
        return wrong
    queue: deque[Hashable] = deque()
    for call in order:
        if call.f == "enqueue":
            queue.append(freeze(call.argument))
        elif call.type == OK and call.value is None:
            if queue:
                return f"call {call.start} saw an empty queue, which holds {queue[0]!r}"
        else:
            first = queue.popleft() if queue else None
            if call.type == OK and first != freeze(call.value):
                return f"call {call.start} dequeued another value than the first, {first!r}"
    return None


@dataclass(slots=True)
class _Value:
    """A value's enqueue and dequeue, with the moments between which each may happen."""

    put: Call
    taken: Call | None
    put_start: int
    put_end: int
    taken_start: int
    taken_end: int

    @property
    def lo(self) -> int:
        return min(self.put_end, self.taken_end)

    @property
    def hi(self) -> int:
        return max(self.put_start, self.taken_start)

    @property
    def calls(self) -> list[Call]:
        return [self.put] if self.taken is None else [self.put, self.taken]


def decide(calls: Sequence[Call]) -> Decision | None:
    """Decide a history of ``enqueue`` and ``dequeue``; None if sorting does not decide it.

    Raises :class:`~checkers.linearizability.models.ModelError` for other operations.
    """
    puts: dict[Hashable, Call] = {}
    takes: dict[Hashable, Call] = {}
    empties: list[Call] = []
    loose: list[Call] = []
    again: tuple[Call, Call] | None = None
    for call in calls:
        if call.f not in ("enqueue", "dequeue"):
            raise ModelError(f"operation {call.start}: fifo-queue has no operation {call.f!r}")
        if call.type == FAIL:
            continue
        if call.f == "enqueue":
            value = freeze(call.argument)
            if value in puts:
                return None
            puts[value] = call
        elif call.type != OK:
            loose.append(call)
        elif call.value is None:
            empties.append(call)
        else:
            value = freeze(call.value)
            if value in takes:
                again = again or (takes[value], call)
            else:
                takes[value] = call
    if again is not None:
        return _refused("was dequeued twice, but enqueued once", *again)
    for value, taken in takes.items():
        put = puts.get(value)
        if put is None:
            why = f"{taken.value!r} was dequeued, but never enqueued"
            return Decision(False, [], [taken], why, phantom=True)
        if taken.end < put.start:
            return _refused("was dequeued before it was enqueued", taken, put)
    values = []
    for value, put in puts.items():
        taker = takes.get(value)
        if taker is not None:
            values.append(_Value(put, taker, put.start, put.end, taker.start, taker.end))
        elif put.type == OK:
            values.append(_Value(put, None, put.start, put.end, _STAYS, _STAYS))
    if not empties:
        refused = _hand_out(values, loose)
        return refused or _ordered(values, [])
    found = _ordered(values, empties)
    unsure = loose and any(value.taken is None for value in values)
    return None if unsure and found is not None and not found.valid else found


def _refused(why: str, *window: Call) -> Decision:
    call = window[0]
    value = call.argument if call.f == "enqueue" else call.value
    return Decision(False, [], list(window), f"{value!r} {why}")


def _sooner(one: _Value, other: _Value) -> _Value:
    return other if other.taken_end < one.taken_end else one


def _later(one: _Value, other: _Value) -> _Value:
    return other if other.taken_start > one.taken_start else one


def _hand_out(values: list[_Value], loose: list[Call]) -> Decision | None:
    """Give indeterminate dequeues to values that must have left (1)."""
    gone = sorted((v for v in values if v.taken is not None), key=lambda v: v.put_start)
    starts = [value.put_start for value in gone]
    first = list(accumulate(reversed(gone), _sooner))
    first.reverse()
    waiting = []
    for value in values:
        if value.taken is None:
            at = bisect_left(starts, value.put_end)
            if at < len(gone):
                waiting.append((first[at].taken_end, value.put_start, value, first[at]))
    waiting.sort(key=lambda entry: entry[:2])
    takers = sorted(loose, key=lambda call: call.start)
    for number, (until, _, value, behind) in enumerate(waiting):
        if number >= len(takers) or takers[number].start > until:
            return Decision(
                False, [], [*value.calls, *behind.calls],
                f"{value.put.argument!r} was enqueued before {behind.put.argument!r}, which was "
                "dequeued, and no call can have dequeued it by then",
            )  # fmt: skip
        taker = takers[number]
        value.taken, value.taken_start, value.taken_end = taker, taker.start, OPEN
    return None


def _ordered(values: list[_Value], empties: list[Call]) -> Decision | None:
    """Order all values, or return some that have no order (2, 3)."""
    moments: list[tuple[int, Call]] = []
    held = sorted((v for v in values if v.lo < v.hi), key=lambda v: v.lo)
    lows = [value.lo for value in held]
    reach = list(accumulate((value.hi for value in held), max))
    for call in empties:
        moment = call.start
        at = bisect_left(lows, moment) - 1
        while at >= 0 and reach[at] > moment:
            moment = reach[at]
            if moment > call.end:
                return _covered(call, held)
            at = bisect_left(lows, moment) - 1
        moments.append((moment, call))
    moments.sort(key=lambda entry: (entry[0], entry[1].start))
    bounds = [moment for moment, _ in moments]
    segments: dict[int, list[_Value]] = {}
    for value in values:
        segments.setdefault(bisect_right(bounds, value.lo), []).append(value)
    placed: list[tuple[int, int, int, int, Call]] = [
        (moment, 2 * number + 1, 0, 0, call) for number, (moment, call) in enumerate(moments)
    ]
    for number, members in segments.items():
        least = bounds[number - 1] if number else -1
        order = _queue(members, least)
        if order is None:
            return _crossed(members)
        put = taken = least
        for rank, value in enumerate(order):
            put = max(put, value.put_start)
            placed.append((put, 2 * number, rank, 0, value.put))
            if value.taken is not None:
                taken = max(taken, put, value.taken_start)
                placed.append((taken, 2 * number, rank, 1, value.taken))
    placed.sort(key=lambda entry: entry[:4])
    return Decision(True, [entry[4] for entry in placed], [])


def _queue(values: list[_Value], least: int) -> list[_Value] | None:
    """Return the values in the order in which they pass through the queue (3)."""
    by_start = sorted(values, key=lambda v: v.put_start)
    by_put = sorted(values, key=lambda v: v.put_end)
    by_taken = sorted(values, key=lambda v: v.taken_end)
    gone: set[int] = set()
    ready: list[tuple[int, int, _Value]] = []
    order: list[_Value] = []
    begun = put = taken = 0
    while len(order) < len(values):
        while id(by_put[put]) in gone:
            put += 1
        while id(by_taken[taken]) in gone:
            taken += 1
        while begun < len(values) and by_start[begun].put_start < by_put[put].put_end:
            value = by_start[begun]
            heapq.heappush(ready, (max(value.hi, least), begun, value))
            begun += 1
        if not ready or ready[0][0] > by_taken[taken].taken_end:
            return None
        value = heapq.heappop(ready)[2]
        gone.add(id(value))
        order.append(value)
    return order


def _crossed(values: list[_Value]) -> Decision | None:
    """Find two values that were enqueued and dequeued in opposite orders."""
    by_put = sorted(values, key=lambda v: v.put_end)
    ends = [value.put_end for value in by_put]
    last = list(accumulate(by_put, _later))
    for value in sorted(values, key=lambda v: v.taken_end):
        at = bisect_left(ends, value.put_start) - 1
        if at < 0 or last[at].taken_start <= value.taken_end:
            continue
        first = last[at]
        if first.taken is not None and first.taken.type != OK:
            return None  # another indeterminate dequeue may be possible
        late = "was never dequeued" if first.taken is None else "was dequeued after it"
        return Decision(
            False, [], [*first.calls, *value.calls],
            f"{first.put.argument!r} was enqueued before {value.put.argument!r}, but {late}",
        )  # fmt: skip
    return None


def _covered(call: Call, held: list[_Value]) -> Decision:
    """Return the values of which one was in the queue at every moment of ``call``."""
    chain: list[_Value] = []
    moment = call.start
    while moment <= call.end:
        value = max((v for v in held if v.lo < moment), key=lambda v: v.hi)
        chain.append(value)
        moment = value.hi
    names = ", ".join(repr(value.put.argument) for value in chain[:_SHOWN])
    more = ", …" if len(chain) > _SHOWN else ""
    window = [call, *(c for value in chain for c in value.calls)]
    return Decision(
        False, [], window,
        f"a dequeue saw an empty queue, although {names}{more} was in it at each of its moments",
    )  # fmt: skip
