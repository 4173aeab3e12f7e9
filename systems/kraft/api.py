"""The public face of KRaft: what a package outside of this tree imports to write a workload for it.

Names of other modules may move without notice; these stay, or change with a line in the changelog.
``docs/api.md`` lists them, and ``kraftwreck.api`` has everything that is not about KRaft.
"""

from __future__ import annotations

from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState, KraftClient, KraftWorkload, kafka_call
from kraftwreck.systems.kraft.workloads.controller import (
    ask_controller,
    ask_for_write,
    not_answered,
    refused_by_node,
)

__all__ = [
    "ClientState",
    "KraftClient",
    "KraftWorkload",
    "ask_controller",
    "ask_for_write",
    "errors",
    "kafka_call",
    "not_answered",
    "refused_by_node",
]
