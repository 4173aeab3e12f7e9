"""The list of files in a run folder."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from kraftwreck.reports.store.links import Links
from kraftwreck.reports.store.shell import Page, render
from kraftwreck.reports.tables import size_text

MAX_ENTRIES = 5000


def render_folder(store: Path, folder: Path) -> Page:
    """Return the page that lists ``folder``, below ``store``, without hidden names and links."""
    entries: list[tuple[str, str, str]] = []
    more = 0
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.startswith(".") or entry.is_symlink():
                continue
            if entry.is_file() and entry.stat().st_nlink > 1:
                continue
            if len(entries) >= MAX_ENTRIES:
                more += 1
            elif entry.is_dir():
                entries.append((entry.name + "/", quote(os.fsencode(entry.name)) + "/", ""))
            else:
                size = size_text(entry.stat().st_size)
                entries.append((entry.name, quote(os.fsencode(entry.name)), size))
    entries.sort()
    place = folder.relative_to(store).parts
    shown = "/".join(place).encode("utf-8", "replace").decode()
    return render(
        "folder.html.j2",
        title=shown,
        links=Links("../" * len(place)),
        path=shown,
        entries=[(n.encode("utf-8", "replace").decode(), h, s) for n, h, s in entries],
        more=more,
    )
