"""Rules for brokers that may hold or lead replicas, derived from the image.

While no broker has ever registered, the voters take the place of brokers: all of them count as
registered, unfenced and without log directories.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraftwreck.nodes.metadata.config_keys import COMMIT_MODE, QUORUM
from kraftwreck.nodes.metadata.image_values import (
    BROKER,
    ELR_VERSION,
    METADATA_VERSION,
    MIGRATING_DIRECTORY,
    TOPIC,
    ImageView,
)
from kraftwreck.nodes.metadata.operation import RESERVED_IDS, UNASSIGNED_DIRECTORY, Context

__all__ = [
    "DIRECTORIES",
    "ELIGIBLE_LEADER_REPLICAS",
    "ELR_VERSION",
    "LOWEST_METADATA_VERSION",
    "METADATA_VERSION",
    "MIN_INSYNC_REPLICAS",
    "commits_by_quorum",
    "default_directory",
    "elr_enabled",
    "has_online_directory",
    "is_active",
    "is_registered",
    "is_reserved",
    "metadata_version",
    "min_insync_replicas",
    "quorum_commits",
    "unclean_election_enabled",
]

LOWEST_METADATA_VERSION: Final = 7
"""3.3-IV3, the default while the log names no version."""
DIRECTORIES: Final = 17
"""3.7-IV2: replicas are assigned to log directories (KIP-858)."""
ELIGIBLE_LEADER_REPLICAS: Final = 23
"""4.0-IV1: records can carry eligible leader replicas (KIP-966)."""

LOST_DIRECTORY: Final = (2).to_bytes(16, "big")
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


def metadata_version(image: ImageView) -> int:
    """Return the finalized level of ``metadata.version``."""
    return image.features.get(METADATA_VERSION, LOWEST_METADATA_VERSION)


def elr_enabled(image: ImageView) -> bool:
    """Return whether partitions keep eligible leader replicas (KIP-966)."""
    enabled = image.features.get(ELR_VERSION, 0) >= 1
    return enabled and metadata_version(image) >= ELIGIBLE_LEADER_REPLICAS


def is_registered(context: Context, broker_id: int) -> bool:
    """Return whether there is such a broker, fenced or not."""
    if not context.image.brokers:
        return broker_id in context.voters
    return broker_id in context.image.brokers


def is_active(context: Context, broker_id: int) -> bool:
    """Return whether a broker may lead and join an ISR: unfenced, not in controlled shutdown."""
    if not context.image.brokers:
        return broker_id in context.voters
    broker = context.image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def is_reserved(directory: bytes) -> bool:
    """Return whether a directory id is reserved: it means lost, or not assigned yet."""
    return int.from_bytes(directory, "big") < RESERVED_IDS


def has_online_directory(context: Context, broker_id: int, directory: bytes) -> bool:
    """Return whether the log directory of a replica is online on its broker.

    A replica without an assigned directory counts as online. So does any replica of a broker that
    reported no directories, as those registered below 3.7 (KAFKA-16162).
    """
    if directory == LOST_DIRECTORY:
        return False
    if is_reserved(directory):
        return True
    broker = context.image.brokers.get(broker_id)
    if broker is None or not broker.log_dirs:
        return True
    return directory in broker.log_dirs


def default_directory(context: Context, broker_id: int) -> bytes:
    """Return the directory of a new replica: the broker's only one, or not assigned yet."""
    broker = context.image.brokers.get(broker_id)
    if broker is None or len(broker.log_dirs) > 1:
        return UNASSIGNED_DIRECTORY
    return broker.log_dirs[0] if broker.log_dirs else MIGRATING_DIRECTORY


def _config(context: Context, topic: str, name: str) -> str | None:
    value = context.image.configs.get((TOPIC, topic), {}).get(name)
    return context.image.configs.get((BROKER, ""), {}).get(name) if value is None else value


def min_insync_replicas(context: Context, topic: str) -> int:
    """Return ``min.insync.replicas`` of a topic: its own, the cluster's, or the default."""
    value = _config(context, topic, MIN_INSYNC_REPLICAS)
    return context.settings.min_insync_replicas if value is None else int(value)


def quorum_commits(configs: Mapping[str, str]) -> bool:
    """Return whether a topic with these ``configs`` has ``commit.mode=quorum``."""
    return configs.get(COMMIT_MODE) == QUORUM


def commits_by_quorum(context: Context, topic: str) -> bool:
    """Return whether a majority of the replicas commits in a topic of the image."""
    return quorum_commits(context.image.configs.get((TOPIC, topic), {}))


def unclean_election_enabled(context: Context, topic: str) -> bool:
    """Return ``unclean.leader.election.enable`` of a topic, resolved likewise."""
    value = _config(context, topic, UNCLEAN_ELECTION)
    if value is None:
        return context.settings.unclean_leader_election_enable
    return value.strip().lower() == "true"
