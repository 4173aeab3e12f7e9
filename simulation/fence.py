"""A fence around the simulation: what would make a run differ from its repetition raises."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

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
    (socket, "socket"),
    (threading.Thread, "start"),
)


class FenceError(RuntimeError):
    """Simulated code reached for the real world."""


def _refuse(name: str) -> Any:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise FenceError(f"{name} was used inside the simulation; only virtual time exists here")

    return refuse


@contextmanager
def fence() -> Iterator[None]:
    """Make clocks, random sources, sockets and new threads raise :class:`FenceError`.

    ``time.process_time`` and ``time.perf_counter`` stay usable: campaigns measure with them.
    """
    saved = [(owner, name, getattr(owner, name)) for owner, name in _FENCED]
    try:
        for owner, name in _FENCED:
            label = getattr(owner, "__name__", str(owner))
            setattr(owner, name, _refuse(f"{label}.{name}"))
        yield
    finally:
        for owner, name, value in saved:
            setattr(owner, name, value)
