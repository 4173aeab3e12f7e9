"""The search for a linearization of a register, compiled (decision 11).

The algorithm of :mod:`checkers.linearizability.decide` on flat arrays: depth first over
completions, breadth first between them. All state is in the arguments, so a call does a
bounded number of steps. Between two calls the caller may look at the clock and enlarge arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

ANY, PRESENT, SAME = -1, -2, -1
MORE, VALID, INVALID = 0, 1, 2
ROOM_QUEUE, ROOM_VECTORS, ROOM_TRAIL, ROOM_SEEN = 3, 4, 5, 6
DEPTH, STEPS, VECTORS, TRAIL, DEEPEST, BEST, ENTRIES, FILLED, STATES = range(9)
SCALARS = 9


@njit(cache=True)
def _mix(place: int, state: int, mask: Any) -> Any:
    value = (np.uint64(place) * np.uint64(0x9E3779B97F4A7C15)) ^ mask
    value ^= np.uint64(state) * np.uint64(0xC2B2AE3D27D4EB4F)
    value = (value ^ (value >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return value ^ (value >> np.uint64(32))


@njit(cache=True)
def _slot(keys: Any, masks: Any, key: int, place: int, state: int, mask: Any) -> Any:
    """Return the index in the table of a place of the search, known or new."""
    size = len(keys) - 1
    at = np.int64(_mix(place, state, mask) & np.uint64(size))
    while keys[at] >= 0 and (keys[at] != key or masks[at] != mask):
        at = (at + 1) & size
    return at


@njit(cache=True)
def rehash(keys: Any, masks: Any, heads: Any, states: int, new: Any) -> None:
    """Fill a larger table ``new`` (keys, masks, heads) from an old one."""
    for at in range(len(keys)):
        if keys[at] >= 0:
            key = keys[at]
            to = _slot(new[0], new[1], key, key // states, key % states, masks[at])
            new[0][to] = key
            new[1][to] = masks[at]
            new[2][to] = heads[at]


@njit(cache=True)
def _fresh(
    scalars: Any, keys: Any, masks: Any, heads: Any, entry_vector: Any, entry_next: Any,
    vectors: Any, states: int, place: int, state: int, mask: Any, vector: int,
) -> bool:  # fmt: skip
    """Remember a configuration; False if a known one used at most as many calls."""
    key = place * states + state
    at = _slot(keys, masks, key, place, state, mask)
    if keys[at] < 0:
        keys[at] = key
        masks[at] = mask
        heads[at] = -1
        scalars[FILLED] += 1
    entry = heads[at]
    while entry >= 0:
        other = entry_vector[entry]
        better = True
        if other != vector:
            for group in range(vectors.shape[1]):
                if vectors[other, group] > vectors[vector, group]:
                    better = False
                    break
        if better:
            return False
        entry = entry_next[entry]
    entry = scalars[ENTRIES]
    scalars[ENTRIES] = entry + 1
    entry_vector[entry] = vector
    entry_next[entry] = heads[at]
    heads[at] = entry
    return True


@njit(cache=True)
def _allowed(state: int, need: int) -> bool:
    if need == ANY:
        return True
    if need == PRESENT:
        return state != 0
    return state == need


@njit(cache=True)
def run(
    budget: int, states: int, scalars: Any, stuck: Any,
    heads_of: Any, tails_of: Any, lows_of: Any,
    queue_state: Any, queue_mask: Any, queue_vector: Any, queue_trail: Any,
    vectors: Any, trail_code: Any, trail_next: Any,
    keys: Any, masks: Any, heads: Any, entry_vector: Any, entry_next: Any,
    level_code: Any, level_bit: Any, level_need: Any, level_result: Any,
    read_from: Any, read_bit: Any, read_need: Any, read_code: Any,
    write_from: Any, write_bit: Any, write_need: Any, write_result: Any, write_code: Any,
    group_need: Any, group_result: Any, group_from: Any, group_level: Any,
) -> int:  # fmt: skip
    """Take up to ``budget`` steps. Returns one of the codes above."""
    levels = len(level_code)
    groups = len(group_need)
    last = scalars[STEPS] + budget
    while scalars[DEPTH] >= 0:
        level = scalars[DEPTH]
        if heads_of[level] == tails_of[level] and lows_of[level] == tails_of[level]:
            scalars[DEPTH] = level - 1
            continue
        if scalars[STEPS] >= last:
            return MORE
        reads = read_from[level + 1] - read_from[level]
        writes = write_from[level + 1] - write_from[level]
        if tails_of[level] + writes + groups + 2 > len(queue_state):
            return ROOM_QUEUE
        if scalars[VECTORS] + groups + 1 > len(vectors):
            return ROOM_VECTORS
        if scalars[TRAIL] + 2 * reads + writes + groups + 2 > len(trail_code):
            return ROOM_TRAIL
        if scalars[ENTRIES] + 2 > len(entry_vector) or 2 * (scalars[FILLED] + 2) > len(keys):
            return ROOM_SEEN
        if heads_of[level] == tails_of[level]:
            # Indeterminate calls come last, so that orders with fewer of them come first.
            at = lows_of[level]
            lows_of[level] = at + 1
            vector = queue_vector[at]
            if vector < 0:
                continue
            state, mask, trail = queue_state[at], queue_mask[at], queue_trail[at]
            scalars[STEPS] += 1
            tail = tails_of[level]
            for group in range(groups):
                member = group_from[group] + vectors[vector, group]
                if (
                    member < group_from[group + 1]
                    and group_level[member] <= level
                    and group_result[group] != state
                    and _allowed(state, group_need[group])
                ):
                    grown = scalars[VECTORS]
                    scalars[VECTORS] = grown + 1
                    vectors[grown] = vectors[vector]
                    vectors[grown, group] += 1
                    trail_code[scalars[TRAIL]] = -1 - group
                    trail_next[scalars[TRAIL]] = trail
                    queue_state[tail] = group_result[group]
                    queue_mask[tail] = mask
                    queue_vector[tail] = grown
                    queue_trail[tail] = scalars[TRAIL]
                    scalars[TRAIL] += 1
                    tail += 1
            tails_of[level] = tail
            continue
        at = heads_of[level]
        heads_of[level] = at + 1
        state, mask = queue_state[at], queue_mask[at]
        vector, trail = queue_vector[at], queue_trail[at]
        scalars[STEPS] += 1
        for i in range(read_from[level], read_from[level + 1]):
            if not mask & read_bit[i] and _allowed(state, read_need[i]):
                mask |= read_bit[i]
                trail_code[scalars[TRAIL]] = read_code[i]
                trail_next[scalars[TRAIL]] = trail
                trail = scalars[TRAIL]
                scalars[TRAIL] += 1
        if not _fresh(scalars, keys, masks, heads, entry_vector, entry_next, vectors, states,
                      2 * level, state, mask, vector):  # fmt: skip
            queue_vector[at] = -1
            continue
        queue_mask[at] = mask
        queue_trail[at] = trail
        bit = level_bit[level]
        placed = False
        next_state, next_mask, next_trail = state, mask, trail
        if mask & bit:
            placed = True
            next_mask = mask ^ bit
            queue_vector[at] = -1
        else:
            result = level_result[level]
            if result != SAME and _allowed(state, level_need[level]):
                placed = True
                next_state = result
                trail_code[scalars[TRAIL]] = level_code[level]
                trail_next[scalars[TRAIL]] = trail
                next_trail = scalars[TRAIL]
                scalars[TRAIL] += 1
                for i in range(read_from[level], read_from[level + 1]):
                    if not next_mask & read_bit[i] and _allowed(next_state, read_need[i]):
                        next_mask |= read_bit[i]
                        trail_code[scalars[TRAIL]] = read_code[i]
                        trail_next[scalars[TRAIL]] = next_trail
                        next_trail = scalars[TRAIL]
                        scalars[TRAIL] += 1
            tail = tails_of[level]
            for i in range(write_from[level], write_from[level + 1]):
                other = write_bit[i]
                if not mask & other and other != bit and _allowed(state, write_need[i]):
                    trail_code[scalars[TRAIL]] = write_code[i]
                    trail_next[scalars[TRAIL]] = trail
                    queue_state[tail] = write_result[i]
                    queue_mask[tail] = mask | other
                    queue_vector[tail] = vector
                    queue_trail[tail] = scalars[TRAIL]
                    scalars[TRAIL] += 1
                    tail += 1
            tails_of[level] = tail
        if not placed:
            continue
        if level + 1 == levels:
            scalars[BEST] = next_trail
            return VALID
        if level + 1 > scalars[DEEPEST]:
            scalars[DEEPEST] = level + 1
            scalars[BEST] = next_trail
            scalars[STATES] = 0
        if level + 1 == scalars[DEEPEST]:
            known = False
            for i in range(scalars[STATES]):
                known = known or stuck[i] == next_state
            if not known and scalars[STATES] < len(stuck):
                stuck[scalars[STATES]] = next_state
                scalars[STATES] += 1
        if _fresh(scalars, keys, masks, heads, entry_vector, entry_next, vectors, states,
                  2 * level + 1, next_state, next_mask, vector):  # fmt: skip
            start = tails_of[level]
            queue_state[start] = next_state
            queue_mask[start] = next_mask
            queue_vector[start] = vector
            queue_trail[start] = next_trail
            heads_of[level + 1] = start
            lows_of[level + 1] = start
            tails_of[level + 1] = start + 1
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
def unwind(best: int, trail_code: Any, trail_next: Any, group_from: Any, members: Any) -> Any:
    """Return an order of calls by position; of a group the earliest call comes first."""
    size = 0
    at = best
    while at >= 0:
        size += 1
        at = trail_next[at]
    order = np.zeros(size, np.int64)
    at = best
    for i in range(size):
        order[size - 1 - i] = trail_code[at]
        at = trail_next[at]
    used = group_from.copy()
    for i in range(size):
        if order[i] < 0:
            group = ~order[i]
            order[i] = members[used[group]]
            used[group] += 1
    return order
