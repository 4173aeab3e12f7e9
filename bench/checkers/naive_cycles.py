"""The anomalies of a small list-append history, found by testing every pair and every cycle.

Histories end with a read of both lists, so the order of their appends is known. Shares no code with
the checker but the names of the models that anomalies refute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from kraftwreck.checkers.elle.models import boundary
from kraftwreck.histories.operation import Op

WW, WR, RW, ORDER = 1, 2, 4, 8
DIRECT = frozenset(
    ["G1a", "G1b", "internal", "lost-update", "dirty-update", "incompatible-order"]
)  # fmt: skip


class Txn(NamedTuple):
    """A transaction; ``kind`` is ok, info, fail or open (never answered)."""

    begin: int
    end: int
    process: int
    kind: str
    moves: Any


class Found(NamedTuple):
    """Kinds of anomalies seen directly, and those of cycles (None: not searched)."""

    direct: frozenset[str]
    circles: frozenset[str] | None


NOTHING = Found(frozenset(), frozenset())


def summary(told: dict[str, Any]) -> Found:
    """Return the summary of Elle's result map."""
    types = frozenset(told.get("anomalies", {})) - {"empty-transaction-graph"}
    return Found(types & DIRECT, types - DIRECT)


def agree(ours: Found, true: Found) -> bool:
    """The direct kinds are the same, no cycle is invented, and the same models are refuted."""
    if ours.direct != true.direct:
        return False
    if true.circles is None or ours.circles is None:
        return True
    return ours.circles <= true.circles and boundary(ours.circles) == boundary(true.circles)


def anomalies(ops: Sequence[Op], order: str) -> Found:
    """Return all anomalies; ``order``: ``realtime``, ``process`` or none counts as well."""
    txns = list(_transactions(ops))
    final = {key: tuple(value or ()) for _, key, value in txns[-1].moves}
    reads = [
        (txn, key, tuple(value or ()))
        for txn in txns
        if txn.kind == "ok"
        for f, key, value in txn.moves
        if f == "r"
    ]
    direct = set(_direct(txns, reads))
    for (_, key, one), (_, other_key, other) in combinations(reads, 2):
        short, long = sorted((one, other), key=len)
        if key == other_key and long[: len(short)] != short:
            direct.add("incompatible-order")
    seen = {(key, item) for _, key, items in reads for item in items}
    failed = {(key, v) for t in txns if t.kind == "fail" for f, key, v in t.moves if f == "append"}
    if "incompatible-order" in direct or seen & failed:
        return Found(frozenset(direct), None)
    nodes = [
        txn
        for txn in txns
        if txn.kind in ("ok", "info")
        or (txn.kind == "open" and any((k, v) in seen for f, k, v in txn.moves if f == "append"))
    ]
    return Found(frozenset(direct), frozenset(_circles(nodes, reads, final, order)))


def _transactions(ops: Sequence[Op]) -> Iterator[Txn]:
    begun: dict[int, Op] = {}
    found = []
    for op in ops:
        if op.type == "invoke":
            begun[op.process] = op
        else:
            first = begun.pop(op.process)
            found.append(Txn(first.index, op.index, op.process, op.type, op.value))
    found += [Txn(op.index, 1 << 40, op.process, "open", op.value) for op in begun.values()]
    yield from sorted(found, key=lambda txn: txn.end if txn.kind != "open" else -1)


def _direct(txns: list[Txn], reads: list[tuple[Txn, str, tuple[int, ...]]]) -> Iterator[str]:
    writer = {}
    last = set()
    for txn in txns:
        mine: dict[str, int] = {}
        for f, key, value in txn.moves:
            if f == "append":
                writer[key, value] = txn
                mine[key] = value
        last |= set(mine.items())
    for reader, key, items in reads:
        if any(writer[key, item].kind == "fail" for item in items):
            yield "G1a"
        if items and (key, items[-1]) not in last and writer[key, items[-1]] is not reader:
            yield "G1b"
        states = [writer[key, item].kind for item in items]
        if "fail" in states and "ok" in states[states.index("fail") :]:
            yield "dirty-update"
    updates: set[tuple[str, tuple[int, ...]]] = set()
    for txn in txns:
        if txn.kind != "ok":
            continue
        if _contradicts_itself(txn):
            yield "internal"
        for key in "xy":
            moves = [(f, value) for f, k, value in txn.moves if k == key]
            reading = [at for at, (f, _) in enumerate(moves) if f == "r"][:1]
            # As Elle counts: the first read, even of the transaction's own write.
            if reading and any(f == "append" for f, _ in moves[reading[0] :]):
                version = key, tuple(moves[reading[0]][1] or ())
                if version in updates:
                    yield "lost-update"
                updates.add(version)


