"""The state of each member of a system at the end of a run, as it says itself: ``members.json``."""

from __future__ import annotations

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
