"""The requests for records that a broker handles in one step."""

from __future__ import annotations

from typing import Any, Final, get_args

from kraftwreck.nodes.replication.events import Request, Together

_KINDS: Final = frozenset[type](get_args(Request))


def requests_of_step(event: Any) -> tuple[Request, ...]:
    """Return the requests of ``event``, in the order in which the step handles them."""
    if type(event) is Together:
        return event.requests
    return (event,) if type(event) in _KINDS else ()
