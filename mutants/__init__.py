"""Planted bugs: patches against ``nodes/`` and their catalogue, ``catalogue.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

FOLDER = Path(__file__).resolve().parent


class Mutant(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One planted bug; the fields are explained at the top of ``catalogue.toml``."""

    id: str
    title: str
    source: str
    trigger: str
    breaks: tuple[str, ...]
    core: bool
    note: str
    missed: str = ""
    found_by_test: str = ""

    @property
    def patch(self) -> Path:
        """The patch file of the bug."""
        return FOLDER / f"{self.id}.patch"


def catalogue() -> dict[str, Mutant]:
    """Return all planted bugs by id, in the order of the catalogue.

    Raises :class:`msgspec.ValidationError` for an incomplete entry.
    """
    entries = tomllib.loads((FOLDER / "catalogue.toml").read_text())
    return {name: msgspec.convert({"id": name, **entry}, Mutant) for name, entry in entries.items()}
