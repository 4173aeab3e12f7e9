"""Containment: one message must not stop a node, nor raise its epoch without bound.

A node rejects a message and continues as long as the handler has changed nothing. A node changes
its disk and other nodes only through effects, so a handler that queued none has promised nothing.
An unexpected exception after effects leaves memory and promises inconsistent. The process then
stops and restarts from its disk (docs/decisions/0030-frames-that-kill.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from kraftwreck.nodes.consensus.effects import ContradictionError, FatalError

CONTRADICTION: Final = "contradiction"
DEFECT: Final = "defect"


class Position(Protocol):
    """A core, as far as containment needs it."""

    def position(self) -> tuple[object, ...]:
        """Return values of which at least one differs after any externally visible change."""
        ...

    def trace(self, kind: str, detail: dict[str, Any] | None = None) -> None:
        """Queue a trace event."""
        ...


def contained(replica: Position, what: str, handler: Callable[[], None]) -> str | None:
    """Run ``handler``; return None or why it failed (:data:`CONTRADICTION`, :data:`DEFECT`).

    A rejection is traced. If the handler had already changed something, its exception propagates.
    """
    before = replica.position()
    try:
        handler()
    except FatalError:
        raise
    except Exception as error:
        if replica.position() != before:
            raise
        refused = CONTRADICTION if isinstance(error, ContradictionError) else DEFECT
        text = str(error) if refused == CONTRADICTION else f"{type(error).__name__}: {error}"
        replica.trace(refused, {"in": what, "reason": text})
        return refused
    return None
