"""The transitions of KRaft's nodes for which faults wait."""

from __future__ import annotations

from typing import Final

from kraftwreck.harness.triggers import Trigger
from kraftwreck.nemesis.transitions import Transitions

_JOINING = ("starting", "recovery")

TRIGGERS: Final = {
    "joining": Trigger(
        "broker", lambda e: e.kind == "broker" and e.detail.get("state") in _JOINING
    ),
    "led": Trigger("replica-role", lambda e: e.kind == "replica-role" and "start" in e.detail),
    "isr": Trigger("replica-isr", lambda e: e.kind == "replica-isr"),
    "cut": Trigger("replica-truncate", lambda e: e.kind == "replica-truncate"),
    "voters": Trigger("voters", lambda e: e.kind == "voters" and e.detail.get("offset", -1) >= 0),
}
"""The entry point ``kraft``: ``voters`` is a voter set read from the log, ``joining`` a broker that
starts up. At a replica of records ``led`` is the start of its lead, ``isr`` a change of its ISR,
``cut`` a truncation."""

_USUAL = ("candidate", "grant", "elected", "append", "replicate", "hw", "truncate", "claim")

TRANSITIONS: Final = Transitions(
    usual=_USUAL,
    weighted=("elected", "elected", "grant", "grant", "append", "candidate", *_USUAL),
    later=("snapshot", "download", "install", "clean", "voters"),
    of_others=("joining",),
    rare=frozenset(
        {
            "candidate",
            "grant",
            "elected",
            "truncate",
            "claim",
            "download",
            "install",
            "voters",
            "joining",
        }
    ),
    often=frozenset({"append", "replicate", "hw"}),
    led=("append", "append", "replicate", "hw", "hw", "claim", "elected", "truncate"),
    rises=("elected", "elected", "claim", "append", "hw"),
    elected="elected",
    claim="claim",
    committed="hw",
    download="download",
    members="voters",
)
