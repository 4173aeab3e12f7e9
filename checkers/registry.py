"""All checkers by name, and how several are run over one run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points

from kraftwreck.checkers import (
    committed,
    conformance,
    epochs,
    invariants,
    partitions,
    recovery,
    stats,
    strength,
)
from kraftwreck.checkers.linearizability import keyed as linearizable
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.verdict import CheckerResult, Verdict

Checker = Callable[[RunData], CheckerResult]
"""A pure function: it reads the run and returns a verdict."""

CHECKERS: dict[str, Checker] = {
    "stats": stats.check,
    "epochs": epochs.check,
    "committed": committed.check,
    "linearizable": linearizable.check,
    "partitions": partitions.check,
    "invariants": invariants.check,
    "conformance": conformance.check,
    "recovery": recovery.check,
    strength.NAME: strength.check,
}


BY_ALL_NODES = ("invariants", "conformance", "recovery")
"""Checkers that compare the reports of different nodes."""


def find(name: str) -> Checker:
    """Return a built-in checker, or one that a package offers as ``kraftwreck.checkers``.

    Raises :class:`KeyError` with the names there are.
    """
    if name in CHECKERS:
        return CHECKERS[name]
    offered = entry_points(group="kraftwreck.checkers")
    for entry in offered:
        if entry.name == name:
            checker: Checker = entry.load()
            return checker
    names = sorted({*CHECKERS, *(entry.name for entry in offered)})
    raise KeyError(f"no checker {name!r}; there are {', '.join(names)}")


def abouts() -> dict[str, str]:
    """Return every checker's name and what it checks: the first sentence of its module."""
    offered = {entry.name: find(entry.name) for entry in entry_points(group="kraftwreck.checkers")}
    return {name: _about(checker) for name, checker in {**CHECKERS, **offered}.items()}


def _about(checker: Checker) -> str:
    module = sys.modules.get(getattr(checker, "__module__", ""))
    paragraph = ((module.__doc__ if module is not None else None) or "").strip().split("\n\n")[0]
    sentence, stop, _ = " ".join(paragraph.split()).partition(". ")
    return sentence.removesuffix(".") if stop else sentence.rstrip(".")


def check(run: RunData, names: Iterable[str]) -> Verdict:
    """Run the checkers called ``names`` over ``run`` and merge their verdicts.

    A checker that raises, and an unknown name, is ``unknown`` with the error's text, and
    hides no other checker's verdict. So is one of :data:`BY_ALL_NODES` that finds
    anything while the records of a node are missing (``uncollected`` in ``test.json``).
    """
    results: dict[str, CheckerResult] = {}
    for name in names:
        try:
            results[name] = find(name)(run)
        except Exception as error:
            text = str(error.args[0]) if isinstance(error, KeyError) else str(error)
            results[name] = CheckerResult(valid="unknown", error=f"{type(error).__name__}: {text}")
    if missing := run.test.get("uncollected"):
        for name in set(BY_ALL_NODES) & set(results):
            _doubt(results[name], ", ".join(missing))
    _tell_once(results)
    return Verdict.of(results)


def _doubt(result: CheckerResult, missing: str) -> None:
    """Withdraw a verdict against a run in which the records of a node are missing."""
    if result.valid is False:
        result.valid = "unknown"
        result.error = f"no proof without the records of {missing}, which could not be collected"


def _tell_once(results: dict[str, CheckerResult]) -> None:
    """Remove the anomalies of ``invariants`` that another checker reports in the same words.

    Its verdict and its table of ids do not change.
    """
    listed = results.get("invariants")
    if listed is None or not listed.anomalies:
        return
    told = {
        (anomaly.type, anomaly.explanation)
        for name, result in results.items()
        if name != "invariants"
        for anomaly in result.anomalies
    }
    own = [a for a in listed.anomalies if (a.type, a.explanation) not in told]
    if len(own) < len(listed.anomalies):
        listed.stats["told_by_other_checkers"] = len(listed.anomalies) - len(own)
        listed.anomalies = own
