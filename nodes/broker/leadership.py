"""The broker's view of the quorum: the node that leads, and where to reach it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kraftwreck.nodes.consensus.endpoint import Endpoint


class Leadership(Protocol):
    """The quorum as this node's replica knows it (``nodes.metadata.quorum.Quorum``)."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def leader_id(self) -> int:
        """The leader of the present epoch, -1 if unknown."""
        ...

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader serves controllers, None if unknown."""
        ...

    @property
    def kraft_version(self) -> int:
        """The ``kraft.version`` in force."""
        ...


@dataclass(slots=True, frozen=True)
class ControllerAddress:
    """The leader of the quorum and the endpoint for requests to it."""

    node_id: int
    endpoint: Endpoint


def controller_of(quorum: Leadership) -> ControllerAddress | None:
    """Return the active controller as far as known; it may still be claiming the role."""
    endpoint = quorum.leader_endpoint
    if quorum.leader_id < 0 or endpoint is None:
        return None
    return ControllerAddress(quorum.leader_id, endpoint)
