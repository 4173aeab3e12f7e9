"""Kills, pauses and power cuts: a node stays down as long as any fault keeps it down."""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.nemesis.active import Active
from kraftwreck.nemesis.injection.ground import Detail, Evidence, Ground, Means


def struck(ground: Ground, entry: Active, detail: Detail) -> list[str]:
    """Return the targets that are still up (and, for pauses, not paused yet), and mark them.

    They count as down, or as paused, from now on."""
    kill = entry.keeps_down
    nodes = []
    for node in entry.targets:
        if node in ground.down or (not kill and node in ground.stopped):
            why = "down already" if node in ground.down else "paused already"
            detail.setdefault("skipped", {})[node] = why
        elif kill:
            ground.down.add(node)
            ground.stopped.discard(node)
            nodes.append(node)
        else:
            ground.stopped.add(node)
            nodes.append(node)
    return nodes


class Processes(Means):
    """Kills or pauses processes. :class:`Relief` brings them back."""

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        env, action = self.ground.env, entry.family.action
        act = env.pause if action == "pause" else env.cut_power if action == "power" else env.kill
        self.ground.each(entry, struck(self.ground, entry, detail), act, evidence)


class Relief:
    """Starts and resumes nodes that no fault holds any longer, for all kinds of faults."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def held_by(self, entry: Active, detail: Detail) -> list[str]:
        """Return the nodes that only this fault, which ends now, keeps down or paused."""
        ground = self._ground
        kill = not entry.keeps_paused
        affected = ground.down if kill else ground.stopped
        wanted_elsewhere = {
            node
            for other in ground.others(entry)
            if (other.keeps_down if kill else other.keeps_paused)
            for node in other.targets
        }
        held = []
        for node in entry.targets:
            if node not in affected:
                detail.setdefault("skipped", {})[node] = "not down" if kill else "not paused"
            elif node in wanted_elsewhere:
                detail.setdefault("skipped", {})[node] = "held by another fault"
            elif node in ground.rising:
                detail.setdefault("skipped", {})[node] = "already starting"
            else:
                held.append(node)
        ground.rising.update(held)
        return held

    def relieve(self, entry: Active, held: Sequence[str], evidence: Evidence) -> set[str]:
        """Start or resume ``held`` and return those that are up. May be called without the lock,
        since they count as down until :meth:`relieved`."""
        env = self._ground.env
        action = env.resume if entry.keeps_paused else env.start
        return self._ground.each(entry, held, action, evidence)

    def relieved(self, entry: Active, held: Sequence[str], up: set[str]) -> None:
        """Record that the nodes in ``up`` are back, and that ``held`` are no longer starting."""
        ground = self._ground
        (ground.stopped if entry.keeps_paused else ground.down).difference_update(up)
        ground.rising.difference_update(held)

    def heal(self, entry: Active, evidence: Evidence) -> None:
        """Resume and start the nodes that an earlier attempt could not."""
        ground = self._ground
        for affected, undo in (
            (ground.stopped, ground.env.resume),
            (ground.down, ground.env.start),
        ):
            affected -= ground.each(entry, sorted(affected), undo, evidence)
