"""Minimize a list that fails by leaving out pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Return a 1-minimal part of ``items``, in order: ``fails`` is false without any one element.

    After Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002): pieces
    are halved until no single element can be left out. ``fails(items)`` must be true; it is not
    called. Pieces are left out from the end, since late items matter least often.
    """
    kept = tuple(items)
    if kept and fails(()):
        return ()
    size = (len(kept) + 1) // 2
    while size:
        before = len(kept)
        end = len(kept)
        while end > 0 and len(kept) > 1:
            start = max(0, end - size)
            fewer = kept[:start] + kept[end:]
            if fewer and fails(fewer):
                kept = fewer
            end = start
        if size > 1:
            size //= 2
        elif len(kept) == before:
            break
    return kept
