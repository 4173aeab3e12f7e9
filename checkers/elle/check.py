"""Checks histories of transactions: ``list-append`` and ``rw-register``.

Source: Kingsbury, Alvaro, "Elle: Inferring Isolation Anomalies from Experimental
Observations" (VLDB 2020).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import thread_time
from typing import Any

import numpy as np
import pyarrow as pa

from kraftwreck.checkers.elle import models, predicates, supported
from kraftwreck.checkers.elle.append_anomalies import append_anomalies
from kraftwreck.checkers.elle.append_graph import AppendGraph
from kraftwreck.checkers.elle.commitment import doubtful_reads
from kraftwreck.checkers.elle.component import Budget, Component
from kraftwreck.checkers.elle.cycles import Search, search
from kraftwreck.checkers.elle.explain import SENTENCES, Explainer, cycle_map, operations_of, text_of
from kraftwreck.checkers.elle.graph import Graph, joined, process_edges, realtime_edges
from kraftwreck.checkers.elle.reading import WRITES, read_transactions
from kraftwreck.checkers.elle.transactions import (
    Bools,
    Ints,
    RepeatedAppendError,
    TransactionError,
    Transactions,
)
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import from_table
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Validity

MODELS = (*WRITES, predicates.NAME)
"""The models of :func:`check_transactions`."""
SEARCH_SECONDS = 10.0
_COMPONENTS_AT_MOST = 6  # that use up their time; later ones get none
_SHOWN = 5  # operations in a message
STRICT = ("strict-serializable",)
Parts = list[tuple[Ints, Ints, int]]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Elle's options.

    A history is invalid with an anomaly that breaks one of ``consistency_models`` or shows one
    of ``anomalies``. For registers, ``sequential_keys``, ``linearizable_keys`` and ``wfr_keys``
    are assumptions about each key: that it is sequentially consistent, that it is linearizable,
    that a transaction's write of it follows its read. ``transaction_order`` maps the index of a
    completion to the place of its transaction, if the system reports it. For lists,
    ``indeterminate_reads`` trusts the reads of transactions that may have aborted.
    """

    consistency_models: Sequence[str] = STRICT
    anomalies: Sequence[str] = ()
    sequential_keys: bool = False
    linearizable_keys: bool = False
    wfr_keys: bool = False
    transaction_order: Mapping[Any, float] | None = None
    indeterminate_reads: bool = False
    cycle_search_seconds: float = SEARCH_SECONDS

    def forbidden(self, model: str) -> frozenset[str]:
        """Return every forbidden anomaly in histories of ``model``.

        Raises :class:`models.UnknownModelError` for a name that cannot be decided in them.
        """
        return supported.forbidden(model, self.consistency_models, self.anomalies)


@dataclass(frozen=True)
class Analysis:
    """Elle's result map, and statistics of the analysis."""

    model: str
    result: dict[str, Any]
    stats: dict[str, Any]


def check_transactions(
    history: Sequence[Op] | pa.Table,
    model: str,
    *,
    consistency_models: Sequence[str] = STRICT,
    anomalies: Sequence[str] = (),
    sequential_keys: bool = False,
    linearizable_keys: bool = False,
    wfr_keys: bool = False,
    transaction_order: Mapping[Any, float] | None = None,
    indeterminate_reads: bool = False,
    cycle_search_seconds: float = SEARCH_SECONDS,
) -> CheckerResult:
    """Judge a history of transactions.

    ``history`` is a list of operations, or a table of
    :data:`histories.tables.HISTORY_SCHEMA`, which is far faster. ``stats["elle"]`` of the
    result is Elle's result map (``valid?``, ``anomaly-types``, ``anomalies``, ``not``,
    ``also-not``). Raises :class:`~checkers.elle.transactions.TransactionError` for a history of
    another model, and :class:`~checkers.elle.models.UnknownModelError` for a name of a
    consistency model or anomaly that does not exist or cannot be decided.
    """
    options = Options(
        consistency_models=consistency_models,
        anomalies=anomalies,
        sequential_keys=sequential_keys,
        linearizable_keys=linearizable_keys,
        wfr_keys=wfr_keys,
        transaction_order=transaction_order,
        indeterminate_reads=indeterminate_reads,
        cycle_search_seconds=cycle_search_seconds,
    )
    return as_checker_result(analyze(history, model, options))


