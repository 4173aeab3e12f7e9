"""Failing disks of nodes on hosts; the draws have the same effects as in the simulator."""

from __future__ import annotations

from typing import Any

from kraftwreck.harness.capabilities import DiskTrouble, Evidence
from kraftwreck.harness.remote.session import RemoteError
from kraftwreck.nodes.draw import draw_below, draw_unit
from kraftwreck.systems.kraft.remote.deployment import Deployment

MOST_SPACE = 3_000
"""The most bytes left on a disk that is about to be full."""
ATTEMPTS = 16


class RemoteDisks:
    """The disks of a deployment. All methods raise RemoteError.

    ``bad`` are the nodes whose disk has a fault or damage: their processes may end, or refuse to
    start.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.bad: set[str] = set()

    def trouble(self, node: str, trouble: DiskTrouble, draw: int) -> Evidence:
        """Give the disk a fault; the evidence has the drawn parameters."""
        self._check(node)
        fields: dict[str, Any] = {}
        if trouble == "slow":
            fields["factor"] = 10 + draw_below(91, draw, "factor")
        elif trouble == "full":
            fields["space"] = draw_below(MOST_SPACE, draw, "space")
        elif trouble == "error":
            fields["failing"] = ("write", "fsync", "read")[draw_below(3, draw, "failing")]
            fields["after"] = draw_below(4, draw, "after")
        self.bad.add(node)
        return self._deployment.ask(node, "trouble_disk", trouble=trouble, **fields)

    def flip(self, node: str, draw: int) -> Evidence:
        """Change one bit of a file of a stopped node; the evidence names it."""
        places = [
            [draw_unit(draw, what, attempt) for what in ("file", "byte", "bit")]
            for attempt in range(ATTEMPTS)
        ]
        return self._damage(node, "flip", places)

    def tear(self, node: str, draw: int) -> Evidence:
        """Append the beginning of a batch to the log of a stopped node."""
        return self._damage(node, "torn", [[0.0, draw_unit(draw, "part")]])

    def damaged(self, node: str) -> bool:
        """Return whether damage remains."""
        return bool(self._deployment.ask(node, "damaged")["damaged"])

    def mend(self, node: str) -> Evidence:
        """End fault and damage; the evidence describes them."""
        evidence = self._deployment.ask(node, "mend_disk")
        self.bad.discard(node)
        return evidence

    def _damage(self, node: str, damage: str, places: list[list[float]]) -> Evidence:
        self._check(node)
        if self._deployment.status(node)["running"]:
            raise RemoteError(node, "the service is running; stop it before its disk is damaged")
        self.bad.add(node)
        return self._deployment.ask(node, "damage_disk", damage=damage, places=places)

    def _check(self, node: str) -> None:
        if not self._deployment.settings.own_disks:
            raise RemoteError(node, "the node was deployed without a disk of its own; add -n disk")
