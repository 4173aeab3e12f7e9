"""The order in which a list's elements were appended, as its reads show it.

The longest read of a list holds its history: every other read must be a prefix of it. Where
several longest reads differ, only their common prefix counts as the history. A key
with one append and only empty reads has that element. Reads that are no prefixes, and
keys whose longest read holds an element twice, are rare, and are examined one by one.

Source: Kingsbury, Alvaro, "Elle" (VLDB 2020), section 4; elle.list-append.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from kraftwreck.checkers.elle.transactions import (
    LIST,
    OK,
    READ,
    WRITE,
    Bools,
    Ints,
    MicroOps,
    Transactions,
    runs,
    starts_of,
)

_BLOCK = 1 << 21


class Pairs:
    """Numbers for (key, value) pairs, looked up by binary search."""

    def __init__(self, key: Ints, value: Ints) -> None:
        self._values: Ints | None = None
        low, high = int(value.min(initial=0)), int(value.max(initial=0))
        if (high - low + 1) * (int(key.max(initial=0)) + 1) >= 1 << 62:
            self._values = np.unique(value)
            low, high = 0, len(self._values)
        self._low, self._span = low, high - low + 1
        code = self._code(key, self._rank(value)[0])
        self._order = np.argsort(code, kind="stable")
        self._sorted = code[self._order]

    def _rank(self, value: Ints) -> tuple[Ints, Bools]:
        if self._values is None:
            return value, (value >= self._low) & (value < self._low + self._span)
        at = np.minimum(np.searchsorted(self._values, value), len(self._values) - 1)
        return at, self._values[at] == value

    def _code(self, key: Ints, rank: Ints) -> Ints:
        return key * self._span + (rank - self._low)

    def find(self, key: Ints, value: Ints) -> Ints:
        """Return the last position of each pair, or -1 if it was never added."""
        if len(self._sorted) == 0:
            return np.full(len(key), -1, dtype=np.int64)
        rank, known = self._rank(value)
        code = self._code(key, np.where(known, rank, self._low))
        at = np.searchsorted(self._sorted, code, side="right") - 1
        found = known & (at >= 0) & (self._sorted[at] == code)
        result: Ints = np.where(found, self._order[at], -1)
        return result

    def repeated(self) -> int | None:
        """Return the first position of a pair that was given before, or None."""
        twice = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        return int(self._order[twice + 1].min()) if len(twice) else None


@dataclass(frozen=True, slots=True)
class Orders:
    """Versions of every list.

    ``keys`` are the distinct keys; arrays by key number: ``start`` (of its elements in
    ``element``) and ``size``. ``writer`` is, for each element, the micro-operation that
    appended it (of any transaction, failed ones too), or -1. By micro-operation: ``key`` its
    key's number, ``place`` of a possible append its place in the order or -1, ``read`` whether
    it is a read that shows a state, ``clean`` whether that is a prefix of the order.
    ``contested``: the longest reads of some key contradict each other.
    """

    keys: Ints
    start: Ints
    size: Ints
    element: Ints
    writer: Ints
    key: Ints
    place: Ints
    read: Bools
    clean: Bools
    possible: Bools
    pairs: Pairs
    appends: Ints
    contested: bool

    def append_of(self, key: int, value: int) -> int:
        """Return the micro-operation that appended ``value`` to key number ``key``, or -1."""
        found = self.pairs.find(np.array([key]), np.array([value]))
        return int(self.appends[found[0]]) if found[0] >= 0 else -1

    def order_of(self, key: int) -> list[int]:
        """Return a key's elements in order."""
        begin = int(self.start[key])
        return [int(value) for value in self.element[begin : begin + int(self.size[key])]]


def orders_of(transactions: Transactions, ignored: Bools) -> Orders:
    """Return the orders that the reads of possible transactions show.

    ``ignored`` marks, by event, the transactions whose reads do not count.
    """
    mops = transactions.mops
    keys, key = number_keys(mops.key)
    possible = transactions.possible[mops.event]
    ok = (transactions.events.kind == OK)[mops.event]
    is_read = (mops.f == READ) & possible & (ok | (mops.kind == LIST)) & ~ignored[mops.event]
    longest = _longest(key, mops.count, is_read, len(keys))
    clean = _prefixes(mops.start, mops.count, key, is_read, longest, mops.elements)
    size = np.where(longest >= 0, mops.count[longest], 0)
    agreed = _agreed(mops, key, is_read & ~clean, longest, size)
    contested = bool((agreed < size).any())
    size = agreed
    clean &= mops.count <= size[key]
    appends = np.flatnonzero(mops.f == WRITE)
    pairs = Pairs(key[appends], mops.elements[mops.start[appends]])
    elements = mops.elements[runs(np.where(size > 0, mops.start[longest], 0), size)]
    elements, size, clean = _distinct(elements, size, clean, key, is_read)
    lone = _lone(key, mops.f == WRITE, possible, size)
    if len(lone):
        size = size.copy()
        size[key[lone]] = 1
        start = starts_of(size)
        full = np.zeros(int(start[-1]), dtype=np.int64)
        has_read = np.ones(len(full), dtype=bool)
        has_read[start[key[lone]]] = False
        full[has_read] = elements
        full[start[key[lone]]] = mops.elements[mops.start[lone]]
        elements = full
    start = starts_of(size)
    found = pairs.find(np.repeat(np.arange(len(keys)), size), elements)
    writer = np.where(found >= 0, appends[found] if len(appends) else -1, -1)
    place = np.full(len(mops), -1, dtype=np.int64)
    at = np.flatnonzero(writer >= 0)
    place[writer[at]] = at - np.repeat(start[:-1], size)[at]
    return Orders(
        keys=keys,
        start=start[:-1],
        size=size,
        element=elements,
        writer=writer,
        key=key,
        place=place,
        read=is_read,
        clean=clean,
        possible=possible,
        pairs=pairs,
        appends=appends,
        contested=contested,
    )


