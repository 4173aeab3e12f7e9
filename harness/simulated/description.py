"""The contents of ``test.json`` for a simulated run, whatever the system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kraftwreck.harness.options import RunOptions, repeat_command
from kraftwreck.histories.fault import Fault
from kraftwreck.simulation.disturbed import LATEST
from kraftwreck.simulation.world import World


def describe(
    options: RunOptions,
    world: World,
    schedule: Sequence[Fault],
    healed: int,
    *,
    members: Mapping[str, Any],
    own_model: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the contents of ``test.json``; ``healed`` is the virtual time (µs) of the last heal.

    ``members`` are the nodes with their roles (:meth:`harness.layout.Layout.members`).
    ``own_model`` is what a system adds to the fault model, or says otherwise.
    """
    return {
        **options.as_json(),
        "name": options.name,
        **members,
        "fault_model": {
            "power_loss": world.knobs.power_loss > 0 or any(f.kind == "power" for f in schedule),
            "late_us": LATEST if any(f.kind == "network" for f in schedule) else 0,
            "disk": sorted({f.shape for f in schedule if f.kind == "disk"}),
            "wiped": [],
            **own_model,
        },
        "options": options.as_json(),
        "cluster": "sim",
        "simulated": True,
        "started_wall": 0,
        "clock": {host.name: host.clock.told() for host in world.hosts},
        "schedule": msgspec.to_builtins(list(schedule)),
        "knobs": msgspec.to_builtins(world.knobs),
        "healed": healed * 1000,
        "judged_until": world.now * 1000,
        "start_mono_us": 0,
        "repeat": repeat_command(options),
    }
