"""Paramiko and Invoke, imported when they are first used: simulated runs need no SSH.

They belong to the extra ``hosts`` of the package.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

NEEDED = ("fabric", "paramiko")


class _Late:
    """A module that is imported by the first access to one of its names."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


if TYPE_CHECKING:
    import invoke
    import paramiko
else:
    invoke, paramiko = _Late("invoke"), _Late("paramiko")


def load() -> None:
    """Import Paramiko, which takes a tenth of a second, before the first session needs it."""
    import_module("paramiko")


def missing() -> str | None:
    """Return, in one line, which packages are missing for hosts; None if none is."""
    names = [name for name in NEEDED if find_spec(name) is None]
    if not names:
        return None
    return f"hosts need {' and '.join(names)}: pip install 'kraftwreck[hosts]', or use -c sim"


__all__ = ["invoke", "load", "missing", "paramiko"]
