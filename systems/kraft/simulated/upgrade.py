"""An operator in virtual time who upgrades kraft.version of a static quorum (KIP-853).

Only the active controller can upgrade, and only after every voter has reported its disk. So the
operator asks each new leader, repeatedly. The change takes effect on each node as soon as it is
appended. If the leader fails soon afterwards, the next one may truncate it again.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.harness.client import Answer, Call
from kraftwreck.harness.simulated.calls import virtual_call
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.request import KafkaRequest
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World

OPERATOR: Final = 2_000_000
"""The number of the operator's connections, distinct from those of other clients."""
VERSION: Final = 1
UPGRADE: Final = 1
TIMEOUT_MS: Final = 3000
PAUSES_US: Final = (1_000, 30_000, 100_000, 300_000)
"""The delays from the controller's claim, and then from its responses, to the next request."""


class Upgrade:
    """Asks the controller with the ``claim``-th claim of its role, and all later ones."""

    def __init__(self, world: World, claim: int) -> None:
        self._world = world
        self._before = claim
        self._asked = ("", -1)
        self._done = False
        world.on_trace.append(self._on_trace)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind != "claim" or self._done:
            return
        self._before -= 1
        if self._before <= 0:
            self._asked = (event.node, event.epoch)
            self._ask_later(self._asked, 0)

    def _ask_later(self, whom: tuple[str, int], tries: int) -> None:
        pause = PAUSES_US[min(tries, len(PAUSES_US) - 1)]
        at = self._world.now + pause
        self._world.at(at, lambda: self._ask(whom, tries), f"upgrade {whom[0]} {whom[1]} {tries}")

    def _ask(self, whom: tuple[str, int], tries: int) -> None:
        if self._done or whom != self._asked:
            return
        update = {"feature": "kraft.version", "max_version_level": 1, "upgrade_type": UPGRADE}
        body: dict[str, Any] = {
            "timeout_ms": TIMEOUT_MS,
            "feature_updates": [update],
            "validate_only": False,
        }
        call = Call(whom[0], KafkaRequest("UpdateFeatures", VERSION, body), TIMEOUT_MS)

        def answered(answer: Answer) -> None:
            if answer.status != "ok":
                return  # The next claim leads to another request.
            code = answer.response["error_code"]
            self._done = self._done or code == errors.NONE
            if code not in (errors.NONE, errors.NOT_CONTROLLER):
                self._ask_later(whom, tries + 1)

        virtual_call(self._world, OPERATOR, call, answered)
