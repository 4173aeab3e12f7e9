"""The transitions of the store's members, for which faults wait in the simulator."""

from __future__ import annotations

from typing import Final

from kraftwreck.nemesis.registry import SystemFaults
from kraftwreck.nemesis.transitions import Transitions

_USUAL = ("candidate", "elected", "follow", "append", "replicate", "hw", "truncate")

FAULTS: Final = SystemFaults(
    simulated=Transitions(
        usual=_USUAL,
        weighted=("elected", "elected", "append", "append", "replicate", "candidate", *_USUAL),
        later=("snapshot", "install", "truncate"),
        of_others=(),
        rare=frozenset({"candidate", "elected", "follow", "truncate", "install"}),
        often=frozenset({"append", "replicate", "hw"}),
        led=("append", "append", "replicate", "hw", "hw", "elected", "truncate"),
        rises=("elected", "elected", "append", "hw"),
        elected="elected",
        claim="elected",
        committed="hw",
        download="install",
        members="elected",
    )
)
"""The entry point ``raft``: on hosts its processes write no traces."""
