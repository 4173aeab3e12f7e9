"""The state of each member of a system, as it says itself: ``members.json``.

It is the state at the end of a run, or the first one in which members were seen to differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.undecodable import UNDECODABLE

FILE = "members.json"


class Member(msgspec.Struct, frozen=True):
    """The state of one member once it had applied everything up to ``position``.

    Both are JSON values. Two members with equal positions must have equal states: a position is the
    index of the last entry applied, or what else identifies a state. ``error`` says in one line why
    they are unknown.
    """

    position: Any = None
    state: Any = None
    error: str = ""


def by_position(members: Mapping[str, Member]) -> dict[bytes, list[str]]:
    """Return the names of the members without an error, by the JSON text of their position."""
    groups: dict[bytes, list[str]] = {}
    for name, member in members.items():
        if not member.error:
            groups.setdefault(encoded(member.position), []).append(name)
    return groups


def differing(members: Mapping[str, Member]) -> Iterator[tuple[str, str]]:
    """Yield the first member at a position with each other one there that has another state."""
    for first, *others in by_position(members).values():
        state = encoded(members[first].state)
        for other in others:
            if encoded(members[other].state) != state:
                yield first, other


def encoded(value: Any) -> bytes:
    """Return the JSON text of ``value``; equal values have equal texts."""
    return msgspec.json.encode(value, order="deterministic")


def read_members(run: Path) -> dict[str, Member] | None:
    """Return the members by name, None if the run has no such file.

    Raises :class:`~histories.tables.HistoryError` if it cannot be read.
    """
    file = run / FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Member])
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HistoryError(f"{file}: {error.strerror}") from error
    except UNDECODABLE as error:
        raise HistoryError(f"{file}: {error}") from error
