"""Cycles of sends and polls among transactions, named as Elle names them.

``wr``: a value was sent by one operation and polled by another. ``ww`` (option ``ww-deps``):
a value follows another in the log. ``realtime``: one ended before the other began. Kafka does
not isolate the writes of transactions, so ``G0`` is never an error, and with ``ww`` edges neither
is ``G1c``.
"""

from __future__ import annotations

from typing import Any

from kraftwreck.checkers.jepsen.judgement import pairs
from kraftwreck.checkers.jepsen.kafka.logs import Logs
from kraftwreck.checkers.jepsen.kafka.operations import CALLS, Operation
from kraftwreck.checkers.linearizability.models import thaw

Graph = Any  # networkx.DiGraph, which has no types of its own
_SPECS = (
    ("G0", "PL-1-cycle-exists", "read-uncommitted", ("ww",), False),
    ("G1c", "PL-2-cycle-exists", "read-committed", ("ww", "wr"), False),
    ("G0-realtime", "strong-PL-1-cycle-exists", "strong-read-uncommitted", ("ww",), True),
    ("G1c-realtime", "strong-PL-2-cycle-exists", "strong-read-committed", ("ww", "wr"), True),
)
_IMPLIED = {
    "G0": {"G1c", "G0-realtime", "G1c-realtime"},
    "G1c": {"G1c-realtime"},
    "G0-realtime": {"G1c-realtime"},
}
_LISTED = 8


def find_cycles(operations: list[Operation], logs: Logs, with_ww: bool) -> dict[str, Any]:
    """Return the cycles by their names, and ``empty-transaction-graph``."""
    if not operations:
        return {}
    data = _dependencies(logs, with_ww)
    real, chain = _realtime(operations)
    if not data and not real:
        return {"empty-transaction-graph": True}
    errors: dict[str, Any] = {}
    whole = _graph(data, ("ww", "wr"))
    whole.add_edges_from(real)
    for component in _components(whole):
        found: set[str] = set()
        for name, exists, model, kinds, realtime in _SPECS:
            if any(name in _IMPLIED.get(other, ()) for other in found):
                continue
            graph = _graph({e: k for e, k in data.items() if set(e) <= component}, kinds)
            if realtime:
                graph.add_edges_from(e for e in real if set(e) <= component)
            for members in _components(graph):
                found.add(name)
                own = sorted(node for node in members if node < chain)
                _report(errors, name, exists, model, graph.subgraph(members), own, operations, data)
    return errors


Edge = tuple[int, int]
Edges = dict[Edge, tuple[str, str, Any, Any]]


def _dependencies(logs: Logs, with_ww: bool) -> Edges:
    """Return the edges between completions: (kind, key, value, following value)."""
    edges: Edges = {}
    for key, values in logs.readers.items():
        for value, readers in values.items():
            writer = logs.writer.get(key, {}).get(value)
            for reader in readers if writer is not None else ():
                assert writer is not None
                if reader is not writer:
                    edges.setdefault((writer.number, reader.number), ("wr", key, value, None))
    if with_ww:
        for key, written in logs.writer.items():
            for value, writer in written.items():
                index = logs.index(key, value)
                before = logs.logs[key].by_index[index - 1] if index else None
                earlier = None if not index else written.get(before)
                if earlier is not None and earlier is not writer:
                    edges[earlier.number, writer.number] = ("ww", key, before, value)
    return edges


def _realtime(operations: list[Operation]) -> tuple[list[Edge], int]:
    """Return real-time order as edges over a chain of moments, and the chain's first node.

    A completion that ended ``ok`` comes before its moment, each moment before the next one,
    and the last moment before an invocation before its completion: two edges an operation,
    however many run at a time.
    """
    calls = [operation for operation in operations if operation.f in CALLS]
    partner = pairs(operation.event for operation in calls)
    number_of = {id(operation.event): operation.number for operation in calls}
    chain = moment = len(operations)
    edges: list[Edge] = []
    began: dict[int, int] = {}
    for place, operation in enumerate(calls):
        if operation.type == "invoke":
            completion = partner.get(place)
            if completion is not None and moment > chain:
                began[number_of[id(completion)]] = moment
            continue
        if operation.type == "ok":
            moment += 1
            edges += [(moment - 1, moment), (operation.number, moment)]
    edges += [(moment_before, number) for number, moment_before in began.items()]
    return (edges if began else []), chain


def _graph(edges: Edges, kinds: tuple[str, ...]) -> Graph:
    import networkx as nx  # as long to import as a short history takes to judge

    graph: Graph = nx.DiGraph()
    graph.add_edges_from(edge for edge, (kind, *_) in edges.items() if kind in kinds)
    return graph


def _components(graph: Graph) -> list[set[int]]:
    import networkx as nx

    return [members for members in nx.strongly_connected_components(graph) if len(members) > 1]


def _report(
    errors: dict[str, Any],
    name: str,
    exists: str,
    model: str,
    graph: Graph,
    members: list[int],
    operations: list[Operation],
    data: Edges,
) -> None:
    places = [operations[number].event.index for number in members]
    errors.setdefault(exists, []).append(
        {"type": exists, "not": model, "scc-size": len(places), "scc": places}
    )
    cycles = errors.setdefault(name, [])
    if len(cycles) >= _LISTED:
        return
    cycle = _shortest(graph, members, data)
    nodes = [number for number in cycle if number < len(operations)]
    steps = []
    for a, b in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        edge = data.get((a, b))
        if edge is None:
            steps.append({"type": "realtime", "a'": operations[a].name, "b": operations[b].name})
            continue
        kind, key, value, following = edge
        step = {"type": kind, "key": key, "value": thaw(value)}
        if kind == "ww":
            step["value'"] = thaw(following)
        after = following if kind == "ww" else value
        step["a-mop-index"] = _place(operations[a], True, key, value)
        step["b-mop-index"] = _place(operations[b], kind == "ww", key, after)
        steps.append(step)
    names = [operations[number].name for number in [*nodes, nodes[0]]]
    cycles.append({"cycle": names, "steps": steps, "type": name})


def _place(operation: Operation, send: bool, key: str, value: Any) -> int:
    """Return the micro-operation that sent or polled ``value``."""
    return next(
        place
        for place, sends, there, (_, moved) in operation.moves
        if sends is send and there == key and moved == value
    )


def _shortest(graph: Graph, members: list[int], data: Edges) -> list[int]:
    """Return a shortest cycle through some dependency between members."""
    import networkx as nx

    best: list[int] | None = None
    own = set(members)
    for tried, (a, b) in enumerate(edge for edge in data if own.issuperset(edge)):
        if tried >= 64 and best is not None:
            break
        if not graph.has_edge(a, b):
            continue
        path = nx.shortest_path(graph, b, a)
        if best is None or len(path) < len(best):
            best = path
    assert best is not None, "a component without a dependency cannot be a cycle"
    return [best[-1], *best[:-1]]
