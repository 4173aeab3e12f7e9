"""Names of a user partition's files; those of segments are in :mod:`nodes.log.layout`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_FILES: Final = (OFFSET_INDEX, TIME_INDEX, ".txnindex")
"""Suffixes of the files that belong to a segment beside its ``.log``."""
DELETED: Final = ".deleted"

_NUMBERED = re.compile(r"(\d{20})(\.[a-z]+)", re.ASCII)


def numbered(offset: int, suffix: str) -> str:
    """Return the name of the file of ``suffix`` that begins at, or for a snapshot ends at, it."""
    return f"{offset:020d}{suffix}"


def offsets_of(names: Iterable[str], suffix: str) -> list[int]:
    """Return the offsets in those of ``names`` that have exactly ``suffix``, ascending."""
    found = (_NUMBERED.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in found if match and match[2] == suffix)
