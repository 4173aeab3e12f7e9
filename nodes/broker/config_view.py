"""Configurations, as a broker describes them to its clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kraftwreck.nodes.broker.cluster_view import alive_brokers
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.metadata.config_keys import ConfigType
from kraftwreck.nodes.metadata.describe import describe_configs
from kraftwreck.nodes.metadata.image_values import BROKER, TOPIC, ImageView
from kraftwreck.nodes.protocol.errors import NONE, UNSUPPORTED_VERSION

Body = dict[str, Any]

BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
STATIC: Final = 4
"""The source of a value in the file of properties."""
ADVERTISED: Final = "advertised.listeners"

_LISTED: Final[dict[int, Callable[[ImageView, str], list[str]]]] = {
    TOPIC: lambda image, _: sorted(image.topics),
    BROKER: lambda image, listener: [str(each) for each in alive_brokers(image, listener)],
    BROKER_LOGGER: lambda image, listener: [str(each) for each in alive_brokers(image, listener)],
    CLIENT_METRICS: lambda _, __: [],
    GROUP: lambda _, __: [],
}
"""Type of a resource → the names of its resources. Nobody can configure the last two here."""


def list_config_resources(image: ImageView, listener: str, version: int, body: Body) -> Body:
    """Answer ListConfigResources (KIP-1142); version 0 asks for client metrics only."""
    wanted = {CLIENT_METRICS} if version == 0 else {*body["resource_types"]} or {*_LISTED}
    answer: Body = {"throttle_time_ms": 0, "error_code": NONE, "config_resources": []}
    if not wanted <= {*_LISTED}:
        return answer | {"error_code": UNSUPPORTED_VERSION}
    answer["config_resources"] = [
        {"resource_name": name, "resource_type": kind}
        for kind, names in _LISTED.items()
        if kind in wanted
        for name in names(image, listener)
    ]
    return answer


def described_configs(
    image: ImageView, node_id: int, listener: str, endpoint: Endpoint | None, body: Body
) -> Body:
    """Answer DescribeConfigs; only this broker knows where it says that it listens."""
    answer = describe_configs(image, (), body)
    if endpoint is None:
        return answer
    for resource, result in zip(body["resources"], answer["results"], strict=True):
        keys = resource["configuration_keys"] or ()
        own = (resource["resource_type"], resource["resource_name"]) == (BROKER, str(node_id))
        if own and result["error_code"] == NONE and (not keys or ADVERTISED in keys):
            value = f"{listener}://{endpoint.host}:{endpoint.port}"
            result["configs"].append(_static(ADVERTISED, value, synonyms=body["include_synonyms"]))
    return answer


def _static(name: str, value: str, *, synonyms: bool) -> Body:
    return {
        "name": name,
        "value": value,
        "read_only": True,
        "config_source": STATIC,
        "is_sensitive": False,
        "synonyms": [{"name": name, "value": value, "source": STATIC}] if synonyms else [],
        "config_type": int(ConfigType.LIST),
        "documentation": None,
    }
