"""Randomness by key, never by stream.

``draw(seed, "n1", "election", 7)`` is the same number wherever and whenever it is called. Removing
one event from a run therefore leaves every other random choice unchanged, which makes failures easy
to shrink.
"""

from __future__ import annotations

from hashlib import blake2b


def draw(seed: int, *key: object) -> int:
    """Return a uniform 64-bit number that depends on ``seed`` and ``key`` only.

    Keys are compared by their text form, so use ints and strs.
    """
    text = "\x1f".join(map(str, (seed, *key)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def draw_below(bound: int, seed: int, *key: object) -> int:
    """Return a number in ``[0, bound)``; ``bound`` must be positive."""
    if bound <= 0:
        raise ValueError(f"bound must be positive, got {bound}")
    return draw(seed, *key) % bound


def draw_unit(seed: int, *key: object) -> float:
    """Return a float in ``[0, 1)``."""
    return (draw(seed, *key) >> 11) / (1 << 53)
