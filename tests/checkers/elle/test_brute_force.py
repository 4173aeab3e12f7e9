"""Verdicts against two naive judges that share no code with the checker.

The first tries every order of the transactions: a list-append history whose lists are all
read at the end is serializable exactly if some order of them explains every read. The second
builds the dependency graph from dictionaries and looks at every simple cycle there is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftwreck.checkers.elle import check_transactions
from kraftwreck.checkers.elle.models import boundary
from kraftwreck.histories.operation import Op, OpType
from kraftwreck.nodes.draw import draw_below

STRICT, SERIALIZABLE = "strict-serializable", "serializable"


class Txn:
    """A transaction with its interval in the history; ``end`` is None if it may lie ahead."""

    def __init__(self, begin: Op, end: Op) -> None:
        self.begin, self.completion = begin.index, end.index
        self.kind, self.process = end.type, end.process
        self.end = end.index if end.type == "ok" else None
        self.mops: list[Any] = end.value


def transactions(ops: Sequence[Op]) -> list[Txn]:
    begun: dict[int, Op] = {}
    found = []
    for op in ops:
        if op.type == "invoke":
            begun[op.process] = op
        elif op.type != "fail":
            found.append(Txn(begun[op.process], op))
    return found


def explains(order: Sequence[Txn], lists: bool) -> bool:
    """Return whether running ``order`` one by one gives every read its value."""
    state: dict[Any, Any] = {}
    for txn in order:
        for f, key, value in txn.mops:
            if f == "append":
                state[key] = [*state.get(key, []), value]
            elif f == "w":
                state[key] = value
            elif txn.kind == "ok" and state.get(key, [] if lists else None) != (
                (value or []) if lists else value
            ):
                return False
    return True


def orders(txns: Sequence[Txn], strict: bool) -> Iterator[Sequence[Txn]]:
    sure = [txn for txn in txns if txn.kind == "ok"]
    maybe = [txn for txn in txns if txn.kind != "ok"]
    for count in range(len(maybe) + 1):
        for some in itertools.combinations(maybe, count):
            for order in itertools.permutations([*sure, *some]):
                early = itertools.combinations(order, 2)
                if strict and any(b.end is not None and b.end < a.begin for a, b in early):
                    continue
                yield order


def serializable(ops: Sequence[Op], strict: bool, lists: bool) -> bool:
    return any(explains(order, lists) for order in orders(transactions(ops), strict))


class World:
    """A store that is wrong now and then, and a history of its clients.

    Every choice is a number below a bound, so that Hypothesis can draw and shrink it.
    """

    def __init__(self, choose: Any, lists: bool, txns: int, faults: int) -> None:
        self.choose, self.lists, self.faults = choose, lists, faults
        self.states: dict[str, list[Any]] = {"x": [[]], "y": [[]]}
        self.ops: list[Op] = []
        self.values = itertools.count(1)
        open_txns: dict[int, list[Any]] = {}
        left = txns
        while left or open_txns:
            process = choose(3)
            if process in open_txns:
                self._end(process, open_txns.pop(process))
            elif left:
                left -= 1
                open_txns[process] = self._ask()
                self._add(process, "invoke", open_txns[process])
        if lists:
            final = [["r", key, list(self.states[key][-1])] for key in "xy"]
            self._add(9, "invoke", [["r", key, None] for key in "xy"])
            self._add(9, "ok", final)

    def _ask(self) -> list[Any]:
        write = "append" if self.lists else "w"
        mops = []
        for _ in range(1 + self.choose(3)):
            key = "xy"[self.choose(2)]
            reads = self.choose(2)
            mops.append(["r", key, None] if reads else [write, key, next(self.values)])
        return mops

    def _end(self, process: int, mops: list[Any]) -> None:
        fate = self.choose(12)
        kind: OpType = "info" if fate == 0 else "fail" if fate == 1 else "ok"
        happens = kind == "ok" or (kind == "info" and self.choose(2) == 0)
        view = {key: self._view(key) for key in "xy"}
        seen = []
        for f, key, value in mops:
            if f == "r":
                item = view[key]
                seen.append([f, key, (list(item) or None) if self.lists else (item or None)])
                continue
            view[key] = [*view[key], value] if self.lists else value
            if happens:
                states = self.states[key]
                states.append([*states[-1], value] if self.lists else value)
            seen.append([f, key, value])
        self._add(process, kind, seen if kind == "ok" else mops)

    def _view(self, key: str) -> Any:
        states = self.states[key]
        return states[self.choose(len(states))] if self.choose(8) < self.faults else states[-1]

    def _add(self, process: int, kind: OpType, value: list[Any]) -> None:
        at = len(self.ops)
        self.ops.append(Op(index=at, process=process, type=kind, f="txn", value=value, time=at))


def random_world(seed: int, lists: bool, txns: int, faults: int) -> list[Op]:
    count = itertools.count()
    return World(lambda bound: draw_below(bound, seed, next(count)), lists, txns, faults).ops


@st.composite
def worlds(draw: Any, lists: bool) -> list[Op]:
    def choose(bound: int) -> int:
        return int(draw(st.integers(0, bound - 1)))

    return World(choose, lists, choose(4) + 1, choose(5)).ops


def agree_on_lists(ops: list[Op]) -> None:
    for model, strict in ((STRICT, True), (SERIALIZABLE, False)):
        result = check_transactions(ops, "list-append", consistency_models=[model])
        truth = serializable(ops, strict, lists=True)
        # Nothing depends on anything: then every order explains the reads.
        found = True if result.valid == "unknown" else result.valid
        assert found is truth, (model, result.anomalies, ops)


@pytest.mark.parametrize("faults", [0, 1, 3])
def test_lists_are_judged_as_by_trying_every_order(faults: int) -> None:
    verdicts = []
    for seed in range(70):
        ops = random_world(seed * 7 + faults, True, 4, faults)
        agree_on_lists(ops)
        verdicts.append(serializable(ops, True, lists=True))
    assert faults == 0 or {True, False} == set(verdicts)


@settings(max_examples=80, deadline=None)
@given(worlds(lists=True))
def test_any_small_list_history_is_judged_as_by_trying_every_order(ops: list[Op]) -> None:
    agree_on_lists(ops)


def never_blamed(ops: list[Op]) -> None:
    """A history with a legal order must not be invalid under any assumption."""
    if serializable(ops, False, lists=False):
        result = check_transactions(ops, "rw-register", consistency_models=[SERIALIZABLE])
        assert result.valid is not False, (result.anomalies, ops)
    if serializable(ops, True, lists=False):
        result = check_transactions(
            ops, "rw-register", wfr_keys=True, sequential_keys=True, linearizable_keys=True
        )
        assert result.valid is not False, (result.anomalies, ops)


@pytest.mark.parametrize("faults", [0, 1, 3])
def test_registers_that_some_order_explains_are_never_blamed(faults: int) -> None:
    for seed in range(70):
        never_blamed(random_world(seed * 7 + faults, False, 4, faults))


@settings(max_examples=80, deadline=None)
@given(worlds(lists=False))
def test_any_small_register_history_that_some_order_explains_is_not_blamed(
    ops: list[Op],
) -> None:
    never_blamed(ops)


# --- every simple cycle ----------------------------------------------------------------------


def naive_graph(ops: Sequence[Op], order: str) -> nx.MultiDiGraph[int]:
    """Return the dependencies of a list-append history whose reads are prefixes of the last."""
    txns = [txn for txn in transactions(ops) if txn.completion >= 0]
    graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
    final = {key: value for _, key, value in ops[-1].value}
    writer: dict[tuple[str, int], int] = {}
    for txn in txns:
        for f, key, value in txn.mops:
            if f == "append":
                writer[key, value] = txn.completion
    reads = [
        (txn.completion, key, list(value or ()))
        for txn in txns
        if txn.kind == "ok"
        for f, key, value in txn.mops
        if f == "r"
    ]

    def link(a: int | None, b: int | None, kind: str) -> None:
        if a is not None and b is not None and a != b:
            graph.add_edge(a, b, key=kind)

    for txn in txns:
        for f, key, value in txn.mops:
            if f != "append":
                continue
            known = final[key]
            before = known[: known.index(value)] if value in known else known
            link(writer.get((key, before[-1])) if before else None, txn.completion, "ww")
            for reader, read_key, state in reads:
                if read_key == key and state == before:
                    link(reader, txn.completion, "rw")
    for reader, key, state in reads:
        if state:
            link(writer.get((key, state[-1])), reader, "wr")
    for a, b in itertools.permutations(txns, 2):
        if order == "realtime" and a.end is not None and a.end < b.begin:
            link(a.completion, b.completion, "realtime")
        both = a.kind == b.kind == "ok" and a.process == b.process
        if order == "process" and both and a.completion < b.completion:
            link(a.completion, b.completion, "process")
    return graph


def naive_types(graph: nx.MultiDiGraph[int]) -> set[str]:
    """Return what every simple cycle is, for every choice of its edges' kinds."""
    found: set[str] = set()
    for nodes in nx.simple_cycles(nx.DiGraph(graph)):
        pairs = itertools.pairwise([*nodes, nodes[0]])
        for kinds in itertools.product(*(sorted(graph[a][b]) for a, b in pairs)):
            rw = kinds.count("rw")
            if rw > 1:
                turned = zip(kinds, (*kinds[1:], kinds[0]), strict=True)
                adjacent = any(a == b == "rw" for a, b in turned)
                name = "G2-item" if adjacent else "G-nonadjacent-item"
            else:
                name = "G-single-item" if rw else "G1c" if "wr" in kinds else "G0"
            order = {"realtime", "process"} & set(kinds)
            found.add(f"{name}-{order.pop()}" if order else name)
    return found


@pytest.mark.parametrize(
    ("order", "model"),
    [("realtime", STRICT), ("process", "strong-session-serializable"), ("", SERIALIZABLE)],
)
def test_cycles_are_those_that_looking_at_every_cycle_finds(order: str, model: str) -> None:
    cyclic = 0
    seen: set[str] = set()
    for seed in range(110):
        ops = random_world(seed, True, 5, 3)
        found = check_transactions(ops, "list-append", consistency_models=[model]).stats["elle"]
        others = {"internal", "lost-update", "G1a", "G1b", "incompatible-order", "dirty-update"}
        cases = found.get("anomalies", {})
        if others & set(cases) or "empty-transaction-graph" in cases:
            continue
        truth = naive_types(naive_graph(ops, order))
        ours = set(cases)
        assert ours <= truth, (ours, truth, ops)
        assert boundary(ours) == boundary(truth), (ours, truth, ops)
        cyclic += bool(truth)
        seen |= ours
    assert cyclic > 10
    assert {"G-single-item", "G2-item"} <= seen
