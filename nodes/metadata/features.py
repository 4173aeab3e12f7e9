"""Feature levels: those this code supports, those finalized, and UpdateFeatures (57).

A FeatureLevelRecord finalizes a level; ``kraft.version`` is in control records of the quorum
instead. The rules are those of KIP-584, KIP-778 and KIP-853.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kraftwreck.nodes.metadata.config_keys import COMMIT_MODE, QUORUM
from kraftwreck.nodes.metadata.eligibility import (
    ELIGIBLE_LEADER_REPLICAS,
    ELR_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    metadata_version,
    quorum_commits,
)
from kraftwreck.nodes.metadata.failure import ApiError
from kraftwreck.nodes.metadata.image_records import LED_VERSIONS
from kraftwreck.nodes.metadata.image_values import (
    BROKER,
    COMMIT_MODE_VERSION,
    TOPIC,
    ImageView,
)
from kraftwreck.nodes.metadata.operation import Body, Context, Outcome, Record, Settings
from kraftwreck.nodes.protocol.errors import INVALID_REQUEST, INVALID_UPDATE_VERSION, NONE

KRAFT_VERSION: Final = "kraft.version"
SUPPORTED_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: LED_VERSIONS,
    KRAFT_VERSION: (0, 1),
    ELR_VERSION: (0, 1),
    COMMIT_MODE_VERSION: (0, 1),
}
DEFAULT_METADATA_VERSION: Final = 25

# The first levels of metadata.version with certain abilities.
MIGRATING_FLAG: Final = 8
TRANSACTIONS: Final = 13
CONTROLLER_REGISTRATION: Final = 15

LOSSY_LEVELS: Final = frozenset((7, 8, 11, 13, 14, 15, 16, 17, 23))
"""Levels whose records or fields the preceding level cannot read."""

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


def feature_record(name: str, level: int) -> Record:
    """Return the record that finalizes ``level``."""
    return ("FeatureLevelRecord", 0, {"name": name, "feature_level": level})


def elr_records(image: ImageView, settings: Settings) -> list[Record]:
    """Return the records that the log needs when eligible leader replicas are switched on.

    The cluster-wide min.insync.replicas becomes explicit, so that from then on every broker uses
    the same number.
    """
    if MIN_INSYNC_REPLICAS in image.configs.get((BROKER, ""), {}):
        return []
    fields = {
        "resource_type": BROKER,
        "resource_name": "",
        "name": MIN_INSYNC_REPLICAS,
        "value": str(settings.min_insync_replicas),
    }
    return [("ConfigRecord", 0, fields)]


def supported_by(ranges: Iterable[tuple[str, int, int]], name: str, level: int) -> bool:
    """Return whether a node with these (feature, minimum, maximum) takes ``level``; absent is 0."""
    for feature, low, high in ranges:
        if feature == name:
            return low <= level <= high
    return level == 0


def unsupported_finalized(
    image: ImageView, ranges: Iterable[tuple[str, int, int]]
) -> tuple[str, int] | None:
    """Return a finalized (feature, level) a node with these ranges does not support."""
    known = list(ranges)
    for name, level in sorted(image.features.items()):
        if not supported_by(known, name, level):
            return name, level
    return None


def _invalid(name: str, level: int, reason: str) -> ApiError:
    return ApiError(
        INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {reason}"
    )


def _check_supported(context: Context, name: str, level: int) -> None:
    low, high = SUPPORTED_FEATURES.get(name, (0, -1))
    if not low <= level <= high:
        reason = (
            f"Local controller {context.node_id} only supports versions {low}-{high}"
            if name in SUPPORTED_FEATURES
            else f"Local controller {context.node_id} does not support this feature."
        )
        raise _invalid(name, level, reason)
    image = context.image
    ranges = [(f"Controller {node}", c.features) for node, c in sorted(image.controllers.items())]
    ranges += [(f"Broker {node}", b.features) for node, b in sorted(image.brokers.items())]
    for node, features in ranges:
        if name == KRAFT_VERSION and not any(feature.name == name for feature in features):
            continue  # voters report their supported range in UpdateRaftVoter
        if not supported_by(features, name, level):
            raise _invalid(name, level, f"{node} does not support this version.")


def _check_direction(name: str, level: int, current: int, upgrade_type: int) -> None:
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise ApiError(
            INVALID_REQUEST, f"The upgrade type {upgrade_type} of feature {name} is unknown."
        )
    if level < 0:
        raise _invalid(name, level, "A feature version cannot be less than 0.")
    if level < current and upgrade_type == UPGRADE:
        raise _invalid(
            name,
            level,
            f"Can't downgrade the version of this feature (now {current}) without setting the "
            "upgrade type to either safe or unsafe downgrade.",
        )
    if level > current and upgrade_type != UPGRADE:
        raise _invalid(name, level, "Can't downgrade to a newer version.")


def _check_metadata_version(level: int, current: int, upgrade_type: int) -> None:
    lost = [step for step in range(level + 1, current + 1) if step in LOSSY_LEVELS]
    if not lost:
        return
    if upgrade_type == UNSAFE_DOWNGRADE:
        # As Kafka: records that the older version cannot read stay in the log.
        reason = "Unsafe metadata downgrade is not supported in this version."
    else:
        reason = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
        )
    raise _invalid(METADATA_VERSION, level, reason)


def _check_quorum_topics(image: ImageView, level: int) -> None:
    """Keep the feature while a topic needs it: brokers without it would lead by other rules."""
    needing = (
        name
        for (kind, name), configs in sorted(image.configs.items())
        if kind == TOPIC and quorum_commits(configs)
    )
    topic = next(needing, None) if level == 0 else None
    if topic is not None:
        reason = f"The topic {topic} has {COMMIT_MODE}={QUORUM}; delete such topics first."
        raise _invalid(COMMIT_MODE_VERSION, level, reason)


def _updated(
    context: Context, name: str, level: int, upgrade_type: int, planned: Mapping[str, int]
) -> list[Record]:
    """Return the records of one update; raises ApiError. ``planned``: the whole request's."""
    quorum = context.quorum
    if name == KRAFT_VERSION:
        current = quorum.kraft_version if quorum is not None else 0
    else:
        current = context.image.features.get(name, 0)
    _check_direction(name, level, current, upgrade_type)
    _check_supported(context, name, level)
    if name == KRAFT_VERSION:
        reason = quorum.kraft_version_fault(level) if quorum is not None else "No quorum."
        if level != current and reason is not None:
            raise _invalid(name, level, reason)
        return []
    if name == METADATA_VERSION:
        _check_metadata_version(level, current, upgrade_type)
    elr = planned.get(ELR_VERSION, context.image.features.get(ELR_VERSION, 0))
    version = planned.get(METADATA_VERSION, metadata_version(context.image))
    if elr > 0 and version < ELIGIBLE_LEADER_REPLICAS:
        raise _invalid(
            name,
            level,
            f"{ELR_VERSION} {elr} needs {METADATA_VERSION} {ELIGIBLE_LEADER_REPLICAS} or more.",
        )
    if level == current:
        return []
    if name == COMMIT_MODE_VERSION:
        _check_quorum_topics(context.image, level)
    records = [feature_record(name, level)]
    if name == ELR_VERSION and level > 0:
        records.extend(elr_records(context.image, context.settings))
        if context.image.with_elr():
            # While it was off, a changed min.insync.replicas left them as they were.
            records.append(("ClearElrRecord", 0, {"topic_name": ""}))
    return records


