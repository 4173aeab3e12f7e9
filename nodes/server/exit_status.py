"""Exit statuses of a node's process."""

from __future__ import annotations

from typing import Final

STOPPED: Final = 0
DISK_FAILED: Final = 1
FATAL: Final = 3
"""An illegal state was reached."""
BAD_CONFIG: Final = 254
