"""The definition of an invariant: its id, its statement, its evidence and its check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report

Group = Callable[[Evidence, Report], None]


@dataclass(slots=True, frozen=True)
class Invariant:
    """``online`` is True if the simulator also watches it during a run."""

    id: str
    name: str
    statement: str
    evidence: str
    checks: tuple[Group, ...]
    online: bool = False