def analyze(history: Sequence[Op] | pa.Table, model: str, options: Options) -> Analysis:
    """Return Elle's result map for a history; see :func:`check_transactions`."""
    if model not in MODELS:
        raise TransactionError(f"no model {model!r}; there are {', '.join(MODELS)}")
    options.forbidden(model)
    if model == predicates.NAME:
        ops = from_table(history, Op) if isinstance(history, pa.Table) else history
        universe = predicates.Universe(ops)
        misses = universe.misses()
        known = universe.dirty_reads()
        if misses:
            known["predicate-read-miss"] = misses
        return _judged(model, universe.transactions, universe.edges(), universe, known, options)
    try:
        transactions = read_transactions(history, model)
    except RepeatedAppendError as error:
        refused = {"valid?": "unknown", "type": "duplicate-appends", "message": str(error)}
        return Analysis(model, refused, {})
    if model == "list-append":
        return _lists(transactions, options)
    from kraftwreck.checkers.elle.register_graph import register_graph

    explainer, parts, found = register_graph(
        transactions,
        order=options.transaction_order,
        wfr=options.wfr_keys,
        sequential=options.sequential_keys,
        linearizable=options.linearizable_keys,
    )
    return _judged(model, transactions, parts, explainer, found, options)


def _lists(transactions: Transactions, options: Options) -> Analysis:
    """Judge lists by the reads of committed transactions, then by those of all.

    Anomalies of the second pass alone rest on reads of transactions that may have aborted.
    """
    doubtful = doubtful_reads(transactions)
    nobody = np.zeros_like(doubtful)
    if options.indeterminate_reads or not doubtful.any():
        return _lists_without(nobody, transactions, options)
    certain = _lists_without(doubtful, transactions, options)
    if certain.result["valid?"] is False:
        return certain
    believed = _lists_without(nobody, transactions, options)
    if believed.result["valid?"] is not False:
        return certain
    events = np.flatnonzero(doubtful)
    result = {
        **believed.result,
        "valid?": "unknown",
        "not": certain.result.get("not", []),
        "also-not": certain.result.get("also-not", []),
        "message": _doubt(believed.result, transactions.events.index[events].tolist()),
    }
    return Analysis(certain.model, result, certain.stats)


def _doubt(result: dict[str, Any], readers: list[int]) -> str:
    types = ", ".join(name for name in result["anomaly-types"] if name not in models.UNKNOWN_TYPES)
    shown = ", ".join(map(str, readers[:_SHOWN])) + (", ..." if len(readers) > _SHOWN else "")
    return (
        f"unknown: {types} only with the reads of transactions that may have aborted "
        f"(operation {shown}); -o indeterminate-reads=true trusts these reads, as Elle does"
    )


def _lists_without(ignored: Bools, transactions: Transactions, options: Options) -> Analysis:
    """Judge lists by all reads except those of the transactions ``ignored`` marks, by event."""
    orders, found = append_anomalies(transactions, ignored)
    appends = AppendGraph(transactions, orders)
    analysis = _judged("list-append", transactions, appends.edges(), appends, found, options)
    if analysis.result["valid?"] is not True or not orders.contested:
        return analysis
    weakest, stronger = models.boundary(found)
    result = {
        "valid?": "unknown",
        "anomaly-types": ["incompatible-order"],
        "anomalies": {"incompatible-order": found["incompatible-order"]},
        "not": weakest,
        "also-not": stronger,
        "message": "unknown: the longest reads of a key contradict each other, "
        "so the order of its versions is not known",
    }
    return Analysis(analysis.model, result, analysis.stats)