def number_keys(key: Ints) -> tuple[Ints, Ints]:
    """Return the distinct keys, and for each entry its key's place among them."""
    if len(key) == 0:
        return key, key
    low, high = int(key.min()), int(key.max())
    if high - low > 8 * len(key) + 1024:
        keys, number = np.unique(key, return_inverse=True)
        return keys, number.astype(np.int64)
    present = np.zeros(high - low + 1, dtype=bool)
    present[key - low] = True
    keys = np.flatnonzero(present)
    number = np.cumsum(present) - 1
    return keys + low, number[key - low]


def _longest(key: Ints, count: Ints, is_read: Bools, keys: int) -> Ints:
    """Return, by key, the position of a longest read that is not empty, or -1."""
    most = np.zeros(keys, dtype=np.int64)
    at = np.flatnonzero(is_read & (count > 0))
    np.maximum.at(most, key[at], count[at])
    longest = np.full(keys, -1, dtype=np.int64)
    best = at[count[at] == most[key[at]]]
    longest[key[best][::-1]] = best[::-1]
    return longest


def _prefixes(
    start: Ints, count: Ints, key: Ints, is_read: Bools, longest: Ints, elements: Ints
) -> Bools:
    """Return which reads are prefixes of the longest of their key; empty ones are."""
    clean = is_read.copy()
    reads = np.flatnonzero(is_read & (count > 0))
    reads = reads[longest[key[reads]] != reads]
    bounds = np.cumsum(count[reads])
    begin = 0
    while begin < len(reads):
        done = int(bounds[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(bounds, done + _BLOCK)))
        some = reads[begin:end]
        sizes = count[some]
        own = runs(start[some], sizes)
        theirs = runs(start[longest[key[some]]], sizes)
        wrong = np.flatnonzero(elements[own] != elements[theirs])
        if len(wrong):
            clean[some[np.searchsorted(np.cumsum(sizes), wrong, side="right")]] = False
        begin = end
    return clean


def _agreed(mops: MicroOps, key: Ints, unclean: Bools, longest: Ints, size: Ints) -> Ints:
    """Return the sizes of the orders, cut to what all the longest reads of a key agree on.

    Where longest reads contradict each other none of them is preferred.
    """
    rivals = np.flatnonzero(unclean & (mops.count == size[key]))
    if len(rivals) == 0:
        return size
    size = size.copy()
    for read in rivals.tolist():
        number = int(key[read])
        pairs = zip(mops.list_of(read), mops.list_of(int(longest[number])), strict=True)
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
        size[number] = min(int(size[number]), sum(1 for _ in same))
    return size


def _distinct(
    elements: Ints, size: Ints, clean: Bools, key: Ints, is_read: Bools
) -> tuple[Ints, Ints, Bools]:
    """Drop what a longest read repeats; no read of such a key counts as clean."""
    owner = np.repeat(np.arange(len(size)), size)
    order = np.lexsort((elements, owner))
    same = (owner[order][1:] == owner[order][:-1]) & (elements[order][1:] == elements[order][:-1])
    if not same.any():
        return elements, size, clean
    kept = np.ones(len(elements), dtype=bool)
    kept[order[1:][same]] = False
    marred = np.zeros(len(size), dtype=bool)
    marred[owner[~kept]] = True
    clean = clean & ~(marred[key] & is_read)
    return elements[kept], np.bincount(owner[kept], minlength=len(size)), clean


def _lone(key: Ints, is_append: Bools, possible: Bools, size: Ints) -> Ints:
    """Return the appends that are the only one of their key, where no read shows more."""
    at = np.flatnonzero(is_append & possible)
    times = np.bincount(key[at], minlength=len(size))
    lone: Ints = at[(times[key[at]] == 1) & (size[key[at]] == 0)]
    return lone
