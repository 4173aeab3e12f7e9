"""Consistency models, the anomalies each of them forbids, and the implications between them.

Models form a partial order: a history that satisfies a model satisfies every weaker one.
Anomalies form another: a history with G0 also has G1c. Both together turn a set of
anomalies into claims about models: the weakest models that cannot hold (``not``) and all
stronger ones (``also-not``).

Sources: Adya, "Weak Consistency" (1999); Adya, Liskov, O'Neil (ICDE 2000); Bailis et al.,
"Highly Available Transactions" (VLDB 2014); Cerone, Bernardi, Gotsman (CONCUR 2015);
Daudjee, Salem (ICDE 2004, VLDB 2006); names as elle.consistency-model spells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache


class UnknownModelError(ValueError):
    """A consistency model or an anomaly that does not exist or cannot be decided.

    The message names the nearest one, or lists those there are.
    """


STRONGER: Mapping[str, tuple[str, ...]] = {
    # transactions
    "PL-1": (),
    "PL-2": ("PL-1",),
    "PL-CS": ("PL-2",),
    "PL-2L": ("PL-2",),
    "PL-MSR": ("PL-2",),
    "PL-2+": ("PL-CS", "PL-2L"),
    "PL-FCV": ("PL-2+",),
    "PL-3U": ("PL-FCV",),
    "monotonic-atomic-view": ("PL-2",),
    "PL-2.99": ("PL-CS", "monotonic-atomic-view"),
    "read-atomic": ("monotonic-atomic-view",),
    "update-atomic": ("read-atomic",),
    "causal-cerone": ("read-atomic",),
    "prefix": ("causal-cerone",),
    "parallel-snapshot-isolation": ("causal-cerone", "update-atomic"),
    "PL-SI": (
        "PL-FCV",
        "PL-MSR",
        "monotonic-atomic-view",
        "parallel-snapshot-isolation",
        "prefix",
    ),
    "PL-3": ("PL-2.99", "PL-3U", "PL-SI", "view-serializable"),
    "view-serializable": (),
    "1SR": (),
    "session-serializable": ("1SR",),
    # sessions: the order of each process is kept too
    "strong-session-PL-1": ("PL-1",),
    "strong-session-PL-2": ("PL-2", "strong-session-PL-1"),
    "strong-session-snapshot-isolation": ("PL-SI", "strong-session-PL-2"),
    "strong-session-serializable": ("PL-3", "strong-session-snapshot-isolation"),
    # real time is kept too
    "strong-PL-1": ("strong-session-PL-1",),
    "strong-PL-2": ("strong-session-PL-2", "strong-PL-1"),
    "strong-snapshot-isolation": ("strong-session-snapshot-isolation", "strong-PL-2"),
    "PL-SS": (
        "PL-3",
        "linearizable",
        "session-serializable",
        "strong-session-serializable",
        "strong-snapshot-isolation",
    ),
    # single objects
    "linearizable": ("sequential",),
    "sequential": ("causal",),
    "causal": ("writes-follow-reads", "PRAM"),
    "PRAM": ("monotonic-reads", "monotonic-writes", "read-your-writes"),
    "writes-follow-reads": (),
    "monotonic-reads": (),
    "monotonic-writes": (),
    "read-your-writes": (),
}
"""Each model, by its canonical name, and the models it implies directly."""

FRIENDLY: Mapping[str, str] = {
    "PL-1": "read-uncommitted",
    "PL-2": "read-committed",
    "PL-CS": "cursor-stability",
    "PL-2L": "monotonic-view",
    "PL-MSR": "monotonic-snapshot-read",
    "PL-2+": "consistent-view",
    "PL-FCV": "forward-consistent-view",
    "PL-3U": "update-serializable",
    "PL-2.99": "repeatable-read",
    "PL-SI": "snapshot-isolation",
    "PL-3": "serializable",
    "PL-SS": "strong-serializable",
    "strong-session-PL-1": "strong-session-read-uncommitted",
    "strong-session-PL-2": "strong-session-read-committed",
    "strong-PL-1": "strong-read-uncommitted",
    "strong-PL-2": "strong-read-committed",
}
CANONICAL: Mapping[str, str] = {
    **{friendly: name for name, friendly in FRIENDLY.items()},
    "conflict-serializable": "PL-3",
    "strict-serializable": "PL-SS",
}
MODELS: frozenset[str] = frozenset({*STRONGER, *CANONICAL})
"""Every accepted name of a model."""

FORBIDS: Mapping[str, tuple[str, ...]] = {
    "PL-1": ("G0", "duplicate-elements", "cyclic-versions", "PL-1-cycle-exists"),
    "PL-2": ("G1", "PL-2-cycle-exists"),
    "PL-CS": ("G-cursor", "lost-update"),
    "PL-2L": ("G-monotonic",),
    "PL-MSR": ("G-MSR",),
    "PL-2+": ("G-single",),
    "PL-FCV": ("G-SIb",),
    "PL-3U": ("G-update",),
    "PL-2.99": ("G2-item", "lost-update", "PL-2.99-cycle-exists"),
    "read-atomic": ("internal", "future-read"),
    "update-atomic": ("lost-update",),
    "PL-SI": ("G-SI", "G-nonadjacent", "PL-SI-cycle-exists"),
    "PL-3": ("G2", "predicate-read-miss", "PL-3-cycle-exists"),
    "strong-session-PL-1": ("G0-process", "strong-session-PL-1-cycle-exists"),
    "strong-session-PL-2": ("G1c-process", "strong-session-PL-2-cycle-exists"),
    "strong-session-snapshot-isolation": (
        "G1-process",
        "G-nonadjacent-process",
        "strong-session-snapshot-isolation-cycle-exists",
    ),
    "strong-session-serializable": ("G2-process", "strong-session-serializable-cycle-exists"),
    "strong-PL-1": ("G0-realtime", "strong-PL-1-cycle-exists"),
    "strong-PL-2": ("G1c-realtime", "strong-PL-2-cycle-exists"),
    "strong-snapshot-isolation": (
        "G1-realtime",
        "G-nonadjacent-realtime",
        "strong-snapshot-isolation-cycle-exists",
    ),
    "PL-SS": ("G2-realtime", "PL-SS-cycle-exists"),
}
"""The anomalies that a model forbids and the models it implies do not."""


def _implications() -> dict[str, tuple[str, ...]]:
    """Return the anomalies that each anomaly implies directly."""
    plain: dict[str, tuple[str, ...]] = {
        "G0": ("G1c",),
        "G1c": ("G1",),
        "G1": (),
        "G-single": ("G-nonadjacent",),
        "G-single-item": ("G-single", "G-nonadjacent-item"),
        "G-nonadjacent": ("G2",),
        "G-nonadjacent-item": ("G-nonadjacent", "G2-item"),
        "G2-item": ("G2",),
        "G2": (),
    }
    table: dict[str, tuple[str, ...]] = {}
    for suffix, wider in (("", "-process"), ("-process", "-realtime"), ("-realtime", "")):
        for name, shown in plain.items():
            here = tuple(other + suffix for other in shown)
            # A cycle without edges of a process is one of sessions too, and so on.
            table[name + suffix] = here if not wider else (*here, name + wider)
    # For any assumed start times, a snapshot misses effects or transactions interfere.
    table["G-single"] += ("G-SIb",)
    table["G-nonadjacent"] += ("G-SI",)
    table |= {
        "G1a": ("G1",),
        "G1b": ("G1",),
        "G-SIa": ("G-SI",),
        "G-SIb": ("G-SI",),
        "G-SI": (),
        # Named in the Elle paper: a read of a value that was never written. Elle itself ends with
        # an assertion there; here it is a read of a value that was never committed.
        "garbage-read": ("G1a",),
        "incompatible-order": ("G1a",),
        "dirty-update": ("G1a",),
        "future-read": ("G1c",),
        "lost-update": ("G2-item",),
    }
    for forbidden in FORBIDS.values():
        for name in forbidden:
            table.setdefault(name, ())
    return table


IMPLIES: Mapping[str, tuple[str, ...]] = _implications()
UNKNOWN_TYPES: frozenset[str] = frozenset({"empty-transaction-graph", "cycle-search-timeout"})
"""Anomalies that make a verdict ``unknown`` unless another one makes it false."""


def _reached(start: Iterable[str], edges: Mapping[str, tuple[str, ...]]) -> set[str]:
    seen: set[str] = set()
    todo = list(start)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(edges.get(name, ()))
    return seen


def _turned(edges: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    table: dict[str, list[str]] = {}
    for name, others in edges.items():
        for other in others:
            table.setdefault(other, []).append(name)
    return {name: tuple(others) for name, others in table.items()}


_WEAKER_TO_STRONGER = _turned(STRONGER)
_SHOWN_BY = _turned(IMPLIES)
_FORBIDDEN_BY = _turned(FORBIDS)


def canonical(model: str) -> str:
    """Return a model's canonical name. Raises :class:`UnknownModelError`."""
    if model not in MODELS:
        known = ", ".join(sorted(MODELS))
        raise UnknownModelError(f"no consistency model {model!r}; there are {known}")
    return CANONICAL.get(model, model)


