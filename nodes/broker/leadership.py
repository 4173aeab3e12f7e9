"""What a broker needs to know of the quorum: where the active controller is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nodes.consensus.endpoint import Endpoint


class Leadership(Protocol):
    """The quorum as this node's replica of it knows it (``nodes.metadata.quorum.Quorum``)."""

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
        """The level of ``kraft.version`` in force."""
        ...


@dataclass(slots=True, frozen=True)
class ControllerAddress:
    """The node that leads the quorum, and where to send it requests."""

    node_id: int
    endpoint: Endpoint


def controller_of(quorum: Leadership) -> ControllerAddress | None:
    """Return the active controller as far as known; a claim may still be under way there."""
    endpoint = quorum.leader_endpoint
    if quorum.leader_id < 0 or endpoint is None:
        return None
    return ControllerAddress(quorum.leader_id, endpoint)
