"""Settings of a user partition's log, by the names that Kafka's topics have for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogSettings:
    """``segment.bytes``, ``segment.ms`` and ``index.interval.bytes``.

    ``gaps``: offsets may be missing between batches, as compaction leaves them.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    gaps: bool = False
