"""Settings of a run's nodes: in ``test.json``, or in a simulated run among its knobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def setting(test: Mapping[str, Any], name: str, default: int) -> int:
    """Return a setting of the nodes; ``default`` if it was not set."""
    knobs = test.get("knobs")
    node = knobs.get("node") if isinstance(knobs, dict) else None
    settings = node if isinstance(node, dict) else test
    return int(settings.get(name, default))
