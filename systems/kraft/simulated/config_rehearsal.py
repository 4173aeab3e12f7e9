"""Gives the data plane of a broker configs that nobody has set (D17).

A config of a topic precedes that of the broker, which precedes that of all brokers, whatever their
values are. Once it is removed, the next one is in force, without a restart. Clients of the
simulator set few configs, and most values would stop a run. So they are invented, for one partition
of an image: each config is set in all these places, and removed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final

from kraftwreck.nodes.broker.image_changes import ImageChanges
from kraftwreck.nodes.metadata.config_keys import TOPIC_KEYS
from kraftwreck.nodes.metadata.image_values import BROKER, TOPIC, ImageView, PartitionKey
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.events import Settings
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.assignment_watch import SETTINGS, SHAPE
from kraftwreck.systems.kraft.simulated.record_logs import replicas_on

Configs = Mapping[tuple[int, str], Mapping[str, str]]

NAMES: Final = SETTINGS | {
    config: (config.replace(".", "_"), of_brokers) for config, of_brokers in SHAPE.items()
}
"""Configs of topics: where a replica has them, and the config of brokers that is the default."""
PLACES: Final = 3
"""The topic, the broker, all brokers: in the order in which they count."""
DEFAULT_REPLICAS: Final = 1
"""``min.insync.replicas`` of the process."""


class ConfigRehearsal:
    """Invents configs for the first partition that a broker of ``world`` has."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._waits = True
        world.on_emit.append(self._on_emit)

    def _on_emit(self, host: Host) -> None:
        node = host.node
        if not self._waits or not isinstance(node, Node) or not (replicas := replicas_on(host)):
            return
        image = node.image.stable
        key = next((each for each in replicas if each in image.partitions), None)
        if key is not None:
            self._waits = False
            for wrong in wrong_settings(host.id, image, key):
                self._failures.add("D17", self._world.now, f"{host.name} {wrong}")


def wrong_settings(own: int, image: ImageView, key: PartitionKey) -> Iterator[str]:
    """Yield the settings that the broker ``own`` would not have for a partition of ``image``."""
    topic = image.names[key[0]]
    for config, (name, of_brokers) in NAMES.items():
        least = max(int(TOPIC_KEYS[config].minimum), 0)
        for first in range(PLACES):
            values = [least + (first + place) % PLACES for place in range(PLACES)]
            places = (
                (TOPIC, topic, config),
                (BROKER, str(own), of_brokers),
                (BROKER, "", of_brokers),
            )
            changes = ImageChanges(own, DEFAULT_REPLICAS)
            given: dict[tuple[int, str], dict[str, str]] = {
                # That of another broker counts nowhere.
                (BROKER, str(own + 1)): {of_brokers: str(least + PLACES)}
            }
            settings = _taken(changes, Settings(), image, key, given)
            default = getattr(settings, name)
            for place in (2, 1, 0, *range(PLACES)):
                kind, resource, named = places[place]
                if given.pop((kind, resource), None) is None:
                    given[kind, resource] = {named: str(values[place])}
                settings = _taken(changes, settings, image, key, given)
                right = next((values[i] for i in range(PLACES) if places[i][:2] in given), default)
                if (value := getattr(settings, name)) != right:
                    configs = {each: dict(given[each]) for each in sorted(given)}
                    yield f"would act on {config}={value}, not {right}, with the configs {configs}"
                    break


def _taken(
    changes: ImageChanges, before: Settings, image: ImageView, key: PartitionKey, configs: Configs
) -> Settings:
    """Return the settings of a partition once its broker has taken ``configs`` in."""
    view: Any = SimpleNamespace(
        partitions={key: image.partitions[key]},
        names=image.names,
        brokers=image.brokers,
        configs={each: dict(values) for each, values in configs.items()},
    )
    published = changes.since_last(view)
    told = None if published is None or published.settings is None else published.settings.get(key)
    return before if told is None else told
