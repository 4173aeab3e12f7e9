"""Describe the feature levels of a cluster, and upgrade them (KIP-584, KIP-853)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraftwreck.nodes.admin.client import CLIENT_ID, refused
from kraftwreck.nodes.admin.cluster import Cluster
from kraftwreck.nodes.protocol.errors import NONE

UPGRADE: Final = 1
_TIMEOUT_MS: Final = 10_000
_ASKING: Final = {"client_software_name": CLIENT_ID, "client_software_version": "1"}


def describe_features(cluster: Cluster) -> dict[str, Any]:
    """Return the levels in force, 0 for features that are off, and those that a broker supports."""
    answer = cluster.client.call("ApiVersions", _ASKING)
    if answer["error_code"] != NONE:
        raise refused("ApiVersions", answer["error_code"], None)
    supported = {
        each["name"]: (each["min_version"], each["max_version"])
        for each in answer["supported_features"]
    }
    finalized = {each["name"]: each["max_version_level"] for each in answer["finalized_features"]}
    return {
        "levels": {name: finalized.get(name, 0) for name in sorted({*supported, *finalized})},
        "supported": {name: f"{low} to {high}" for name, (low, high) in sorted(supported.items())},
    }


def upgrade_features(cluster: Cluster, wanted: Mapping[str, int], dry_run: bool) -> dict[str, Any]:
    """Raise the features to the levels ``wanted``, all or none; a level in force is no error.

    With ``dry_run`` the controller checks the request, and changes nothing.
    """
    updates = [
        {
            "feature": name,
            "max_version_level": level,
            "upgrade_type": UPGRADE,
            "allow_downgrade": False,
        }
        for name, level in wanted.items()
    ]
    body = {"timeout_ms": _TIMEOUT_MS, "feature_updates": updates, "validate_only": dry_run}
    answer = cluster.client.call("UpdateFeatures", body)
    if answer["error_code"] != NONE:
        raise refused("UpdateFeatures", answer["error_code"], answer["error_message"])
    return {"possible" if dry_run else "levels": dict(wanted)}
