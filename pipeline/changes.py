"""Changes in a store since its tables were computed: only these are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any

from kraftwreck.pipeline.gold import ANALYSIS
from kraftwreck.pipeline.manifest import Manifest, load, locked, settle
from kraftwreck.pipeline.nights import find_nights
from kraftwreck.pipeline.runs import find_runs, fingerprint, run_id
from kraftwreck.pipeline.schemas import VERSION
from kraftwreck.pipeline.slugs import slug
from kraftwreck.pipeline.summaries import of_store


@dataclass(frozen=True)
class Changes:
    """The changes in a store.

    ``read`` are folders of new or changed runs. ``rows_gone`` are runs whose old rows must be
    removed, ``removed`` those without a folder whose gold rows stay, ``slugs_gone`` the names of
    silver files to be removed. ``nights`` has a digest for every existing night.
    """

    read: Sequence[Path]
    present: frozenset[str]
    rows_gone: frozenset[str]
    removed: frozenset[str]
    slugs_gone: frozenset[str]
    nights: dict[str, str]
    any: bool


def changes(store: Path, manifest: Manifest, *, forget_removed: bool = False) -> Changes:
    """Compare the run folders and nights of ``store`` with the manifest."""
    anew = manifest.schema != VERSION
    folders = {run_id(folder): folder for folder in find_runs(store)}
    known = {run: entry.fingerprint for run, entry in manifest.runs.items() if not entry.removed}
    known |= {run: entry.fingerprint for run, entry in manifest.quarantined.items()}
    read = [
        folder for run, folder in folders.items() if anew or known.get(run) != fingerprint(folder)
    ]
    missing = manifest.runs.keys() - folders.keys()
    newly = frozenset(run for run in missing if not manifest.runs[run].removed)
    changed = {run_id(folder) for folder in read} & manifest.runs.keys()
    gone = changed | (missing if forget_removed or anew else set())
    nights = {folder.name: _night_print(folder) for folder in find_nights(store)}
    lost = {
        name
        for name in manifest.quarantined
        if name not in folders and not name.startswith("nights/")
    }
    return Changes(
        read=read,
        present=frozenset(folders),
        rows_gone=frozenset(gone),
        removed=frozenset(missing - gone),
        slugs_gone=frozenset(slug(run) for run in {*gone, *newly}),
        nights=nights,
        any=bool(read or gone or newly or lost)
        or nights != manifest.nights
        or manifest.generation == 0,
    )


def up_to_date(store: Path, *, forget_removed: bool = False) -> dict[str, Any] | int:
    """Return the summary of an unchanged store, or else the number of runs to be read.

    Needs no Spark. Raises :class:`~pipeline.java.PipelineError`.
    """
    begun = monotonic()
    store = store.resolve()
    analysis = store / ANALYSIS
    with locked(analysis):
        manifest = load(analysis)
        todo = changes(store, manifest, forget_removed=forget_removed)
        if todo.any:
            return len(todo.read)
        settle(analysis, manifest)
        summary = of_store(store)
    taken = round(monotonic() - begun, 3)
    return {**summary, "read": 0, "analysis": str(analysis), "seconds": taken}


def _night_print(folder: Path) -> str:
    digest = blake2b(digest_size=12)
    for name in ("runs.jsonl", "night.json"):
        path = folder / name
        if path.exists():
            status = path.stat()
            digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
