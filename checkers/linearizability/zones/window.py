"""The first moment at which a register's history has no order, and the operations that show it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kraftwreck.checkers.linearizability.zones.decide import (
    Blocks,
    Clusters,
    Fault,
    gather,
    involved,
    judge,
    needed,
    order_of,
)
from kraftwreck.checkers.linearizability.zones.operations import CAS, READ, Ints, Operations

_CHAIN = 8
_LEGAL = 64


@dataclass(frozen=True)
class Contradiction:
    """Why no order exists.

    ``core`` are the operations without an order, in sequence (positions in the operations of the
    key), ``pairs`` those of which the first ended before the second began.
    """

    kind: str
    core: list[int]
    pairs: list[tuple[int, int]]


@dataclass(frozen=True)
class FirstContradiction(Contradiction):
    """The reason why no order exists, at the first moment without one.

    ``stuck`` is the operation that completed at ``moment``, ``legal`` the end of the longest legal
    order of all before it, which has ``placed`` operations.
    """

    stuck: int
    moment: int
    legal: Ints
    placed: int


def of_key(operations: Operations, key: int) -> Operations:
    """Return the operations of one key as a history of its own."""
    mine = operations.where(operations.key == key)
    return replace(mine, key=np.zeros(len(mine), np.int64), keys=[operations.keys[key]])


def contradiction(operations: Operations) -> Contradiction:
    """Find why the operations of one key, which have no legal order, have none."""
    clusters = gather(operations)
    blocks, faults = judge(operations, clusters)
    core, pairs = _core(operations, clusters, blocks, faults[0])
    return Contradiction(faults[0].kind, sorted(set(core)), pairs)


def explain(operations: Operations) -> FirstContradiction:
    """Explain why the operations of one key, which have no legal order, have none."""
    some = _suspects(operations)
    few = operations.where(some)
    ends = np.sort(few.end[few.end < few.never])
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        if _faults(few, int(ends[middle])):
            high = middle
        else:
            low = middle + 1
    moment = int(ends[low])
    kept, cut = _until(few, moment)
    found = contradiction(cut)
    before, prefix = _until(operations, moment - 1)
    grouped = gather(prefix)
    legal = before[order_of(prefix, grouped, judge(prefix, grouped)[0], _LEGAL)]
    place = some[kept]
    return FirstContradiction(
        found.kind,
        [int(place[i]) for i in found.core],
        [(int(place[i]), int(place[j])) for i, j in found.pairs],
        int(np.flatnonzero(operations.end == moment)[0]),
        moment,
        legal,
        len(prefix),
    )


def _suspects(operations: Operations) -> Ints:
    """Return operations among which the first contradiction is.

    These are the operations of blocks that contradict another one, or their own order; all
    operations if a value has no writer or chains are no chains.
    """
    clusters = gather(operations)
    blocks, faults = judge(operations, clusters)
    everything = np.arange(len(operations))
    if any(fault.kind in ("phantom", "twice", "circle") for fault in faults):
        return everything
    suspect = involved(operations, clusters, blocks)
    for fault in faults:
        suspect[blocks.root[[fault.a, fault.b]]] = True
    return everything[suspect[blocks.root[clusters.of]]]


def _until(operations: Operations, moment: int) -> tuple[Ints, Operations]:
    """Return what was known at ``moment``: positions of the operations, and the operations."""
    done = operations.end <= moment
    there = done | ((operations.start <= moment) & (operations.kind != READ))
    places = np.flatnonzero(there)
    cut = operations.where(places)
    cut = replace(cut, end=np.where(done[places], cut.end, cut.never))
    # Operations that are not needed are left out.
    alone = needed(cut)
    return places[np.searchsorted(cut.start, alone.start)], alone


def _faults(operations: Operations, moment: int) -> list[Fault]:
    _, cut = _until(operations, moment)
    return judge(cut, gather(cut))[1]


def _core(
    operations: Operations, clusters: Clusters, blocks: Blocks, fault: Fault
) -> tuple[list[int], list[tuple[int, int]]]:
    members = np.flatnonzero(clusters.of == fault.a)
    reads = members[operations.kind[members] == READ]
    writer = int(clusters.writer[fault.a])
    match fault.kind:
        case "phantom":
            # A read or compare-and-set of a value that was never written.
            return [int(reads[0]) if writer < 0 else writer], []
        case "early":
            read = int(reads[np.argmin(operations.end[reads])])
            return [writer, read], [(read, writer)]
        case "twice":
            return [writer, int(clusters.writer[fault.b])], []
        case "circle":
            return _circle(clusters, fault.a), []
        case "order":
            return _chain_order(operations, clusters, blocks, fault.a)
    return _crossing(operations, clusters, blocks, fault)


def _circle(clusters: Clusters, cluster: int) -> list[int]:
    """Walk back along the compare-and-sets until one repeats."""
    seen: dict[int, None] = {}
    while cluster not in seen:
        seen[cluster] = None
        cluster = int(clusters.parent[cluster])
    circle = list(seen)[list(seen).index(cluster) :]
    return [int(clusters.writer[c]) for c in circle[:_CHAIN]]


def _chain_order(
    operations: Operations, clusters: Clusters, blocks: Blocks, cluster: int
) -> tuple[list[int], list[tuple[int, int]]]:
    """Find two operations of a chain that ended and began in the wrong order."""
    members = _members(clusters, blocks, int(blocks.root[cluster]))
    level = 2 * blocks.depth[clusters.of[members]] + (operations.kind[members] == READ)
    order = np.argsort(level, kind="stable")
    members, level = members[order], level[order]
    starts, ends = operations.start[members], operations.end[members]
    for at in np.flatnonzero(clusters.of[members] == cluster):
        late = np.flatnonzero((level < level[at]) & (starts > ends[at]))
        if len(late):
            first, second = int(members[at]), int(members[late[-1]])
            between = (level > level[late[-1]]) & (level < level[at])
            links = members[between & (operations.kind[members] == CAS)][:_CHAIN]
            return sorted({first, second, *map(int, links)}), [(first, second)]
    raise AssertionError("a chain out of order has two operations out of order")


def _members(clusters: Clusters, blocks: Blocks, root: int) -> Ints:
    found: Ints = np.flatnonzero(blocks.root[clusters.of] == root)
    return found


def _crossing(
    operations: Operations, clusters: Clusters, blocks: Blocks, fault: Fault
) -> tuple[list[int], list[tuple[int, int]]]:
    """Find in each of two blocks an operation that ended before one of the other began."""
    a = _members(clusters, blocks, fault.a)
    b = _members(clusters, blocks, fault.b)
    pairs = [_before(operations, a, b), _before(operations, b, a)]
    core = {place for pair in pairs for place in pair}
    writers = {int(clusters.writer[clusters.of[place]]) for place in core}
    return sorted(core | {place for place in writers if place >= 0}), pairs


def _before(operations: Operations, a: Ints, b: Ints) -> tuple[int, int]:
    """Return one of ``a`` that ended before one of ``b`` began, as close as possible.

    The initial value's write has no operation: it ended before everything.
    """
    ends, starts = operations.end[a], operations.start[b]
    early = np.flatnonzero(ends < starts.max()) if len(b) and len(a) else np.zeros(0, np.int64)
    if not len(early):
        place = int(b[0]) if len(b) else int(a[0])
        return place, place
    first = early[np.argmax(ends[early])]
    late = np.flatnonzero(starts > ends[first])
    return int(a[first]), int(b[late[np.argmin(starts[late])]])
