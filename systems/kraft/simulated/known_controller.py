"""The active controller that a node knows and can reach, for rules about requests to it."""

from __future__ import annotations

from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.simulation.host import Host


def known_controller(host: Host, replica: Replica) -> int | None:
    """Return the id of the other node that ``host`` knows as the active controller, None without
    one. ``replica`` is its member of the quorum."""
    if replica.leader_endpoint is None or replica.state.leader_id in (-1, host.id):
        return None
    return replica.state.leader_id
