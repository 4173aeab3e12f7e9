"""Temporary folders of analyses, and the removal of those of killed ones."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAMED = re.compile(r"kraftwreck-(?:spark|silver)-(\d+)-")
_OLD_S = 86_400
"""Processes of other containers are invisible; none runs this long without touching its folder."""


@contextmanager
def scratch(what: str) -> Iterator[Path]:
    """Yield an empty folder for ``what`` (spark, silver), and remove it at the end.

    Folders of killed processes are removed, too, after a day.
    """
    sweep(Path(tempfile.gettempdir()))
    prefix = f"kraftwreck-{what}-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def sweep(base: Path) -> None:
    """Remove this user's old folders in ``base`` whose process has ended."""
    with suppress(OSError):
        for entry in os.scandir(base):
            named = _NAMED.match(entry.name)
            if named is None or Path(f"/proc/{named[1]}").exists():
                continue
            with suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                old = time.time() - found.st_mtime > _OLD_S
                if old and found.st_uid == os.geteuid() and entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
