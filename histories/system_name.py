"""The name of the system that a run tested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_SYSTEM = "kraft"
"""The system of commands, and of files that name none."""


def system_of(test: Mapping[str, Any]) -> str:
    """Return the system that ``test``, the contents of ``test.json``, names."""
    return str(test.get("system", DEFAULT_SYSTEM))
