"""Scarce resources: each process lacks one at a time."""

from __future__ import annotations

from functools import partial

from kraftwreck.nemesis.active import Active
from kraftwreck.nemesis.injection.ground import Detail, Evidence, Ground, Means
from kraftwreck.nemesis.squeezes import SqueezeShape
from kraftwreck.nodes.draw import draw


class Squeezes(Means):
    """Takes resources away and gives them back."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._squeezed: set[str] = set()

    def start(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        ground = self.ground
        env = ground.env
        shape = entry.family.shapes[entry.fault.shape]
        assert isinstance(shape, SqueezeShape)
        struck = []
        for node in entry.targets:
            if node in ground.down | ground.stopped:
                detail.setdefault("skipped", {})[node] = "it is held by another fault"
            elif node in self._squeezed:
                detail.setdefault("skipped", {})[node] = "it is squeezed already"
            else:
                struck.append(node)
        entry.targets = tuple(struck)
        self._squeezed.update(struck)
        for node in struck:
            number = draw(entry.fault.draw, node)
            if shape.want != "slow-start":
                if shape.want == "oom":
                    ground.down.add(node)
                ground.call(entry, node, partial(env.squeeze, node, shape.want, number), evidence)
                continue
            ground.down.add(node)
            # A process that is up when it is released has had a slow start.
            if ground.call(entry, node, partial(env.kill, node), evidence):
                ground.call(entry, node, partial(env.squeeze, node, "cpu", number), evidence)
                ground.call(entry, node, partial(env.launch, node), evidence)

    def stop(self, entry: Active, detail: Detail, evidence: Evidence) -> None:
        for node in entry.targets:
            self._release(entry, node, evidence)

    def rest(self) -> set[str] | None:
        return set(self._squeezed) or None

    def heal(self, entry: Active, evidence: Evidence) -> None:
        for node in sorted(self._squeezed):
            self._release(entry, node, evidence)

    def _release(self, entry: Active, node: str, evidence: Evidence) -> None:
        ground = self.ground
        if ground.call(entry, node, partial(ground.env.release, node), evidence):
            self._squeezed.discard(node)
        if not entry.keeps_down and node not in ground.down | ground.stopped:
            ground.call(entry, node, partial(ground.env.start, node), evidence)  # It may have died.
