"""The search for a linearization of a register, compiled (decision 11).

The algorithm of :mod:`checkers.linearizability.decide` on flat arrays: depth first over
completions, breadth first between them. All state is in the arguments, so a call does a
bounded number of steps. Between two calls the caller may look at the clock and enlarge arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

ANY, PRESENT, SAME, UNKNOWN = -1, -2, -1, -3
"""Values have codes from 0 on. ``UNKNOWN`` is a state: a value that may be any other."""
MORE, VALID, INVALID = 0, 1, 2
ROOM_QUEUE, ROOM_VECTORS, ROOM_TRAIL, ROOM_ENTRIES, ROOM_SEEN = 3, 4, 5, 6, 7
DEPTH, STEPS, VECTORS, TRAIL, DEEPEST, BEST, ENTRIES, FILLED, STATES = range(9)
SCALARS = 9

STATE, MASK, COUNTS, ORDER = range(4)
"""Columns of the queue: a state, the calls placed early (a bit for each), the counts of
indeterminate calls placed (a row of ``vectors``) and the order so far (a row of the trail)."""
CALL, BIT, NEED, RESULT = range(4)
"""Rows of completions, open reads and open writes; a read has no result."""
HEAD, TAIL, LOW = range(3)
"""Columns of the spans, by level: the next configuration in the queue, the end of the queue, and
the next configuration to continue by indeterminate calls."""
BEFORE = 1
"""Column of the trail beside CALL: the row of the call before. Orders share their beginnings."""
PLACE, STATE_THERE, EARLY, FIRST = range(4)
"""Columns of the hash table: a place of the search (-1: none), the state there, the calls placed
early, and the first of the entries."""
NEXT = 1
"""Column of the entries: the next one of the same place. The other column is a row of
``vectors``."""


@njit(cache=True)
def _mix(place: int, state: int, mask: int) -> Any:
    value = (np.uint64(place) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(mask)
    value ^= np.uint64(state) * np.uint64(0xC2B2AE3D27D4EB4F)
    value = (value ^ (value >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return value ^ (value >> np.uint64(32))


@njit(cache=True)
def _slot(seen: Any, place: int, state: int, mask: int) -> Any:
    """Return the index in the table of a place of the search, known or new."""
    size = len(seen) - 1
    at = np.int64(_mix(place, state, mask) & np.uint64(size))
    while seen[at, PLACE] >= 0 and (
        seen[at, PLACE] != place or seen[at, STATE_THERE] != state or seen[at, EARLY] != mask
    ):
        at = (at + 1) & size
    return at


@njit(cache=True)
def rehash(seen: Any, larger: Any) -> None:
    """Fill the empty table ``larger`` from ``seen``."""
    for at in range(len(seen)):
        place = seen[at, PLACE]
        if place >= 0:
            larger[_slot(larger, place, seen[at, STATE_THERE], seen[at, EARLY])] = seen[at]


@njit(cache=True)
def _fresh(
    scalars: Any, seen: Any, entries: Any, vectors: Any,
    place: int, state: int, mask: int, counts: int,
) -> bool:  # fmt: skip
    """Remember a configuration; False if a known one used at most as many calls."""
    at = _slot(seen, place, state, mask)
    if seen[at, PLACE] < 0:
        seen[at, PLACE], seen[at, STATE_THERE] = place, state
        seen[at, EARLY], seen[at, FIRST] = mask, -1
        scalars[FILLED] += 1
    entry = seen[at, FIRST]
    while entry >= 0:
        other = entries[entry, 0]
        better = True
        if other != counts:
            for group in range(vectors.shape[1]):
                if vectors[other, group] > vectors[counts, group]:
                    better = False
                    break
        if better:
            return False
        entry = entries[entry, NEXT]
    entry = scalars[ENTRIES]
    scalars[ENTRIES] = entry + 1
    entries[entry, 0], entries[entry, NEXT] = counts, seen[at, FIRST]
    seen[at, FIRST] = entry
    return True


@njit(cache=True)
def _allowed(state: int, need: int) -> bool:
    if need == ANY:
        return True
    if need == PRESENT:
        return state != 0
    return state == need


@njit(cache=True)
def _room(
    scalars: Any, queue: Any, vectors: Any, trail: Any, seen: Any, entries: Any,
    tail: int, reads: int, writes: int,
) -> int:  # fmt: skip
    """Return which array is too small for one more step, MORE if none is.

    A step places indeterminate calls, at most one of each group, or a completion: all writes that
    are open, the completion itself, and all reads before and after it. It has at most two new
    configurations to remember.
    """
    groups = vectors.shape[1]
    if tail + max(groups, writes + 1) > len(queue):
        return ROOM_QUEUE
    if scalars[VECTORS] + groups > len(vectors):
        return ROOM_VECTORS
    if scalars[TRAIL] + max(groups, 2 * reads + writes + 1) > len(trail):
        return ROOM_TRAIL
    if scalars[ENTRIES] + 2 > len(entries):
        return ROOM_ENTRIES
    if 2 * (scalars[FILLED] + 2) > len(seen):
        return ROOM_SEEN
    return MORE


@njit(cache=True)
def _place(scalars: Any, trail: Any, call: int, before: int) -> Any:
    """Append a call to the order that ends at ``before``; return the new end."""
    at = scalars[TRAIL]
    scalars[TRAIL] = at + 1
    trail[at, CALL], trail[at, BEFORE] = call, before
    return at


@njit(cache=True)
def _push(queue: Any, tail: int, state: int, mask: int, counts: int, order: int) -> int:
    """Write a configuration at the end of the queue; return the new end."""
    queue[tail, STATE], queue[tail, MASK] = state, mask
    queue[tail, COUNTS], queue[tail, ORDER] = counts, order
    return tail + 1


@njit(cache=True)
def _place_reads(
    scalars: Any, trail: Any, reads: Any, first: int, last: int, state: int, mask: int, order: int
) -> Any:
    """Place the reads ``first`` to ``last`` that ``state`` allows; return mask and order."""
    for i in range(first, last):
        if not mask & reads[BIT, i] and _allowed(state, reads[NEED, i]):
            mask |= reads[BIT, i]
            order = _place(scalars, trail, reads[CALL, i], order)
    return mask, order


@njit(cache=True)
def _place_writes(
    scalars: Any, queue: Any, trail: Any, writes: Any, first: int, last: int,
    at: int, bit: int, tail: int,
) -> int:  # fmt: skip
    """Queue the successors of the configuration ``at`` by writes ``first`` to ``last``.

    The write of the completion itself, with ``bit``, is left out. Return the new end of the queue.
    """
    state, mask = queue[at, STATE], queue[at, MASK]
    counts, order = queue[at, COUNTS], queue[at, ORDER]
    for i in range(first, last):
        other = writes[BIT, i]
        if not mask & other and other != bit and _allowed(state, writes[NEED, i]):
            placed = _place(scalars, trail, writes[CALL, i], order)
            tail = _push(queue, tail, writes[RESULT, i], mask | other, counts, placed)
    return tail


@njit(cache=True)
def _place_indeterminate(
    scalars: Any, queue: Any, trail: Any, vectors: Any,
    group_from: Any, group_need: Any, group_result: Any, group_level: Any,
    level: int, at: int, tail: int,
) -> int:  # fmt: skip
    """Queue the successors of the configuration ``at`` by an indeterminate call of each group.

    Return the new end of the queue.
    """
    state, mask = queue[at, STATE], queue[at, MASK]
    counts, order = queue[at, COUNTS], queue[at, ORDER]
    for group in range(len(group_need)):
        member = group_from[group] + vectors[counts, group]
        if (
            member < group_from[group + 1]
            and group_level[member] <= level
            and group_result[group] != state
            and _allowed(state, group_need[group])
        ):
            grown = scalars[VECTORS]
            scalars[VECTORS] = grown + 1
            vectors[grown] = vectors[counts]
            vectors[grown, group] += 1
            placed = _place(scalars, trail, -1 - group, order)
            tail = _push(queue, tail, group_result[group], mask, grown, placed)
    return tail


@njit(cache=True)
def _reached(scalars: Any, stuck: Any, level: int, state: int, order: int) -> None:
    """Remember the deepest completion placed so far, and the states possible after it."""
    if level > scalars[DEEPEST]:
        scalars[DEEPEST] = level
        scalars[BEST] = order
        scalars[STATES] = 0
    if level == scalars[DEEPEST]:
        for i in range(scalars[STATES]):
            if stuck[i] == state:
                return
        if scalars[STATES] < len(stuck):
            stuck[scalars[STATES]] = state
            scalars[STATES] += 1


@njit(cache=True)
def run(
    budget: int, scalars: Any, stuck: Any, spans: Any, queue: Any, vectors: Any, trail: Any,
    seen: Any, entries: Any,
    completions: Any, read_from: Any, reads: Any, write_from: Any, writes: Any,
    group_from: Any, group_need: Any, group_result: Any, group_level: Any,
) -> int:  # fmt: skip
    """Take up to ``budget`` steps. Returns one of the codes above."""
    last = scalars[STEPS] + budget
    while scalars[DEPTH] >= 0:
        level = scalars[DEPTH]
        at, tail, low = spans[level, HEAD], spans[level, TAIL], spans[level, LOW]
        if at == tail and low == tail:
            scalars[DEPTH] = level - 1
            continue
        if scalars[STEPS] >= last:
            return MORE
        read, past_reads = read_from[level], read_from[level + 1]
        write, past_writes = write_from[level], write_from[level + 1]
        room = _room(scalars, queue, vectors, trail, seen, entries,
                     tail, past_reads - read, past_writes - write)  # fmt: skip
        if room != MORE:
            return room
        if at == tail:
            # Indeterminate calls come last, so that orders with fewer of them come first.
            spans[level, LOW] = low + 1
            if queue[low, COUNTS] >= 0:
                scalars[STEPS] += 1
                spans[level, TAIL] = _place_indeterminate(
                    scalars, queue, trail, vectors, group_from, group_need, group_result,
                    group_level, level, low, tail,
                )  # fmt: skip
            continue
        spans[level, HEAD] = at + 1
        scalars[STEPS] += 1
        state, mask = queue[at, STATE], queue[at, MASK]
        counts, order = queue[at, COUNTS], queue[at, ORDER]
        mask, order = _place_reads(scalars, trail, reads, read, past_reads, state, mask, order)
        if not _fresh(scalars, seen, entries, vectors, 2 * level, state, mask, counts):
            queue[at, COUNTS] = -1
            continue
        queue[at, MASK], queue[at, ORDER] = mask, order
        bit, result = completions[BIT, level], completions[RESULT, level]
        next_state, next_mask, next_order = state, mask, order
        if mask & bit:
            next_mask = mask ^ bit
            queue[at, COUNTS] = -1
        else:
            allowed = result != SAME and _allowed(state, completions[NEED, level])
            if allowed:
                next_state = result
                next_order = _place(scalars, trail, completions[CALL, level], order)
                next_mask, next_order = _place_reads(scalars, trail, reads, read, past_reads,
                                                     result, mask, next_order)  # fmt: skip
            tail = _place_writes(scalars, queue, trail, writes, write, past_writes, at, bit, tail)
            spans[level, TAIL] = tail
            if not allowed:
                continue
        if level + 1 == completions.shape[1]:
            scalars[BEST] = next_order
            return VALID
        _reached(scalars, stuck, level + 1, next_state, next_order)
        if _fresh(scalars, seen, entries, vectors, 2 * level + 1, next_state, next_mask, counts):
            spans[level + 1, HEAD] = spans[level + 1, LOW] = tail
            spans[level + 1, TAIL] = _push(queue, tail, next_state, next_mask, counts, next_order)
            scalars[DEPTH] = level + 1
    return INVALID


@njit(cache=True)
def measure(events: Any, certain: Any, result: Any) -> Any:
    """Return how many calls are open at once, and the sums of open reads and writes.

    ``events`` are positions of calls as they begin, ``~position`` as they end.
    """
    most = opened = reads = writes = all_reads = all_writes = 0
    for code in events:
        position = code if code >= 0 else ~code
        if not certain[position]:
            continue
        if code < 0:
            all_reads += reads
            all_writes += writes
        step = 1 if code >= 0 else -1
        opened += step
        if result[position] == SAME:
            reads += step
        else:
            writes += step
        most = max(most, opened)
    return most, all_reads, all_writes


@njit(cache=True)
def lay_out(
    events: Any, certain: Any, result: Any, group: Any,
    level_code: Any, level_bit: Any, read_from: Any, read_bit: Any, read_code: Any,
    write_from: Any, write_bit: Any, write_code: Any,
    member_at: Any, member_level: Any, members: Any,
) -> None:  # fmt: skip
    """Write the calls open at each completion, with a bit for each of at most 64.

    ``member_at`` is where the calls of each group of indeterminate ones begin in ``members``
    and ``member_level``; this function overwrites it.
    """
    opened = np.zeros(64, np.int64)
    bit_of = np.zeros(64, np.uint64)
    free = np.zeros(64, np.uint64)
    for i in range(64):
        free[i] = np.uint64(1) << np.uint64(63 - i)
    left, count, level, reads, writes = 64, 0, 0, 0, 0
    for code in events:
        if code >= 0:
            if certain[code]:
                left -= 1
                opened[count] = code
                bit_of[count] = free[left]
                count += 1
            else:
                at = member_at[group[code]]
                members[at] = code
                member_level[at] = level
                member_at[group[code]] = at + 1
            continue
        level_code[level] = ~code
        mine = 0
        for i in range(count):
            other = opened[i]
            if other == ~code:
                mine = i
            if result[other] == SAME:
                read_bit[reads] = bit_of[i]
                read_code[reads] = other
                reads += 1
            else:
                write_bit[writes] = bit_of[i]
                write_code[writes] = other
                writes += 1
        level_bit[level] = bit_of[mine]
        level += 1
        read_from[level] = reads
        write_from[level] = writes
        free[left] = bit_of[mine]
        left += 1
        count -= 1
        for i in range(mine, count):
            opened[i] = opened[i + 1]
            bit_of[i] = bit_of[i + 1]


@njit(cache=True)
def unwind(best: int, trail: Any, group_from: Any, members: Any) -> Any:
    """Return an order of calls by position; of a group the earliest call comes first."""
    size = 0
    at = best
    while at >= 0:
        size += 1
        at = trail[at, BEFORE]
    order = np.zeros(size, np.int64)
    at = best
    for i in range(size):
        order[size - 1 - i] = trail[at, CALL]
        at = trail[at, BEFORE]
    used = group_from.copy()
    for i in range(size):
        if order[i] < 0:
            group = ~order[i]
            order[i] = members[used[group]]
            used[group] += 1
    return order
