"""Micro-operations of one transaction on one key, next to each other.

Sorted by (transaction, key, place). So a question such as "was this key written again
later?" is a comparison of neighbours, for all transactions at once.
"""

from __future__ import annotations

import numpy as np

from kraftwreck.checkers.elle.orders import Orders
from kraftwreck.checkers.elle.transactions import READ, WRITE, Bools, Ints, MicroOps


class Groups:
    """``order`` sorts micro-operations into groups, ``group`` numbers the group of each."""

    def __init__(self, event: Ints, key: Ints) -> None:
        keys = int(key.max(initial=0)) + 1
        code = event * keys + key
        self.order = np.argsort(code, kind="stable")
        code = code[self.order]
        begins = np.ones(len(code), dtype=bool)
        begins[1:] = code[1:] != code[:-1]
        self._begins = begins
        self._sorted_group = np.cumsum(begins) - 1
        self.group = np.empty(len(code), dtype=np.int64)
        self.group[self.order] = self._sorted_group

    def __len__(self) -> int:
        return int(self._sorted_group[-1]) + 1 if len(self._sorted_group) else 0

    def firsts(self) -> Ints:
        """Return the first micro-operation of every group."""
        return self.order[self._begins]

    def lasts_of(self, wanted: Bools) -> Ints:
        """Return the last of each group's micro-operations that are ``wanted``."""
        at = self.order[wanted[self.order]]
        group = self.group[at]
        last = np.ones(len(at), dtype=bool)
        last[:-1] = group[1:] != group[:-1]
        return at[last]

    def firsts_of(self, wanted: Bools) -> Ints:
        """Return the first of each group's micro-operations that are ``wanted``."""
        at = self.order[wanted[self.order]]
        group = self.group[at]
        first = np.ones(len(at), dtype=bool)
        first[1:] = group[1:] != group[:-1]
        return at[first]

    def followed(self, wanted: Bools) -> Bools:
        """Mark the ``wanted`` after which another ``wanted`` of the group comes."""
        marked = wanted.copy()
        marked[self.lasts_of(wanted)] = False
        return marked

    def read_then_written(self, reads: Bools, writes: Bools, among: Bools) -> Ints:
        """Return the first read of every group that a write of the group comes after."""
        first = self.firsts_of(reads & among)
        last_write = np.full(len(self), -1, dtype=np.int64)
        last = self.lasts_of(writes & among)
        last_write[self.group[last]] = last
        return first[last_write[self.group[first]] > first]

    def contradicting(self, orders: Orders, mops: MicroOps, among: Bools) -> list[int]:
        """Return the events that may have read a contradiction; none is left out.

        Between two reads of a group, the second must be as long as the first and the appends
        between them together, and each append must be at its place of the key's order.
        """
        at = self.order[among[self.order]]
        group, is_read = self.group[at], mops.f[at] == READ
        count = np.where(is_read, mops.count[at], 0)
        if len(at) < 2:
            return []
        begins = np.ones(len(at), dtype=bool)
        begins[1:] = group[1:] != group[:-1]
        # A segment ends with a read; appends after the last read of a group have none.
        segment = np.cumsum(is_read) - is_read
        ends = np.flatnonzero(is_read)
        end = (
            np.where(segment < len(ends), ends[np.minimum(segment, max(len(ends) - 1, 0))], -1)
            if len(ends)
            else np.full(len(at), -1)
        )
        end = np.where((end >= 0) & (group[end] == group), end, -1)
        appends = np.cumsum(~is_read)
        after = appends[end] - appends  # appends of the segment that follow this one
        suspect = np.zeros(len(at), dtype=bool)
        own = ~is_read & (end >= 0)
        place = orders.place[at]
        suspect[own] = ((place < 0) | (place != count[end] - 1 - after))[own]
        # The read before, in the same group, must be shorter by the appends since.
        before = np.maximum.accumulate(np.where(is_read, np.arange(len(at)), -1))
        before = np.concatenate([[-1], before[:-1]])
        second = is_read & (before >= 0) & (group[before] == group)
        suspect[second] = (count[before] + appends - appends[before] != count)[second]
        crowd = ~begins
        crowd[:-1] |= ~begins[1:]
        suspect |= is_read & crowd & ~orders.clean[at]
        return sorted(set(mops.event[at[suspect]].tolist()))

    def foreseeing(self, orders: Orders, mops: MicroOps, among: Bools) -> list[int]:
        """Return the events that may have read an element before they appended it."""
        at = self.order[among[self.order]]
        group, is_read = self.group[at], mops.f[at] == READ
        span = int(mops.count.max(initial=0)) + 1
        dense = np.cumsum(np.concatenate([[0], group[1:] != group[:-1]])) if len(at) else group
        longest = np.maximum.accumulate(dense * span + np.where(is_read, mops.count[at], 0))
        longest = longest - dense * span
        place = orders.place[at]
        suspect = (mops.f[at] == WRITE) & (place >= 0) & (place < longest)
        # An unclean read may hold anything.
        strange = is_read & ~orders.clean[at]
        return sorted(set(mops.event[at[suspect | strange]].tolist()))
