"""Decides by sorting whether registers' operations have an order, and finds one.

It is exact if every mutator of a key writes a distinct value, other than the initial one.
Then:

1. An indeterminate mutator is kept only if its value was read, or was expected by a
   compare-and-set that itself counts: a legal order stays legal without any other.
2. A *cluster* is the mutator of a value with the reads of it; they are adjacent in the order.
3. A compare-and-set that succeeded comes directly after the cluster it expected. So clusters
   form chains, called *blocks*, whose inner order is fixed: write, reads,
   compare-and-set, reads, …
4. A block has ``lo``, its first end, and ``hi``, its last start. Block A must come before
   block B iff ``lo(A) < hi(B)``. An order exists iff no two blocks must each come before
   the other: in a longer circle, take the member A with the least ``lo`` and C before it;
   ``lo(C) < hi(A)``, and ``lo(A) <= lo(D) < hi(C)`` for D before C. So blocks with
   ``lo < hi`` (forward zones) must not overlap, and no block with ``hi < lo`` (backward)
   may lie strictly inside a forward one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kraftwreck.checkers.linearizability.zones.operations import CAS, READ, Flags, Ints, Operations

_DIRECT = 1 << 24


@dataclass(frozen=True)
class Clusters:
    """Operations by cluster. Cluster ``c`` belongs to ``key[c]``; ``of`` is each
    operation's. ``writer`` is the position of the mutator, -1 for the initial value's
    cluster (``initial``) and for a value that was never written. ``parent`` is the cluster a
    compare-and-set expected, -1 for none."""

    of: Ints
    key: Ints
    initial: Flags
    writer: Ints
    parent: Ints
    read: Flags
    first_end: Ints
    """The first end of the reads."""
    last_start: Ints


@dataclass(frozen=True)
class Blocks:
    """``root`` is each cluster's first cluster, ``depth`` its place in the chain (-1 where
    the cluster is not part of any order); ``lo`` and ``hi`` are indexed by root."""

    root: Ints
    depth: Ints
    lo: Ints
    hi: Ints


@dataclass(frozen=True)
class Fault:
    """The reason why no order exists: clusters ``a`` and ``b`` of one key, and the kind."""

    kind: str
    a: int
    b: int


def needed(operations: Operations) -> Operations:
    """Leave out the indeterminate mutators that no order needs (1)."""
    open_ = operations.end == operations.never
    doubtful = np.flatnonzero(open_ & (operations.kind != READ))
    if not len(doubtful):
        return operations
    place = _place(operations)
    values, expected = place(operations.value), place(operations.expected)
    sure = ~open_
    seen = np.unique(
        np.concatenate([values[operations.kind == READ], expected[sure & (operations.kind == CAS)]])
    )
    keep = np.ones(len(operations), np.bool_)
    keep[doubtful] = _member(seen, values[doubtful])
    # If a compare-and-set counts, so does the mutator of the value it expected.
    swaps = doubtful[operations.kind[doubtful] == CAS]
    if len(swaps):
        by_value: dict[int, list[int]] = {}
        for mutator in doubtful[~keep[doubtful]]:
            by_value.setdefault(int(values[mutator]), []).append(int(mutator))
        stack = [int(swap) for swap in swaps if keep[swap]]
        while stack:
            for mutator in by_value.pop(int(expected[stack.pop()]), ()):
                keep[mutator] = True
                if operations.kind[mutator] == CAS:
                    stack.append(mutator)
    return operations.where(keep)


def _member(ordered: Ints, values: Ints) -> Flags:
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    found: Flags = ordered[at] == values
    return found


def _place(operations: Operations) -> Callable[[Ints], Ints]:
    base = operations.key * operations.values
    return lambda codes: base + codes


def repeated(operations: Operations) -> Ints:
    """Return the keys with a value that has two mutators, or an initial value with one."""
    mutates = operations.kind != READ
    codes = operations.value[mutates]
    keys = operations.key[mutates]
    places = np.sort(keys * operations.values + codes)
    twice = places[1:][places[1:] == places[:-1]] // operations.values
    return np.unique(np.concatenate([twice, keys[codes == 0]]))


def gather(operations: Operations) -> Clusters:
    """Group operations by the value they wrote or read (2)."""
    of, size, key, initial, expected = _number(operations)
    mutators = np.flatnonzero(operations.kind != READ)
    reads = np.flatnonzero(operations.kind == READ)
    writer = np.full(size, -1, np.int64)
    writer[of[mutators]] = mutators
    parent = np.full(size, -1, np.int64)
    swaps = np.flatnonzero(operations.kind == CAS)
    parent[of[swaps]] = expected[swaps]
    first_end = np.full(size, operations.never, np.int64)
    last_start = np.full(size, -1, np.int64)
    read = np.zeros(size, np.bool_)
    np.minimum.at(first_end, of[reads], operations.end[reads])
    np.maximum.at(last_start, of[reads], operations.start[reads])
    read[of[reads]] = True
    return Clusters(of, key, initial, writer, parent, read, first_end, last_start)


def _number(operations: Operations) -> tuple[Ints, int, Ints, Flags, Ints]:
    """Number clusters: of operations, how many, their keys, the initial ones, expected ones."""
    values, keys = operations.values, len(operations.keys)
    places = operations.key * values + operations.value
    wanted = np.where(operations.expected < 0, -1, operations.key * values + operations.expected)
    if keys * values <= _DIRECT:
        size = keys * values
        initial = np.zeros(size, np.bool_)
        initial[::values] = True
        return places, size, np.arange(size) // values, initial, wanted
    every = np.concatenate([places, wanted[wanted >= 0], np.arange(keys) * values])
    known, number = np.unique(every, return_inverse=True)
    expected = np.full(len(operations), -1, np.int64)
    swaps = wanted >= 0
    many = len(operations)
    expected[swaps] = number[many : many + int(swaps.sum())]
    return number[:many], len(known), known // values, known % values == 0, expected


def judge(operations: Operations, clusters: Clusters) -> tuple[Blocks, list[Fault]]:
    """Build the blocks and find the faults: at least one for every key that has any."""
    faults: list[Fault] = []
    there = clusters.initial | (clusters.writer >= 0)
    _note(faults, "phantom", np.flatnonzero(clusters.read & ~there))
    # Where there is no writer (-1) the last item counts: before everything.
    start = np.append(operations.start, -1)[clusters.writer]
    end = np.append(operations.end, -1)[clusters.writer]
    _note(faults, "early", np.flatnonzero(there & clusters.read & (clusters.first_end < start)))
    chained = there & (clusters.parent >= 0)
    if chained.any():
        blocks = _chains(operations, clusters, there, start, end, faults)
    else:
        depth = np.where(there, 0, -1)
        blocks = Blocks(
            np.arange(len(there)),
            depth,
            np.minimum(clusters.first_end, end),
            np.maximum(clusters.last_start, start),
        )
    _zones(operations, clusters, blocks, faults)
    return blocks, faults


def _note(faults: list[Fault], kind: str, a: Ints, b: Ints | None = None) -> None:
    other = a if b is None else b
    faults += [Fault(kind, int(x), int(y)) for x, y in zip(a, other, strict=True)]


def _chains(
    operations: Operations,
    clusters: Clusters,
    there: Flags,
    start: Ints,
    end: Ints,
    faults: list[Fault],
) -> Blocks:
    """Connect clusters to chains (3)."""
    size = len(there)
    parent = np.where(there, clusters.parent, -1)
    child = np.flatnonzero(parent >= 0)
    orphans = child[~there[parent[child]]]
    _note(faults, "phantom", orphans)
    parent[orphans] = -1
    child = np.flatnonzero(parent >= 0)
    by_parent = child[np.argsort(parent[child], kind="stable")]
    twins = np.flatnonzero(parent[by_parent[1:]] == parent[by_parent[:-1]])
    _note(faults, "twice", by_parent[twins], by_parent[twins + 1])
    parent[by_parent[twins + 1]] = -1
    root = np.where(parent >= 0, parent, np.arange(size))
    depth = (parent >= 0).astype(np.int64)
    for _ in range(max(size, 2).bit_length() + 1):
        further = root[root]
        depth = depth + np.where(further != root, depth[root], 0)
        if (further == root).all():
            break
        root = further
    circles = np.flatnonzero(parent[root] >= 0)
    _note(faults, "circle", circles[:1] if len(circles) else circles)
    member = np.flatnonzero(there & (parent[root] < 0))
    return _levels(operations, clusters, member, root, depth, start, end, faults)


def _levels(
    operations: Operations,
    clusters: Clusters,
    member: Ints,
    root: Ints,
    depth: Ints,
    start: Ints,
    end: Ints,
    faults: list[Fault],
) -> Blocks:
    """Check the order inside blocks, and return their ``lo`` and ``hi``."""
    never = operations.never
    with_reads = member[clusters.read[member]]
    cluster = np.concatenate([member, with_reads])
    # Of two equal places the first one stays first: a mutator comes before the reads of its value.
    level = np.concatenate([depth[member], depth[with_reads]])
    starts = np.concatenate([start[member], clusters.last_start[with_reads]])
    ends = np.concatenate([end[member], clusters.first_end[with_reads]])
    order = np.lexsort((level, root[cluster]))
    cluster, starts, ends = cluster[order], starts[order], ends[order]
    roots = root[cluster]
    begins = np.flatnonzero(np.concatenate([[True], roots[1:] != roots[:-1]]))
    rank = np.zeros(len(roots), np.int64)
    rank[begins[1:]] = 1
    base = np.cumsum(rank) * (never + 3)
    reached = base + starts
    before = np.concatenate([[0], np.maximum.accumulate(reached)[:-1]])
    before[begins] = reached[begins]
    wrong = np.flatnonzero(base + ends < before)
    _note(faults, "order", cluster[wrong], cluster[wrong])
    lo = np.full(len(root), never, np.int64)
    hi = np.full(len(root), -1, np.int64)
    lo[roots[begins]] = np.minimum.reduceat(ends, begins)
    hi[roots[begins]] = np.maximum.reduceat(starts, begins)
    place = np.full(len(root), -1, np.int64)
    place[member] = depth[member]
    return Blocks(root, place, lo, hi)


def _zones(operations: Operations, clusters: Clusters, blocks: Blocks, faults: list[Fault]) -> None:
    """Look for two blocks that must each come before the other (4)."""
    blocks_there = np.flatnonzero(blocks.depth == 0)
    base = clusters.key[blocks_there] * (operations.never + 3)
    lo, hi = base + blocks.lo[blocks_there], base + blocks.hi[blocks_there]
    forward = lo < hi
    zones = blocks_there[forward]
    order = np.argsort(lo[forward], kind="stable")
    zones, low, high = zones[order], lo[forward][order], hi[forward][order]
    overlap = np.flatnonzero(low[1:] < high[:-1])
    _note(faults, "overlap", zones[overlap], zones[overlap + 1])
    if not len(zones):
        return
    inner = blocks_there[~forward]
    around = np.searchsorted(low, hi[~forward]) - 1
    inside = np.flatnonzero((around >= 0) & (lo[~forward] < high[np.maximum(around, 0)]))
    _note(faults, "overlap", zones[around[inside]], inner[inside])


def involved(operations: Operations, clusters: Clusters, blocks: Blocks) -> Flags:
    """Return which blocks must come both before and after another, by their roots.

    ``lo`` never changes and ``hi`` only grows as a history grows, so two blocks that
    contradict each other at any moment do so at the end.
    """
    there = np.flatnonzero(blocks.depth == 0)
    base = clusters.key[there] * (operations.never + 3)
    lo, hi = base + blocks.lo[there], base + blocks.hi[there]
    found = np.zeros(len(blocks.root), np.bool_)
    forward = lo < hi
    zones, inner = there[forward], there[~forward]
    order = np.argsort(lo[forward], kind="stable")
    zones, low, high = zones[order], lo[forward][order], hi[forward][order]
    if not len(zones):
        return found
    reach = np.maximum.accumulate(high)
    found[zones[1:][reach[:-1] > low[1:]]] = True
    found[zones[:-1][low[1:] < high[:-1]]] = True
    by_hi = np.argsort(hi[~forward], kind="stable")
    inner, inner_lo, inner_hi = inner[by_hi], lo[~forward][by_hi], hi[~forward][by_hi]
    around = np.searchsorted(low, inner_hi) - 1
    found[inner[(around >= 0) & (inner_lo < reach[np.maximum(around, 0)])]] = True
    if len(inner):
        least = np.minimum.accumulate(inner_lo[::-1])[::-1]
        later = np.searchsorted(inner_hi, low, side="right")
        inside = (later < len(inner)) & (least[np.minimum(later, len(inner) - 1)] < high)
        found[zones[inside]] = True
    return found


def order_of(
    operations: Operations, clusters: Clusters, blocks: Blocks, last: int | None = None
) -> Ints:
    """Return a legal order as positions of operations; only if :func:`judge` finds no fault.

    Blocks are sorted by the lesser of ``lo`` and ``hi``: if A must come before B and not B before
    A, ``min(lo, hi)`` of A is less than that of B. Inside a block the order is by chain, mutator
    first, reads by their start. With ``last`` only that many of its end are returned.
    """
    block = blocks.root[clusters.of]
    at = np.minimum(blocks.lo, blocks.hi)[block]
    some = np.arange(len(at))
    if last is not None and last < len(at):
        some = np.flatnonzero(at >= np.partition(at, len(at) - last)[len(at) - last])
    reads = operations.kind[some] == READ
    depth = blocks.depth[clusters.of[some]]
    order: Ints = some[np.lexsort((operations.start[some], reads, depth, block[some], at[some]))]
    return order if last is None else order[-last:]
