"""Determinism guard: raises in a simulation where a run would differ from its repetition."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_FENCED: tuple[tuple[Any, str], ...] = (
    (time, "time"),
    (time, "time_ns"),
    (time, "monotonic"),
    (time, "monotonic_ns"),
    (time, "sleep"),
    (random, "random"),
    (random, "randint"),
    (random, "choice"),
    (random, "randrange"),
    (random, "getrandbits"),
    (random, "shuffle"),
    (os, "urandom"),
    (socket.socket, "__init__"),
    (threading.Thread, "start"),
)


class FenceError(RuntimeError):
    """Simulated code used the real world."""


def _guard(name: str, real: Any, fenced: int) -> Any:
    """Return ``real`` for all threads except ``fenced``, for which it raises.

    Other threads of the process (those of an SSH session, for example) are not simulated.
    """

    def guarded(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == fenced:
            raise FenceError(
                f"{name} was used inside the simulation; only virtual time exists here"
            )
        return real(*args, **kwargs)

    return guarded


@contextmanager
def fence() -> Iterator[None]:
    """Make clocks, random sources, sockets and new threads raise :class:`FenceError`.

    Only the calling thread is guarded. ``time.process_time`` and ``time.perf_counter`` stay
    usable: campaigns measure with them.
    """
    saved = [(owner, name, getattr(owner, name)) for owner, name in _FENCED]
    fenced = threading.get_ident()
    try:
        for owner, name, real in saved:
            label = owner.__name__
            setattr(owner, name, _guard(f"{label}.{name}", real, fenced))
        yield
    finally:
        for owner, name, real in saved:
            setattr(owner, name, real)
