"""All checkers by name, and how several are run over one run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from kraftwreck.checkers import drained, members, modelled, stats, strength
from kraftwreck.checkers.jepsen import produced
from kraftwreck.checkers.linearizability import keyed as linearizable
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.exit_codes import BadInputError
from kraftwreck.histories.plugins import plugins
from kraftwreck.histories.verdict import CheckerResult, Verdict

Checker = Callable[[RunData], CheckerResult]
"""A pure function: it reads the run and returns a verdict."""

CHECKERS: dict[str, Checker] = {
    "stats": stats.check,
    "linearizable": linearizable.check,
    "drained": drained.check,
    "members": members.check,
    "produced": produced.check,
    strength.NAME: strength.check,
}
"""The checkers for any system; packages, ours of a system too, offer more as entry points."""

_COMPARE_NODES: dict[Checker, frozenset[str]] = {}


def compares_nodes(*proofs: str) -> Callable[[Checker], Checker]:
    """Mark a checker that compares the records of different nodes: without those of one node it
    proves nothing, except by anomalies of the types ``proofs``."""

    def mark(checker: Checker) -> Checker:
        _COMPARE_NODES[checker] = frozenset(proofs)
        return checker

    return mark


GROUP = "kraftwreck.checkers"

RETIRED = frozenset(("committed", "epochs", "partitions"))
"""Checkers of earlier versions, as older runs name them. Rules of other checkers say the same."""


def find(name: str) -> Checker:
    """Return a built-in checker, or one that a package offers as ``kraftwreck.checkers``.

    ``model/NAME`` is any model of the catalogue (:mod:`checkers.modelled`). Raises
    :class:`KeyError` with the names there are.
    """
    if name in CHECKERS:
        return CHECKERS[name]
    if name.startswith(modelled.PREFIX):
        return modelled.parse(name)
    offered = plugins(GROUP)
    if name in offered.found:
        checker: Checker = offered.found[name]
        return checker
    if name in offered.broken:
        raise KeyError(offered.broken[name])
    names = sorted({*CHECKERS, *offered.found})
    raise KeyError(f"no checker {name!r}; there are {', '.join(names)}")


def require(names: Iterable[str], named_by: str) -> None:
    """Raise :class:`BadInputError` if there is no checker of one of ``names``."""
    for name in names:
        try:
            find(name)
        except KeyError as error:
            raise BadInputError(f"{named_by}: {' '.join(str(error.args[0]).split())}") from None


def abouts() -> dict[str, str]:
    """Return every checker's name and what it checks: the first sentence of its module."""
    return {name: _about(find(name)) for name in (*CHECKERS, *plugins(GROUP).found)}


def _about(checker: Checker) -> str:
    module = sys.modules.get(getattr(checker, "__module__", ""))
    paragraph = ((module.__doc__ if module is not None else None) or "").strip().split("\n\n")[0]
    sentence, stop, _ = " ".join(paragraph.split()).partition(". ")
    return sentence.removesuffix(".") if stop else sentence.rstrip(".")


def check(run: RunData, names: Iterable[str]) -> Verdict:
    """Run the checkers called ``names`` over ``run`` and merge their verdicts.

    A checker that raises, and an unknown name, is ``unknown`` with the error's text, and
    hides no other checker's verdict. So is one that :func:`compares_nodes` and finds
    anything while the records of a node are missing (``uncollected`` in ``test.json``).
    :data:`RETIRED` names are skipped.
    """
    results: dict[str, CheckerResult] = {}
    compare_nodes: dict[str, frozenset[str]] = {}
    for name in names:
        if name in RETIRED and name not in plugins(GROUP).found:
            continue
        try:
            checker = find(name)
            if checker in _COMPARE_NODES:
                compare_nodes[name] = _COMPARE_NODES[checker]
            results[name] = checker(run)
        except Exception as error:
            text = str(error.args[0]) if isinstance(error, KeyError) else str(error)
            results[name] = CheckerResult(valid="unknown", error=f"{type(error).__name__}: {text}")
    if missing := run.test.get("uncollected"):
        for name, proofs in compare_nodes.items():
            _doubt(results[name], proofs, ", ".join(missing))
    _report_once(results.values())
    return Verdict.of(results)


def _doubt(result: CheckerResult, proofs: frozenset[str], missing: str) -> None:
    """Withdraw a verdict against a run in which the records of a node are missing."""
    if result.valid is False and not any(each.type in proofs for each in result.anomalies):
        result.valid = "unknown"
        result.error = f"no proof without the records of {missing}, which could not be collected"


def _report_once(results: Iterable[CheckerResult]) -> None:
    """Remove the findings that an earlier checker lists, too.

    Checkers that share a pass over the run share its findings: equal ones are the same object.
    Verdicts and tables of ids do not change.
    """
    listed: set[int] = set()
    for result in results:
        result.anomalies = [each for each in result.anomalies if id(each) not in listed]
        result.suspicions = [each for each in result.suspicions if id(each) not in listed]
        listed.update(id(each) for each in (*result.anomalies, *result.suspicions))