def friendly(model: str) -> str:
    """Return the common name of a model."""
    return FRIENDLY.get(model, model)


def implied(anomalies: Iterable[str]) -> set[str]:
    """Return ``anomalies`` and all that they imply."""
    return _reached(anomalies, IMPLIES)


def forbidden(models: Iterable[str], anomalies: Iterable[str] = ()) -> frozenset[str]:
    """Return every anomaly that would break one of ``models`` or show one of ``anomalies``.

    :func:`checkers.elle.supported.forbidden` also refuses names that cannot be decided. Raises
    :class:`UnknownModelError` for a model that does not exist.
    """
    wanted = list(anomalies)
    weaker = _reached((canonical(model) for model in models), STRONGER)
    wanted.extend(name for model in weaker for name in FORBIDS.get(model, ()))
    return frozenset(_reached(wanted, _SHOWN_BY))


def broken(anomalies: Iterable[str]) -> set[str]:
    """Return every model, by canonical name, that ``anomalies`` refute."""
    direct = (model for name in implied(anomalies) for model in _FORBIDDEN_BY.get(name, ()))
    return _reached(direct, _WEAKER_TO_STRONGER)


@cache
def _weaker(model: str) -> frozenset[str]:
    return frozenset(_reached([model], STRONGER) - {model})


def boundary(anomalies: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the weakest models broken by ``anomalies`` and the stronger ones, both sorted."""
    models = broken(anomalies)
    weakest = {model for model in models if not _weaker(model) & models}
    return sorted(map(friendly, weakest)), sorted(map(friendly, models - weakest))
