"""The transitions of KRaft's nodes for which faults wait."""

from __future__ import annotations

from typing import Final

from kraftwreck.nemesis.transitions import Transitions

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
