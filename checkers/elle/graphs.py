"""Cycles of transactions as graphs, for programs that read GraphML (Gephi, yEd, networkx)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kraftwreck.checkers.elle.explain import op_text

if TYPE_CHECKING:
    import networkx as nx


def network(anomalies: Mapping[str, Any]) -> nx.MultiDiGraph[int]:
    """Return the cycles among ``anomalies`` (Elle's map by type) as one graph.

    Nodes are the indices of operations, with their text as ``label``. An edge from one transaction
    to the next has the ``kind`` of the dependency, the type of its ``anomaly``, the number of its
    ``cycle`` and Elle's ``step`` as JSON.
    """
    import networkx as nx  # as long to import as a short history takes to judge

    graph: nx.MultiDiGraph[int] = nx.MultiDiGraph()
    cycles = [
        (kind, case)
        for kind, cases in anomalies.items()
        if isinstance(cases, list)  # An empty graph of transactions is noted as True.
        for case in cases
        if "cycle" in case
    ]
    for number, (kind, case) in enumerate(cycles, 1):
        ops = case["cycle"]  # The first operation is also the last.
        for op in ops[:-1]:
            graph.add_node(op["index"], label=op_text(op), process=op["process"])
        for a, b, step in zip(ops, ops[1:], case["steps"], strict=False):
            text = msgspec.json.encode(step, enc_hook=str).decode()
            labels = {"kind": step["type"], "anomaly": kind, "cycle": number, "step": text}
            graph.add_edge(a["index"], b["index"], **labels)
    return graph


def write_graph(path: Path, anomalies: Mapping[str, Any]) -> None:
    """Write the cycles among ``anomalies`` to ``path`` as GraphML. Raises OSError."""
    import networkx as nx

    nx.write_graphml_xml(network(anomalies), path)
