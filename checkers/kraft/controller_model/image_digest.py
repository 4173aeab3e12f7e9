"""The digest a node's image must have in each state, from the records alone.

The nodes define the hash of an entry (:func:`nodes.metadata.image_digest.hash_of`). The replay
decides which entries there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kraftwreck.checkers.kraft.controller_model.metadata_model import Broker, Partition
from kraftwreck.checkers.kraft.controller_model.state import StateHistory
from kraftwreck.nodes.metadata import image_values
from kraftwreck.nodes.metadata.image_digest import MODULUS, hash_of


class NoDigestError(Exception):
    """The digest depends on the order of a list that the replay has sorted."""


def digests(history: StateHistory, ends: Iterable[int]) -> dict[int, str]:
    """Return the digest of each state of ``ends``; raises :class:`NoDigestError`."""
    changes = sorted(history.changes(), key=lambda change: change[0])
    held: dict[tuple[str, Any], int] = {}
    configs: dict[tuple[int, str], dict[str, str]] = {}
    total, place = 0, 0
    found = {}
    for end in sorted(set(ends)):
        while place < len(changes) and changes[place][0] <= end:
            _, section, key, value = changes[place]
            place += 1
            if section == "configs":
                resource = key[:2]
                values = configs.setdefault(resource, {})
                values.pop(key[2], None)
                if value is not None:
                    values[key[2]] = value
                key, value = resource, dict(values) or None
            new = 0 if value is None else hash_of(section, key, _entry(section, key, value))
            total += new - held.get((section, key), 0)
            held[section, key] = new
        found[end] = f"{total % MODULUS:032x}"
    return found


def _entry(section: str, key: Any, value: Any) -> Any:
    """Return a value as the nodes' image holds it."""
    if section == "partitions":
        return _partition(value)
    if section == "topics":
        return image_values.Topic(key, value)
    if section == "brokers":
        return _broker(key, value)
    if section == "controllers":
        incarnation, endpoints, features, ready = value
        return image_values.ControllerRegistration(
            key, incarnation, _listeners(endpoints), _features(features), ready
        )
    return value


def _partition(value: Partition) -> image_values.Partition:
    untold = (image_values.MIGRATING_DIRECTORY,) * len(value.replicas)
    return image_values.Partition(
        value.replicas,
        value.isr,
        value.removing,
        value.adding,
        value.leader,
        value.leader_epoch,
        value.partition_epoch,
        value.recovery,
        value.directories or untold,
        value.elr,
        value.last_known_elr,
    )


def _broker(broker_id: int, value: Broker) -> image_values.Broker:
    if len(value.directories) > 1 or len(value.cordoned or ()) > 1:
        raise NoDigestError(f"broker {broker_id} has several log directories")
    return image_values.Broker(
        broker_id,
        value.incarnation,
        value.epoch,
        _listeners(value.endpoints),
        value.rack,
        value.fenced,
        value.stopping,
        _features(value.features),
        value.directories,
        value.cordoned,
    )


def _listeners(
    endpoints: tuple[tuple[str, str, int, int], ...],
) -> tuple[image_values.Listener, ...]:
    if len(endpoints) > 1:
        raise NoDigestError("a registration has several listeners")
    return tuple(image_values.Listener(*endpoint) for endpoint in endpoints)


def _features(
    features: tuple[tuple[str, int, int], ...],
) -> tuple[image_values.SupportedFeature, ...]:
    return tuple(image_values.SupportedFeature(*feature) for feature in features)
