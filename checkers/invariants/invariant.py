"""What an invariant is: its id, what it says, what it is judged by, and what judges it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checkers.invariants.evidence import Evidence
from checkers.invariants.report import Report

Group = Callable[[Evidence, Report], None]


@dataclass(slots=True, frozen=True)
class Invariant:
    """``online`` says whether the simulator also watches it as it runs."""

    id: str
    name: str
    statement: str
    evidence: str
    checks: tuple[Group, ...]
    online: bool = False
