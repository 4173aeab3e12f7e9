"""The metadata of a cluster as kcat shows it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

Listing = tuple[dict[str, Any], dict[str, list[Any]]]
"""All that kcat lists, and the partitions of each topic in it."""


def listing_with(topic: str, port: int) -> Listing | None:
    """Return the listing of the node at ``port``, None if it lacks ``topic`` so far."""
    output = subprocess.run(
        ["kcat", "-L", "-J", "-b", f"127.0.0.1:{port}"],
        capture_output=True,
        check=True,
        timeout=300,
    ).stdout
    listing: dict[str, Any] = json.loads(output)
    topics = {each["topic"]: each["partitions"] for each in listing["topics"]}
    return (listing, topics) if topic in topics else None
