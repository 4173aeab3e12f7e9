"""The faults that a schedule for one cluster may draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kraftwreck.nemesis.family import Aim
from kraftwreck.nemesis.registry import Families, families, faults_of
from kraftwreck.nemesis.shapes import Shape
from kraftwreck.nemesis.transitions import Transitions


@dataclass(frozen=True, slots=True)
class Scope:
    """A cluster as schedules know it, before it is up.

    ``families`` are those of its system. ``nodes`` are all nodes; ``others`` of them do not elect
    a leader. Without ``transitions`` no fault waits for one.
    """

    families: Families
    nodes: tuple[str, ...]
    others: int = 0
    transitions: Transitions | None = None

    @classmethod
    def of(cls, system: str, nodes: Sequence[str], others: int = 0) -> Scope:
        """Return the scope of a cluster of ``system``."""
        return cls(families(system), tuple(nodes), others, faults_of(system).transitions)

    @property
    def electing(self) -> int:
        """The number of nodes that elect a leader."""
        return len(self.nodes) - self.others

    def usable(self, kind: str) -> dict[str, Shape]:
        """Return the shapes of a family with an effect in this cluster."""
        return self.families[kind].usable(len(self.nodes), self.others)

    def aims(self, kind: str) -> list[Aim]:
        """Return the forms of triggered faults of a family in this cluster."""
        return self.families[kind].aims(len(self.nodes), self.others)
