"""Whether the installed package is that of the sources: an editable one may be stale.

Its code is always that of the sources. Its entry points are those of the moment at which it was
installed, so that a system, a workload or a reader of records that was added later is missing.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from kraftwreck.histories.exit_codes import BadInputError

PACKAGE: Final = "kraftwreck"
SOURCES: Final = Path(__file__).resolve().parents[1]


class StaleInstallationError(BadInputError):
    """The installed package lacks entry points of its sources; one line with what to do."""


def check_installation(sources: Path = SOURCES) -> None:
    """Raise :class:`StaleInstallationError` unless all entry points that ``sources`` declare are
    installed.

    Sources without ``pyproject.toml`` declare none: those of a wheel, and those of the zip that
    executors of Spark import.
    """
    try:
        project = tomllib.loads((sources / "pyproject.toml").read_text())["project"]
    except (FileNotFoundError, NotADirectoryError):
        return
    declared = {
        (group, name, value)
        for group, points in project.get("entry-points", {}).items()
        for name, value in points.items()
    }
    try:
        points = distribution(PACKAGE).entry_points
    except PackageNotFoundError:
        raise StaleInstallationError(f"{PACKAGE} is not installed; run: make setup") from None
    missing = sorted(declared - {(point.group, point.name, point.value) for point in points})
    if missing:
        group, name, _ = missing[0]
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise StaleInstallationError(
            f"the installation is stale: it lacks the entry point {name!r} of {group!r}{more},"
            f" which {sources / 'pyproject.toml'} declares; run: make setup"
        )
