"""The brokers of the cluster, as a broker describes them to its clients (KIP-919)."""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.metadata.image_values import Broker, ImageView, Listener
from kraftwreck.nodes.protocol.errors import (
    MISMATCHED_ENDPOINT_TYPE,
    NONE,
    UNSUPPORTED_ENDPOINT_TYPE,
)

Body = dict[str, Any]

NOBODY: Final = -1
BROKERS: Final = 1
CONTROLLERS: Final = 2
CLUSTER_OPERATIONS: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""The cluster operations that are allowed to everybody, as there is no authorization."""


def listener_of(broker: Broker, name: str) -> Listener | None:
    """Return where ``broker`` listens under the name of a listener."""
    return next((each for each in broker.endpoints if each.name == name), None)


def alive_brokers(image: ImageView, listener: str) -> dict[int, Broker]:
    """Return the unfenced brokers that have this listener, by id in order."""
    return {
        broker_id: broker
        for broker_id, broker in sorted(image.brokers.items())
        if not broker.fenced and listener_of(broker, listener) is not None
    }


def some_controller(alive: dict[int, Broker], seed: int, *key: object) -> int:
    """Return the broker to report as the controller.

    Clients send changes of metadata to it. Any broker forwards those, so each answer names another
    broker and the load spreads.
    """
    return list(alive)[draw_below(len(alive), seed, "controller", *key)] if alive else NOBODY


def described_brokers(image: ImageView, listener: str, fenced: bool = False) -> list[Body]:
    """Return the entries of brokers; fenced ones only if ``fenced``."""
    entries = []
    for broker_id, broker in sorted(image.brokers.items()):
        at = listener_of(broker, listener)
        if at is not None and (fenced or not broker.fenced):
            entries.append(
                {
                    "broker_id": broker_id,
                    "host": at.host,
                    "port": at.port,
                    "rack": broker.rack,
                    "is_fenced": broker.fenced,
                }
            )
    return entries


def describe_cluster(
    image: ImageView, listener: str, cluster_id: str, controller_id: int, body: Body
) -> Body:
    """Answer DescribeCluster. Only controllers describe controllers."""
    kind = body["endpoint_type"]
    answer: Body = {
        "throttle_time_ms": 0,
        "error_code": NONE,
        "error_message": None,
        "endpoint_type": kind,
        "cluster_id": cluster_id,
        "controller_id": controller_id,
        "brokers": [],
    }
    if kind == CONTROLLERS:
        return answer | {
            "error_code": MISMATCHED_ENDPOINT_TYPE,
            "error_message": "The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        }
    if kind != BROKERS:
        return answer | {
            "error_code": UNSUPPORTED_ENDPOINT_TYPE,
            "error_message": f"Unsupported endpoint type {kind}.",
        }
    if body["include_cluster_authorized_operations"]:
        answer["cluster_authorized_operations"] = CLUSTER_OPERATIONS
    answer["brokers"] = described_brokers(image, listener, body["include_fenced_brokers"])
    return answer
