"""The pages of a store as files, for any web server or to be sent to others."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from html import escape
from pathlib import Path

from kraftwreck.reports.run_folder import RunFolderError
from kraftwreck.reports.store.compare import render_compare
from kraftwreck.reports.store.entries import StoreReader
from kraftwreck.reports.store.index import RunSummary, stamp
from kraftwreck.reports.store.links import COMPARED, Links, Pairs
from kraftwreck.reports.store.night_page import render_night
from kraftwreck.reports.store.overview import render_overview

MARK = ".kraftwreck-export"
RED, ALL, NONE = "red", "all", "none"
MAX_REPORTS = 5000


@dataclass(frozen=True)
class Exported:
    """How many pages were written, and where."""

    folder: Path
    nights: int
    reports: int
    compared: int
    left_out: int


def export(store: Path, target: Path, reports: str = RED) -> Exported:
    """Write the overview, every night and the reports of runs into ``target``.

    ``reports`` selects the runs: ``red`` (not valid), ``all`` or ``none``. An earlier export is
    replaced; any other non-empty folder is rejected, and so is one in the store. Only the pairs of
    runs that these pages link to are compared, above all a break and a valid run of the same
    test; other pairs need the server. Raises
    :class:`~reports.run_folder.RunFolderError`.
    """
    reader = StoreReader(store)
    place = target.absolute()
    if place.resolve().is_relative_to(reader.store):
        raise RunFolderError(
            f"{target}: is in the store, which is read-only; choose another folder"
        )
    _make_room(place, target)
    contents = reader.contents()
    chosen = [run for run in contents.runs if _wanted(run, reports)]
    copied = frozenset(run.path for run in chosen[:MAX_REPORTS])
    for path in copied:
        source = reader.store / path / "report.html"
        if stamp(str(source)) is not None:
            (place / path).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place / path / "report.html", follow_symlinks=False)
    pairs = Pairs(frozenset(run.path for run in contents.runs if run.path))
    page = render_overview(contents, reader.gold, Links("", copied, pairs))
    (place / "index.html").write_text(page.text, encoding="utf-8")
    for night, _ in contents.nights:
        made = render_night(reader, night.id, copied, pairs)
        if made is not None:
            (place / "nights" / night.id).mkdir(parents=True, exist_ok=True)
            (place / "nights" / night.id / "index.html").write_text(made.text, encoding="utf-8")
    compared = _compare(reader, place, Links("../", copied), pairs)
    left_out = len(chosen) - len(copied)
    return Exported(place, len(contents.nights), len(copied), compared, left_out)


def _compare(reader: StoreReader, place: Path, links: Links, pairs: Pairs) -> int:
    """Write the comparison pages; return how many there are."""
    for name, (a, b) in pairs.pages.items():
        (place / COMPARED).mkdir(exist_ok=True)
        try:
            made = render_compare(reader, a, b, links)
            text = None if made is None else made.text
        except RunFolderError as error:
            text = f"<!doctype html><title>Not compared</title><p>{escape(str(error))}</p>"
        gone = "<!doctype html><title>Not compared</title><p>One of the two runs is gone.</p>"
        (place / COMPARED / name).write_text(text or gone, encoding="utf-8")
    return len(pairs.pages)


def _wanted(run: RunSummary, reports: str) -> bool:
    if not run.path or not run.has_report or reports == NONE:
        return False
    return reports == ALL or run.valid is not True or bool(run.red)


def _make_room(place: Path, named: Path) -> None:
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise RunFolderError(f"{named}: not a directory; choose a new one or an earlier export")
    if place.is_dir() and any(place.iterdir()):
        if not (place / MARK).is_file():
            raise RunFolderError(
                f"{named}: contains other files than an export; choose a new or an empty folder"
            )
        shutil.rmtree(place)
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / MARK).write_text("made by kraftwreck serve --export; replaced as a whole\n")
    except OSError as error:
        raise RunFolderError(f"{named}: cannot be written ({error.strerror})") from error
