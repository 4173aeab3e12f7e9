"""Where the controllers and brokers of Apache Kafka are, and one request to one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kraftwreck.api import Answer, Place
from kraftwreck.systems.kraft.client import KafkaClient

BROKERS, CONTROLLERS = 9092, 9093
_FIRST_CONTROLLER = 100


@dataclass(frozen=True, slots=True)
class Cluster:
    """All hosts in order; ``apart``: controllers are processes with ids of their own."""

    places: tuple[Place, ...]
    apart: bool

    def broker_id(self, place: Place) -> int:
        """Return the node id of the host's broker."""
        return place.number

    def controller_id(self, place: Place) -> int:
        """Return the node id of the host's controller."""
        return place.number + (_FIRST_CONTROLLER if self.apart else 0)


def connection(place: Place, port: int) -> KafkaClient:
    """Return a connection to a host's broker or controller, not open yet."""
    return KafkaClient(place.ip, port, "kraftwreck", place.gateway)


def ask(
    place: Place, port: int, api: str, version: int, body: dict[str, Any], timeout_ms: int
) -> Answer:
    """Send one request through a connection of its own."""
    client = connection(place, port)
    try:
        return client.call(api, version, body, timeout_ms)
    finally:
        client.close()
