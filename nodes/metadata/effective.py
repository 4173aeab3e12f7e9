"""Effective configurations: dynamic values, fallbacks and defaults, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kraftwreck.nodes.metadata.config_keys import BROKER_KEYS, TOPIC_KEYS, ConfigKey
from kraftwreck.nodes.metadata.image import BROKER, TOPIC, ImageView

# DescribeConfigsResponse.ConfigSource
DYNAMIC_TOPIC: Final = 1
DYNAMIC_BROKER: Final = 2
DYNAMIC_DEFAULT_BROKER: Final = 3
DEFAULT: Final = 5


@dataclass(slots=True, frozen=True)
class Effective:
    """One configuration in force; ``synonyms`` are (name, value, source), the first one wins."""

    key: ConfigKey
    value: str | None
    source: int
    synonyms: tuple[tuple[str, str | None, int], ...]


def _resolved(key: ConfigKey, layers: list[tuple[str, str | None, int]]) -> Effective:
    # Every layer but the default is there only if it is set.
    _, value, source = layers[0]
    return Effective(key, value, source, tuple(layers))


def topic_configs(image: ImageView, overrides: Mapping[str, str]) -> list[Effective]:
    """Return all configurations of a topic that has ``overrides`` set."""
    cluster = image.configs.get((BROKER, ""), {})
    result = []
    for key in TOPIC_KEYS.values():
        layers: list[tuple[str, str | None, int]] = []
        if key.name in overrides:
            layers.append((key.name, overrides[key.name], DYNAMIC_TOPIC))
        if key.synonym is not None and key.synonym in cluster:
            layers.append((key.synonym, cluster[key.synonym], DYNAMIC_DEFAULT_BROKER))
        layers.append((key.synonym or key.name, key.default, DEFAULT))
        result.append(_resolved(key, layers))
    return result


def broker_configs(image: ImageView, broker: str) -> list[Effective]:
    """Return all configurations of a broker; ``""`` is the default of the whole cluster."""
    cluster = image.configs.get((BROKER, ""), {})
    own = image.configs.get((BROKER, broker), {}) if broker else {}
    result = []
    for key in BROKER_KEYS.values():
        layers: list[tuple[str, str | None, int]] = []
        if key.name in own:
            layers.append((key.name, own[key.name], DYNAMIC_BROKER))
        if key.name in cluster:
            layers.append((key.name, cluster[key.name], DYNAMIC_DEFAULT_BROKER))
        if broker:
            layers.append((key.name, key.default, DEFAULT))
        if layers:  # as in Kafka, the cluster default lists only values that are set
            result.append(_resolved(key, layers))
    return result


def configs_of(image: ImageView, resource_type: int, name: str) -> list[Effective]:
    """Return the effective configurations of an existing topic or broker resource."""
    if resource_type == TOPIC:
        return topic_configs(image, image.configs.get((TOPIC, name), {}))
    return broker_configs(image, name)
