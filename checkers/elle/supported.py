"""The consistency models and anomalies this engine decides, by kind of history.

A model is decided when every violation that a history can show is among the anomalies that it
forbids here. Other names are refused with the nearest decided one: a weaker check under a stronger
name would call invalid histories valid.

Source: Adya (1999), chapter 4, for the definitions of PL-2L, PL-MSR, PL-3U and their
phenomena; Cerone, Gotsman (PODC 2016) for the models between read atomic and snapshot
isolation; Viotti, Vukolic (CSUR 2016) for those of single objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kraftwreck.checkers.elle import models, predicates
from kraftwreck.checkers.elle.append_anomalies import AppendAnomalies
from kraftwreck.checkers.elle.cycles import CYCLES
from kraftwreck.checkers.elle.models import UnknownModelError
from kraftwreck.checkers.elle.register_anomalies import RegisterAnomalies

_OF_PREDICATES = frozenset(name.replace("-item", "") for name in CYCLES)
_OF_REGISTERS = frozenset({*RegisterAnomalies.LOOKS, "cyclic-versions"})
_ALWAYS = models.UNKNOWN_TYPES | frozenset(CYCLES)
DETECTED: Mapping[str, frozenset[str]] = {
    "list-append": _ALWAYS | frozenset(AppendAnomalies.LOOKS),
    "rw-register": _ALWAYS | _OF_REGISTERS,
    predicates.NAME: _ALWAYS | _OF_PREDICATES | {"G1a", "G1b", "predicate-read-miss"},
}
"""The anomalies that the checker of each kind of history reports, beside the ``-cycle-exists`` of
a search that ran out of time."""
ACCEPTED: Mapping[str, frozenset[str]] = {
    model: frozenset(models.implied(names)) for model, names in DETECTED.items()
}
"""The anomalies that may be forbidden by name: all that a reported anomaly implies."""

NEAREST_MODEL: Mapping[str, str] = {
    "PL-2L": "consistent-view",
    "PL-MSR": "snapshot-isolation",
    "PL-3U": "serializable",
    "monotonic-atomic-view": "snapshot-isolation",
    "read-atomic": "snapshot-isolation",
    "update-atomic": "snapshot-isolation",
    "causal-cerone": "snapshot-isolation",
    "prefix": "snapshot-isolation",
    "parallel-snapshot-isolation": "snapshot-isolation",
    "view-serializable": "serializable",
    "1SR": "serializable",
    "session-serializable": "strong-session-serializable",
    "linearizable": "strict-serializable",
    "sequential": "strong-session-serializable",
    "causal": "strong-session-snapshot-isolation",
    "PRAM": "strong-session-snapshot-isolation",
    "writes-follow-reads": "strong-session-snapshot-isolation",
    "monotonic-reads": "strong-session-snapshot-isolation",
    "monotonic-writes": "strong-session-snapshot-isolation",
    "read-your-writes": "strong-session-snapshot-isolation",
}
"""Models that are refused, by canonical name: the weakest decided one that implies each."""
NEAREST_ANOMALY: Mapping[str, str] = {
    "G-cursor": "lost-update",
    "G-monotonic": "G-single",
    "G-MSR": "G-nonadjacent",
    "G-update": "G2",
    "G-SIa": "G-SI",
    "write-skew": "G2-item",
}
"""Anomalies that are refused, and the nearest one that is reported."""
MODELS: frozenset[str] = frozenset(
    name for name in models.MODELS if models.canonical(name) not in NEAREST_MODEL
)
"""Every name that ``--consistency-model`` takes."""


def forbidden(
    history_model: str, consistency_models: Iterable[str], anomalies: Iterable[str]
) -> frozenset[str]:
    """Return every anomaly that would break one of the models or show one of ``anomalies``.

    Raises :class:`~checkers.elle.models.UnknownModelError` for a name that is not decided in
    histories of ``history_model``, with the nearest one that is.
    """
    wanted, names = list(consistency_models), list(anomalies)
    for name in wanted:
        nearest = NEAREST_MODEL.get(models.CANONICAL.get(name, name))
        if nearest is not None:
            raise UnknownModelError(
                f"consistency model {name!r} cannot be decided; the nearest one that is: {nearest}"
            )
        if name not in MODELS:
            known = ", ".join(sorted(MODELS))
            raise UnknownModelError(f"no consistency model {name!r}; there are {known}")
    accepted = ACCEPTED[history_model]
    for name in names:
        if name not in accepted:
            raise UnknownModelError(_refusal(history_model, name, accepted))
    return models.forbidden(wanted, names)


def _refusal(history_model: str, name: str, accepted: Iterable[str]) -> str:
    nearest = NEAREST_ANOMALY.get(name)
    if nearest is not None:
        return f"anomaly {name!r} is not detected; the nearest one that is: {nearest}"
    others = [model for model, names in ACCEPTED.items() if name in names]
    if others:
        return f"anomaly {name!r} is not detected in {history_model}, only in {', '.join(others)}"
    return f"no anomaly {name!r}; there are {', '.join(sorted(accepted))}"


def tables() -> str:
    """Return the decided and the refused names, as Markdown tables."""
    lines = ["| consistency model | other names | forbids, beyond weaker models |", "|---|---|---|"]
    for name in models.STRONGER:
        if name in NEAREST_MODEL:
            continue
        called = sorted(
            {models.friendly(name), *(o for o, c in models.CANONICAL.items() if c == name)} - {name}
        )
        own = ", ".join(f"`{one}`" for one in _own(name))
        lines.append(f"| `{name}` | {', '.join(called)} | {own} |")
    lines += ["", "| refused model | nearest decided model |", "|---|---|"]
    lines += [f"| `{models.friendly(name)}` | `{other}` |" for name, other in NEAREST_MODEL.items()]
    lines += ["", f"| anomaly | {' | '.join(ACCEPTED)} |", "|---|" + "---|" * len(ACCEPTED)]
    for name in sorted(frozenset().union(*ACCEPTED.values())):
        if name.endswith(("-process", "-realtime")):
            continue
        cells = ["yes" if name in names else "" for names in ACCEPTED.values()]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    lines += ["", "| refused anomaly | nearest reported anomaly |", "|---|---|"]
    lines += [f"| `{name}` | `{other}` |" for name, other in NEAREST_ANOMALY.items()]
    return "\n".join(lines)


def _own(name: str) -> list[str]:
    """Return the anomalies of the definitions that this model forbids and no weaker one."""
    all_of = {other: models.forbidden([other]) for other in models.STRONGER}
    weaker = [other for other in all_of if other not in NEAREST_MODEL]
    by_weaker = [all_of[other] for other in weaker if all_of[other] < all_of[name]]
    defined = {one for names in models.FORBIDS.values() for one in names}
    reported = frozenset().union(*ACCEPTED.values())
    return sorted((all_of[name] & defined & reported).difference(*by_weaker))
