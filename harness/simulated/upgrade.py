"""An operator in virtual time who raises kraft.version of a static quorum (KIP-853).

Nobody but the active controller can do it, and not before every voter has told it of its disk; so
the operator asks whoever has just taken over, again and again. The change counts on each node as
soon as it is appended: an upgrade that is asked of a leader which is about to fall may be cut off
its log again.
"""

from __future__ import annotations

from typing import Any, Final

from harness.simulated.admin import virtual_call
from harness.workload import Answer, Call
from histories.trace import TraceEvent
from nodes.protocol import errors
from simulation.host import Host
from simulation.world import World

OPERATOR: Final = 2_000_000
"""The number of the operator's connections, beside those of clients and the other operator."""
VERSION: Final = 1
UPGRADE: Final = 1
TIMEOUT_MS: Final = 3000
PAUSES_US: Final = (1_000, 30_000, 100_000, 300_000)
"""When the controller is asked after its claim, and after its answers."""


class Upgrade:
    """Asks the ``claim``-th controller that claims its role, and all that come after it."""

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
        call = Call(whom[0], "UpdateFeatures", VERSION, body, TIMEOUT_MS)

        def answered(answer: Answer) -> None:
            if answer.status != "ok":
                return  # Whoever claims next is asked.
            code = answer.body["error_code"]
            self._done = self._done or code == errors.NONE
            if code not in (errors.NONE, errors.NOT_CONTROLLER):
                self._ask_later(whom, tries + 1)

        virtual_call(self._world, OPERATOR, call, answered)