def _judged(
    model: str,
    transactions: Transactions,
    parts: Parts,
    explainer: Explainer,
    found: dict[str, Any],
    options: Options,
) -> Analysis:
    """Look for cycles among ``parts`` and judge them together with what was ``found``."""
    wanted = options.forbidden(model)
    graph = _with_orders(transactions, parts, wanted)
    if graph.empty:
        found["empty-transaction-graph"] = True
    else:
        _add_cycles(transactions, graph, explainer, options.cycle_search_seconds, found)
    stats = {
        "transactions": int((transactions.possible).sum()),
        "micro_operations": len(transactions.mops),
        "edges": len(graph.source),
    }
    return Analysis(model, result_map(found, wanted), stats)


def _with_orders(transactions: Transactions, parts: Parts, wanted: frozenset[str]) -> Graph:
    """Return the graph of data, with the order that the wanted anomalies refer to."""
    moments = np.zeros(0, dtype=np.int64)
    if any(name.endswith("-realtime") for name in wanted):
        more, moments = realtime_edges(transactions)
        parts = [*parts, *more]
    elif any(name.endswith("-process") for name in wanted):
        parts = [*parts, process_edges(transactions)]
    return joined(transactions, parts, moments)


def _add_cycles(
    transactions: Transactions,
    graph: Graph,
    explainer: Explainer,
    seconds: float,
    found: dict[str, Any],
) -> None:
    last = thread_time() + _COMPONENTS_AT_MOST * seconds
    for edges in graph.components():
        budget = Budget(min(last, thread_time() + seconds))
        component = Component(graph, edges, budget)
        result = search(component)
        for cycle in result.cycles:
            shown = cycle_map(transactions, explainer, cycle)
            found.setdefault(cycle.type, []).append(shown)
        if result.timed_out is not None:
            _add_unfinished(transactions, component, result, found)


def _add_unfinished(
    transactions: Transactions, component: Component, result: Search, found: dict[str, Any]
) -> None:
    known = {cycle.type for cycle in result.cycles}
    found.setdefault("cycle-search-timeout", []).append(
        {
            "type": "cycle-search-timeout",
            "anomaly-spec-type": result.timed_out,
            "does-not-contain": [name for name in result.looked[:-1] if name not in known],
            "scc-size": len(component.events),
        }
    )
    for name, events in result.exists.items():
        broken, _ = models.boundary([name])
        indices = sorted(int(transactions.events.index[event]) for event in events)
        found.setdefault(name, []).append(
            {"type": name, "not": broken[0], "scc-size": len(indices), "scc": indices}
        )


def result_map(found: dict[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
    """Return Elle's result map for the anomalies ``found``, where ``wanted`` are forbidden."""
    wanted = frozenset(wanted)
    by_others = models.broken(name for name in found if not name.endswith("-cycle-exists"))
    shown = {
        name: cases
        for name, cases in sorted(found.items())
        if (name in wanted or name in models.UNKNOWN_TYPES) and not _told(name, by_others)
    }
    if not shown:
        return {"valid?": True}
    weakest, stronger = models.boundary(found)
    valid: Validity = False if wanted & found.keys() else "unknown"
    return {
        "valid?": valid,
        "anomaly-types": list(shown),
        "anomalies": shown,
        "not": weakest,
        "also-not": stronger,
    }


def _told(name: str, by_others: set[str]) -> bool:
    """Return whether other anomalies break the model that ``-cycle-exists`` breaks."""
    if not name.endswith("-cycle-exists"):
        return False
    return name.removesuffix("-cycle-exists") in by_others


def as_checker_result(analysis: Analysis) -> CheckerResult:
    """Return an analysis as this project's verdict, with an explanation of each anomaly."""
    result = analysis.result
    sentence = SENTENCES[analysis.model]
    anomalies = [
        Anomaly(
            type=name, explanation=text_of(name, case, sentence), operations=operations_of(case)
        )
        for name, cases in result.get("anomalies", {}).items()
        for case in (cases if isinstance(cases, list) else [cases])
    ]
    valid: Validity = result["valid?"]
    error = None
    if valid == "unknown":
        error = result.get("message") or "unknown: " + ", ".join(result["anomaly-types"])
    return CheckerResult(
        valid=valid, anomalies=anomalies, stats={**analysis.stats, "elle": result}, error=error
    )