def _contradicts_itself(txn: Txn) -> bool:
    for key in "xy":
        known: list[int] | None = None
        added: list[int] = []
        for f, k, value in txn.moves:
            if k != key:
                continue
            if f == "append":
                added.append(value)
                continue
            items = list(value or ())
            expected = added if known is None else [*known, *added]
            if known is None and items[len(items) - len(added) :] != added:
                return True
            if known is not None and items != expected:
                return True
            known, added = items, []
    return False


def _circles(
    nodes: list[Txn],
    reads: list[tuple[Txn, str, tuple[int, ...]]],
    final: dict[str, tuple[int, ...]],
    order: str,
) -> set[str]:
    place = {id(txn): at for at, txn in enumerate(nodes)}
    edges = [[0] * len(nodes) for _ in nodes]
    writer = {(key, value): txn for txn in nodes for f, key, value in txn.moves if f == "append"}

    def link(a: Txn | None, b: Txn | None, kind: int) -> None:
        if a is not None and b is not None and a is not b:
            edges[place[id(a)]][place[id(b)]] |= kind

    for (key, value), txn in writer.items():
        known = final[key]
        before = known[: known.index(value)] if value in known else known
        if before:
            link(writer.get((key, before[-1])), txn, WW)
        for reader, read_key, items in reads:
            if read_key == key and items == before:
                link(reader, txn, RW)
    for reader, key, items in reads:
        if items:
            link(writer.get((key, items[-1])), reader, WR)
    for a in nodes:
        for b in nodes:
            if order == "realtime" and a.kind == "ok" and a.end < b.begin:
                link(a, b, ORDER)
            if order == "process" and a.kind == b.kind == "ok" and a.process == b.process:
                link(a, b, ORDER if a.end < b.end else 0)
    found: set[str] = set()
    for first in range(len(nodes)):
        _walk(edges, first, first, 1 << first, {(0, 0, 0, 0, 0, 0)}, found, f"-{order}")
    return found


# Of a path: first step rw, last step rw, how many rw (2: or more), two in a row, wr, order.
_State = tuple[int, int, int, int, int, int]


def _walk(
    edges: list[list[int]],
    first: int,
    at: int,
    passed: int,
    states: set[_State],
    found: set[str],
    suffix: str,
) -> None:
    """Continue from ``at`` to all nodes after ``first``, and name each cycle that closes."""
    for to in range(first, len(edges)):
        kinds = edges[at][to]
        if not kinds or (passed >> to & 1 and to != first):
            continue
        reached: set[_State] = set()
        for begins, ends, count, adjacent, wr, order in states:
            start = at == first and passed == 1 << first
            for kind in (WW, WR, RW, ORDER):
                if kinds & kind:
                    rw = int(kind == RW)
                    reached.add(
                        (
                            rw if start else begins,
                            rw,
                            min(2, count + rw),
                            adjacent | (rw & ends if not start else 0),
                            wr | (kind == WR),
                            order | (kind == ORDER),
                        )
                    )
        if to != first:
            _walk(edges, first, to, passed | 1 << to, reached, found, suffix)
            continue
        for begins, ends, count, adjacent, wr, order in reached:
            if count > 1:
                name = "G2-item" if adjacent or (begins and ends) else "G-nonadjacent-item"
            else:
                name = "G-single-item" if count else "G1c" if wr else "G0"
            found.add(f"{name}{suffix}" if order else name)
