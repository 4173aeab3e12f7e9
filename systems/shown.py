"""How reports show what only one system has: its messages, and its rules in words.

A package adds this for its system with an entry point of the group ``kraftwreck.shown``, whose
name is that of the system.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kraftwreck.histories.plugins import plugins

GROUP = "kraftwreck.shown"
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The words and colours of one system.

    - ``rules``: a sentence for each type of anomaly
    - ``liveness``: the types that report missing progress
    - ``facts``: the known numbers of a message, None if it is not one of the system's
    - ``asker``: the id of the node that sent a request of this name, -1 if it names none
    - ``asked``, ``answered``: a label of a few characters for a request, and for a response with
      the extent of its records
    - ``in_sync``: the ids of the replicas that a trace event (kind, detail) confirms as in sync,
      None if it is about something else
    - ``colours``: a colour of the page by the name of a message (``Vote``, ``Vote answer``)
    """

    rules: Mapping[str, str] = field(default_factory=dict)
    liveness: frozenset[str] = frozenset()
    facts: Callable[[Any], dict[str, Any] | None] = lambda message: None
    asker: Callable[[str, Any], int] = lambda api, message: -1
    asked: Callable[[str, Fields], str] = lambda api, fields: api
    answered: Callable[[str, Fields, Sequence[int] | None], str] = lambda api, fields, extent: api
    in_sync: Callable[[str, Fields], Sequence[int] | None] = lambda kind, detail: None
    colours: Mapping[str, str] = field(default_factory=dict)


def shown(system: str) -> Shown:
    """Return how reports show runs of ``system``."""
    found = plugins(GROUP).found.get(system, Shown())
    assert isinstance(found, Shown), f"{system}: not a Shown"
    return found


def rule(kind: str) -> str:
    """Return a sentence about anomalies of type ``kind``, whatever the system; "" if unknown."""
    known = (shown(system).rules.get(kind) for system in sorted(plugins(GROUP).found))
    return next((text for text in known if text is not None), "")


def is_liveness(kind: str) -> bool:
    """Return whether anomalies of type ``kind`` report missing progress of some system."""
    return any(kind in shown(system).liveness for system in plugins(GROUP).found)
