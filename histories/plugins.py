"""Objects of installed packages, by entry points; one that cannot be imported hides no other."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kraftwreck.histories.installation import check_installation


@dataclass(frozen=True, slots=True)
class Plugins:
    """The objects of one group of entry points.

    ``found`` has them by the name of their entry point. ``broken`` has, for each that could not be
    imported, one line with the package, the error, its file and its line.
    """

    found: Mapping[str, Any]
    broken: Mapping[str, str]


@cache
def plugins(group: str) -> Plugins:
    """Import all entry points of ``group``, such as ``kraftwreck.systems``.

    Raises :class:`~histories.installation.StaleInstallationError`, one line, where ours are not all
    installed.
    """
    _checked()
    found: dict[str, Any] = {}
    broken: dict[str, str] = {}
    for point in entry_points(group=group):
        try:
            found[point.name] = point.load()
        except (Exception, SystemExit) as error:
            broken[point.name] = _why(point, error)
    return Plugins(found, broken)


@cache
def _checked() -> None:
    check_installation()


Flaw = Callable[[Any], str | None]
"""Returns what is wrong with an imported object, one line; None if nothing is."""


@cache
def by_own_name(group: str, flaw: Flaw = lambda each: None) -> Plugins:
    """Return :func:`plugins` by the objects' own attribute ``name``, a text.

    An object with a ``flaw`` is broken.
    """
    told = plugins(group)
    found: dict[str, Any] = {}
    broken = dict(told.broken)
    for point, each in told.found.items():
        name = getattr(each, "name", None)
        if not isinstance(name, str):
            kind = type(each).__name__
            broken[point] = f"the entry point {point!r} is a {kind} that has no name"
        elif (wrong := flaw(each)) is not None:
            broken[name] = f"the entry point {point!r} cannot be used: {wrong}"
        else:
            found[name] = each
    return Plugins(found, broken)


def unknown(kind: str, name: str, told: Plugins, known: Iterable[str]) -> str:
    """Return the message for a ``name`` that is not known, with the reason if it is broken."""
    if name in told.broken:
        return told.broken[name]
    return f"unknown {kind} {name!r}; known {kind}s: {', '.join(known)}"


def _why(point: EntryPoint, error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f" ({error.filename}:{error.lineno})"
    package = point.dist.name if point.dist is not None else "an unknown package"
    said = " ".join(str(error).split())
    return (
        f"{point.name!r} of the package {package} cannot be imported: "
        f"{type(error).__name__}: {said}{place}"
    )
