"""Partitions: simultaneous ones cut the union of their links."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kraftwreck.nemesis.active import Active
from kraftwreck.nemesis.injection.ground import Detail, Evidence, Ground, Means
from kraftwreck.nemesis.partitions import union


class Cuts(Means):
    """Applies the active partitions to the network."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._cut = False

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        detail["grudge"] = {node: sorted(held) for node, held in entry.grudge.items()}
        self._apply(entry, evidence)

    def stop(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        self._apply(entry, evidence)

    def renew(self, entry: Active, nodes: Sequence[str], evidence: Evidence) -> None:
        grudges = [a.grudge for a in self.ground.active.values() if a.grudge]
        if grudges:
            wanted = union(grudges, tuple(self.ground.env.nodes))
            self.ground.call(entry, "drop", partial(self.ground.env.drop, wanted), evidence)

    def rest(self) -> set[str] | None:
        return set() if self._cut else None

    def heal(self, entry: Active, evidence: Evidence) -> None:
        if self.ground.call(entry, "heal", self.ground.env.heal, evidence):
            self._cut = False

    def _apply(self, entry: Active, evidence: Evidence) -> None:
        ground = self.ground
        active = ground.active.values()
        grudges = [a.grudge for a in active if a.grudge]
        stopping = entry not in active
        if self._cut and (stopping or not grudges):
            # Heal first: this measures the dropped packets, and removes all old rules.
            healed = ground.call(entry, "heal", ground.env.heal, evidence)
            self._cut = not healed
        if grudges:
            wanted = union(grudges, tuple(ground.env.nodes))
            self._cut = True
            into = evidence if not stopping else evidence.setdefault("remaining", {})
            ground.call(entry, "drop", partial(ground.env.drop, wanted), into)
