"""Systems under test by name: the entry points of the group ``kraftwreck.systems``.

Ours are declared there too, in the same way as those of other packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points

from kraftwreck.harness.options import OptionError
from kraftwreck.harness.system import System


@cache
def systems() -> Mapping[str, System]:
    """Return all systems by name."""
    from kraftwreck.systems.kraft import SYSTEM

    found: dict[str, System] = {SYSTEM.name: SYSTEM}
    for point in entry_points(group="kraftwreck.systems"):
        system = point.load()
        found[system.name] = system
    return found


def find(name: str) -> System:
    """Return the system ``name``. Raises :class:`OptionError` naming the known ones."""
    try:
        return systems()[name]
    except KeyError:
        known = ", ".join(sorted(systems()))
        raise OptionError(f"unknown system {name!r}; known systems: {known}") from None
