"""Containment: one message must not stop a node, nor raise its epoch without bound.

A node rejects a message and continues as long as the handler has changed nothing. A node changes
its disk and other nodes only through effects, so a handler that queued none has promised nothing.
An unexpected exception after effects leaves memory and promises inconsistent. The process then
stops and restarts from its disk (docs/decisions/0030-frames-that-kill.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraftwreck.nodes.consensus.effects import ContradictionError, FatalError
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.replication import Replication

CONTRADICTION: Final = "contradiction"
DEFECT: Final = "defect"


def contained(replica: Replication, what: str, handler: Callable[[], None]) -> str | None:
    """Run ``handler``; return None or why it failed (:data:`CONTRADICTION`, :data:`DEFECT`).

    A rejection is traced. If the handler had already changed something, its exception propagates.
    """
    before = _position(replica)
    try:
        handler()
    except FatalError:
        raise
    except Exception as error:
        if _position(replica) != before:
            raise
        refused = CONTRADICTION if isinstance(error, ContradictionError) else DEFECT
        text = str(error) if refused == CONTRADICTION else f"{type(error).__name__}: {error}"
        replica.trace(refused, {"in": what, "reason": text})
        return refused
    return None


def _position(replica: Replication) -> tuple[object, ...]:
    """Return values of which at least one differs after any externally visible change."""
    state = replica.state
    queued = state.next_offset if isinstance(state, Leader) else -1
    return id(state), replica.epoch, len(replica.effects), len(replica.committed), queued
