"""Kafka's uuids: 16 bytes, written as 22 characters of unpadded base64url."""

from __future__ import annotations

import base64
import binascii
import os
from typing import Final

from kraftwreck.nodes.draw import draw


def from_halves(most: int, least: int) -> bytes:
    """Return the uuid ``(most, least)``: its upper and lower 64 bits."""
    return (most << 64 | least).to_bytes(16, "big")


ZERO: Final = bytes(16)
MIGRATING: Final = ZERO
UNASSIGNED: Final = from_halves(0, 1)
LOST: Final = from_halves(0, 2)
METADATA_TOPIC_ID: Final = from_halves(0, 1)
_FIXED: Final = 0xF000_C000_0000_0000_0000
_VERSION_4: Final = 0x4000_8000_0000_0000_0000
"""The bits of version and variant, and their values."""
RESERVED: Final = 100
"""The first hundred uuids, ``(0, 0)`` to ``(0, 99)``, have fixed meanings."""


def to_text(value: bytes) -> str:
    """Return the text form of 16 bytes. Raises ValueError for any other length."""
    if len(value) != 16:
        raise ValueError(f"a uuid has 16 bytes, not {len(value)}")
    return base64.urlsafe_b64encode(value)[:22].decode()


def from_text(text: str) -> bytes:
    """Return the 16 bytes of a text form. Raises ValueError for any other text."""
    try:
        value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not a uuid: {text!r}") from error
    if len(text) != 22 or to_text(value) != text:
        raise ValueError(f"not a uuid: {text!r}")
    return value


def is_usable(value: bytes) -> bool:
    """Return whether ``value`` may name a directory or topic: not reserved, no leading ``-``."""
    return int.from_bytes(value, "big") >= RESERVED and not to_text(value).startswith("-")


def random_uuid() -> bytes:
    """Return a fresh uuid from the system's entropy."""
    while True:
        # Version 4 of RFC 9562; the module uuid takes longer to load than most of a node's.
        bits = int.from_bytes(os.urandom(16), "big")
        value = (bits & ~_FIXED | _VERSION_4).to_bytes(16, "big")
        if is_usable(value):
            return value


def draw_uuid(seed: int, *key: object) -> bytes:
    """Return the usable uuid determined by ``seed`` and ``key``."""
    attempt = 0
    while True:
        halves = (draw(seed, *key, "uuid", attempt, half) for half in ("most", "least"))
        if is_usable(value := from_halves(*halves)):
            return value
        attempt += 1