def update_features(context: Context, version: int, body: Body) -> Outcome:
    """Finalize feature levels: all of the request's, or none and the first one's error."""
    updates = body["feature_updates"]
    planned = {update["feature"]: update["max_version_level"] for update in updates}
    records: list[Record] = []
    code, message = NONE, None
    try:
        if len(planned) != len(updates):
            raise ApiError(INVALID_REQUEST, "Each feature must appear at most once.")
        for update in updates:
            upgrade_type = update["upgrade_type"]
            if version == 0:
                upgrade_type = SAFE_DOWNGRADE if update["allow_downgrade"] else UPGRADE
                if update["allow_downgrade"] and update["max_version_level"] > (
                    context.image.features.get(update["feature"], 0)
                ):
                    upgrade_type = UPGRADE  # version 0 only permits a downgrade
            records.extend(
                _updated(
                    context, update["feature"], update["max_version_level"], upgrade_type, planned
                )
            )
    except ApiError as error:
        code, message = error.code, error.message
    refused = code != NONE
    answer: Body = {"throttle_time_ms": 0, "error_code": code, "error_message": message}
    if version <= 1:
        # All levels succeed or fail together, so each one's result is that of the request.
        answer["results"] = [
            {"feature": update["feature"], "error_code": code, "error_message": message}
            for update in updates
        ]
    if refused or body["validate_only"]:
        return Outcome([], answer)
    return Outcome(records, answer, kraft_version=planned.get(KRAFT_VERSION))
