"""Where things stand inside a node's data directory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
QUORUM_STATE: Final = "quorum-state"
META_PROPERTIES: Final = "meta.properties"

_SEGMENT = re.compile(r"\d{20}\.log")


def segment_name(base_offset: int) -> str:
    """Return the file name of the segment whose first record has ``base_offset``."""
    return f"{base_offset:020d}.log"


def segment_offsets(directory: Path) -> list[int]:
    """Return the base offsets of the segments in a partition's ``directory``, ascending."""
    return sorted(int(path.stem) for path in directory.iterdir() if _SEGMENT.fullmatch(path.name))
