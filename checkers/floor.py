"""The least that must happen in a run before its verdict may be valid."""

from __future__ import annotations

import msgspec


class Floor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The minimum that a run must reach to be called valid.

    ``acknowledged`` is a number of operations, and ``share`` that number over all operations.
    ``led`` is the share of the time with a leader, and ``elections`` a number. ``faults`` is the
    number of faults that took effect in a run that requested any. Shares are between 0 and 1.
    """

    acknowledged: int = 10
    share: float = 0.15
    led: float = 0.25
    elections: int = 0
    faults: int = 1


NONE = Floor(acknowledged=0, share=0.0, led=0.0, elections=0, faults=0)


class FloorError(ValueError):
    """A floor cannot be read; the message is one line."""


def parse_floor(text: str, default: Floor) -> Floor:
    """Return the floor ``text``: ``none``, ``default``, or ``NAME=NUMBER[,...]`` on top of that.

    Raises :class:`FloorError`.
    """
    if text == "none":
        return NONE
    if text == "default":
        return default
    values = msgspec.to_builtins(default)
    for pair in text.split(","):
        name, _, number = pair.strip().partition("=")
        if name not in values:
            raise FloorError(f"--floor {text!r}: unknown name {name!r}; use {', '.join(values)}")
        try:
            values[name] = type(values[name])(number)
        except ValueError:
            raise FloorError(f"--floor {text!r}: {name}={number} is not a number") from None
        most = 1.0 if isinstance(values[name], float) else float("inf")
        if not 0 <= values[name] <= most:
            raise FloorError(f"--floor {text!r}: {name} must be from 0 to {most:g}")
    return msgspec.convert(values, Floor)
