"""Sequence numbers of idempotent producers (KIP-98): after 2^31 - 1 comes 0.

Clients and rules compute here and not with the code of brokers, which may be wrong.
"""

from __future__ import annotations

from typing import Final

from kraftwreck.nodes.replication.headers import Batch

SEQUENCES: Final = 1 << 31


def following(sequence: int, records: int = 1) -> int:
    """Return the sequence number ``records`` after ``sequence``; before it if negative."""
    return (sequence + records) % SEQUENCES


def last_of(batch: Batch) -> int:
    """Return the sequence number of the last record of ``batch``."""
    return following(batch.base_sequence, batch.last_offset_delta)
