"""Rehearses deaths inside of the formatting of a data directory (F15).

Directories of a run are formatted before it begins. Here one is formatted up to each change of its
files in turn, and the process dies there, alone or with the power of its host. To format it again
must give the same directory as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.draw import draw
from kraftwreck.nodes.log.format import FormatError, Mode, format_directory
from kraftwreck.nodes.log.media import TEMPORARY_SUFFIX
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.filesystem import Crash, Filesystem
from kraftwreck.simulation.world import World

PLACE: Final = Path("/formatted")
MOST_CHANGES: Final = 40
"""More changes of files than a formatting makes."""
_ID: Final = bytes(range(1, 17))


class FormatRehearsal:
    """Formats a directory at the begin of a run of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        world.afterwards(self._judge)

    def _judge(self) -> None:
        for wrong in unfinished(draw(self._world.now, "format")):
            self._failures.add("F15", self._world.now, wrong)
            return


def unfinished(seed: int) -> Iterator[str]:
    """Yield what is wrong after each point at which the process may die."""
    whole = Filesystem()
    _format(whole)
    right = _content(whole)
    for changes in range(MOST_CHANGES):
        died = True
        for power in (False, True):
            files = Filesystem()
            files.crash_after(changes, draw(seed, changes, "torn"))
            try:
                _format(files)
                died = False
            except Crash:
                pass
            files.process_ended()
            if power:
                files.lose_power(draw(seed, changes, "power"))
            after = f"after {changes} changes of files{' and a loss of power' if power else ''}"
            try:
                _format(files)
            except (FormatError, OSError) as error:
                yield f"a formatting that ended {after} cannot be repeated: {error}"
                continue
            if _content(files) != right:
                yield f"a formatting that ended {after} and is repeated lacks a part"
        if not died:
            return


def _format(files: Filesystem) -> None:
    at = Endpoint("n1", 9093)
    format_directory(
        PLACE,
        "formatted",
        1,
        _ID,
        mode=Mode.STANDALONE,
        listener=at,
        metadata_version=20,
        media=files,
    )


def _content(files: Filesystem) -> dict[str, bytes]:
    """Return the content of each file that is not about to be replaced."""
    paths = [path / name for path in files.directories for name in files.names(path)]
    return {
        str(path): bytes(files.inode(path).data)
        for path in paths
        if path not in files.directories and path.suffix != TEMPORARY_SUFFIX
    }
