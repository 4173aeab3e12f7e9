"""Machines that lose power; active faults are applied again after they boot."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kraftwreck.nemesis.active import Active
from kraftwreck.nemesis.injection.ground import Detail, Evidence, Ground, Means


class Hosts(Means):
    """Crashes and boots hosts; ``others`` are the drivers whose faults must be applied again."""

    def __init__(self, ground: Ground, others: Callable[[], Iterable[Means]]) -> None:
        super().__init__(ground)
        self._others = others
        self._off: set[str] = set()

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        ground = self.ground
        # Faults of a disk or process there could not be undone while it is off.
        touched = {
            node
            for other in ground.others(entry)
            if other.family.action in ("disk", "squeeze", "members")
            for node in other.targets
        }
        struck = []
        for node in entry.targets:
            if node in ground.down | ground.stopped | ground.rising | touched:
                detail.setdefault("skipped", {})[node] = "it is held by another fault"
            else:
                struck.append(node)
        entry.targets = tuple(struck)
        ground.down.update(struck)
        self._off |= ground.each(entry, struck, ground.env.crash_host, evidence)

    def stop(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        self._boot(entry, [node for node in entry.targets if node in self._off], evidence)

    def rest(self) -> set[str] | None:
        return set(self._off) or None

    def heal(self, entry: Active, evidence: Evidence) -> None:
        self._boot(entry, sorted(self._off), evidence)

    def _boot(self, entry: Active, nodes: list[str], evidence: Evidence) -> None:
        ground = self.ground
        booted = ground.each(entry, nodes, ground.env.boot_host, evidence)
        self._off -= booted
        if booted:
            for means in self._others():
                means.renew(entry, sorted(booted), evidence.setdefault("renewed", {}))
