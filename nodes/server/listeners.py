"""The addresses a node listens on, and the APIs of each.

The controllers' listener serves the quorum and the controller, and requests of clients that use
only controllers. The brokers' listener serves clients. Each refuses the APIs of the other. So no
client can join the quorum, or send an Envelope for another client, through the clients' listener.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kraftwreck.nodes.broker.apis import CLIENT_APIS as BROKER_APIS
from kraftwreck.nodes.broker.apis import RECORDS
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.metadata.served import CLIENT_APIS as CONTROLLER_APIS
from kraftwreck.nodes.protocol.apis import SUPPORTED
from kraftwreck.nodes.server.addresses import BROKER, CONTROLLER, ConfigError
from kraftwreck.nodes.server.shapes import QUORUM_APIS

QUORUM: Final = frozenset(QUORUM_APIS)
SERVED: Final = {
    CONTROLLER: QUORUM | frozenset(CONTROLLER_APIS),
    BROKER: frozenset((*BROKER_APIS, *RECORDS)),
}


@dataclass(slots=True, frozen=True)
class Listener:
    """A listener: its name, the APIs it serves, and those of them that the quorum answers.

    A broker forwards AddRaftVoter instead of passing it to the quorum. ``records`` are the APIs for
    the records of users, with their versions; InitProducerId is decoded like any other.
    """

    name: str
    served: frozenset[str]
    quorum: frozenset[str]
    records: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @staticmethod
    def called(name: str, *, records: bool = False) -> Listener:
        """Return the listener of this name; a broker's serves ``records`` if it stores any."""
        if name == CONTROLLER:
            return Listener(name, SERVED[name], QUORUM)
        if not records:
            return Listener(name, frozenset(BROKER_APIS), frozenset())
        return Listener(name, SERVED[name], frozenset(), RECORDS)

    def versions(self, api: str) -> tuple[int, int]:
        """Return the first and the last version of ``api`` that is served here."""
        return self.records.get(api) or SUPPORTED[api]


def bind(endpoint: Endpoint) -> socket.socket:
    """Return a socket bound to ``endpoint``. Raises :class:`ConfigError`."""
    host, port = endpoint.host, endpoint.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    bound.setblocking(False)
    return bound
