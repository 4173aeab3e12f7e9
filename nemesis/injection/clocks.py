"""Wrong clocks: a node's clocks follow all active faults that hit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from kraftwreck.harness.environment import ClockSetting
from kraftwreck.nemesis.active import Active
from kraftwreck.nemesis.clocks import ClockShape, together
from kraftwreck.nemesis.injection.ground import Detail, Evidence, Ground, Means


class Clocks(Means):
    """Sets clocks wrong and right again."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._skewed: set[str] = set()
        self._touched: set[str] = set()

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        shape = entry.family.shapes[entry.fault.shape]
        assert isinstance(shape, ClockShape)
        entry.clock = shape.setting(entry.fault.draw)
        detail["clock"] = asdict(entry.clock)
        self._set(entry, entry.targets, evidence)

    def stop(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        self._set(entry, entry.targets, evidence)

    def renew(self, entry: Active, nodes: Sequence[str], evidence: Evidence) -> None:
        self._set(entry, [node for node in nodes if node in self._touched], evidence)

    def rest(self) -> set[str] | None:
        return set(self._skewed) or None

    def heal(self, entry: Active, evidence: Evidence) -> None:
        self._set(entry, sorted(self._skewed), evidence)

    def _set(self, entry: Active, nodes: Sequence[str], evidence: Evidence) -> None:
        ground = self.ground
        active = [a for a in ground.active.values() if a.clock is not None]
        for node in nodes:
            settings = [a.clock for a in active if node in a.targets and a.clock is not None]
            setting = together(settings)
            self._skewed.add(node)
            self._touched.add(node)
            done = ground.call(entry, node, partial(ground.env.set_clock, node, setting), evidence)
            if done and setting == ClockSetting():
                self._skewed.discard(node)
