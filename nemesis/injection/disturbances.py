"""Disturbed messages: they follow all active faults of the network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from kraftwreck.nemesis.active import Active
from kraftwreck.nemesis.injection.ground import Detail, Evidence, Ground, Means
from kraftwreck.nemesis.network import NetworkShape
from kraftwreck.nemesis.roles import RoleShape


class Disturbances(Means):
    """Disturbs messages; every change sends the complete list of disturbances."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._disturbed = False

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        shape = entry.family.shapes[entry.fault.shape]
        assert isinstance(shape, NetworkShape | RoleShape)
        if entry.targets:
            nodes = tuple(self.ground.env.nodes)
            entry.disturbances = shape.disturbances(nodes, entry.targets, entry.fault.draw)
        detail["disturbances"] = msgspec.to_builtins(entry.disturbances)
        self._disturb(entry, evidence)

    def stop(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        self._disturb(entry, evidence)

    def renew(self, entry: Active, nodes: Sequence[str], evidence: Evidence) -> None:
        if self._disturbed:
            self._disturb(entry, evidence)

    def rest(self) -> set[str] | None:
        return set() if self._disturbed else None

    def heal(self, entry: Active, evidence: Evidence) -> None:
        self._disturb(entry, evidence)

    def _disturb(self, entry: Active, evidence: Evidence) -> None:
        ground = self.ground
        wanted = [each for a in ground.active.values() for each in a.disturbances]
        self._disturbed = True
        if ground.call(entry, "disturb", partial(ground.env.disturb, wanted), evidence):
            self._disturbed = bool(wanted)
