"""Keep one message from ending the node: the boundary, and how far an epoch may be raised.

A message is refused, and the node continues, as long as its handler has changed nothing. A
node reaches its disk and other nodes by effects only, so a handler that has queued none has
promised nothing. Once there are effects, an unexpected exception leaves memory and promises apart:
then the process stops, and restarts from its disk (docs/decisions/0030-frames-that-kill.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nodes.consensus.effects import ContradictionError, FatalError
from nodes.consensus.kraft.leader import Leader
from nodes.consensus.kraft.replication import Replication

CONTRADICTION: Final = "contradiction"
DEFECT: Final = "defect"


def contained(replica: Replication, what: str, handler: Callable[[], None]) -> str | None:
    """Run ``handler``; return why it was refused (:data:`CONTRADICTION`, :data:`DEFECT`) or None.

    A refusal is traced. Raises what the handler raised if it had changed something before.
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
    """Return what every change of a replica that others can see changes, too."""
    state = replica.state
    queued = state.next_offset if isinstance(state, Leader) else -1
    return id(state), replica.epoch, len(replica.effects), len(replica.committed), queued
