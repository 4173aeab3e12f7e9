"""Settings of a run's nodes: in ``test.json``, or in a simulated run among its knobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftwreck.checkers.kraft.limits import FETCH_TIMEOUT_MS, MS


def setting(test: Mapping[str, Any], name: str, default: int) -> int:
    """Return a setting of the nodes; ``default`` if it was not set."""
    knobs = test.get("knobs")
    node = knobs.get("node") if isinstance(knobs, dict) else None
    settings = node if isinstance(node, dict) else test
    return int(settings.get(name, default))


def check_quorum_ns(test: Mapping[str, Any]) -> int:
    """Return how long (ns) a leader stays without a majority, by its own clock: 1.5 fetch
    timeouts."""
    return int(setting(test, "fetch_timeout_ms", FETCH_TIMEOUT_MS) * 1.5) * MS
