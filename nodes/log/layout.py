"""Paths and file names inside a node's data directory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
QUORUM_STATE: Final = "quorum-state"
META_PROPERTIES: Final = "meta.properties"
DEFAULT_SEGMENT_BYTES: Final = 1 << 30
DEFAULT_SEGMENT_MS: Final = 7 * 24 * 3600 * 1000

_STALE = (".part", ".deleted", ".tmp", ".cleaned", ".swap")
_SEGMENT = re.compile(r"\d{20}\.log", re.ASCII)


@lru_cache(maxsize=4096)
def inside(directory: Path, name: str) -> Path:
    """Return ``directory / name``, cached.

    Few names are used, very often, and making a path costs more than writing a batch to the page
    cache.
    """
    return directory / name


def segment_name(base_offset: int) -> str:
    """Return the file name of the segment whose first record has ``base_offset``."""
    return f"{base_offset:020d}.log"


def segment_offsets(names: Iterable[str]) -> list[int]:
    """Return the base offsets of the segments among the ``names`` of a partition, ascending."""
    return sorted(int(name[:20]) for name in names if _SEGMENT.fullmatch(name))


def is_stale(name: str) -> bool:
    """Return whether a file of a partition is left over from an interrupted operation."""
    return name.endswith(_STALE)
