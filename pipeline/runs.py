"""Run folders as Spark is given them: as lists of Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from histories.parquet import convert_run
from histories.reading import HistoryError
from histories.store import RUNNING
from pipeline.java import PipelineError


@dataclass(frozen=True, slots=True)
class RunFiles:
    """A run folder that is ready for Spark; ``id`` is its last two path components."""

    id: str
    folder: Path
    shards: Sequence[Path]
    trace: Path


def prepare(folder: Path) -> RunFiles:
    """Return the run's files, made first if the run broke off before they were.

    Raises :class:`~histories.reading.HistoryError` for a folder that is no run.
    """
    folder = folder.resolve()
    if not (folder / "test.json").is_file():
        raise HistoryError(f"{folder}: is no run folder, it has no test.json")
    history, trace = folder / "history.parquet", folder / "trace.parquet"
    if not (history.is_dir() and trace.is_file()):
        convert_run(folder)
    return RunFiles(
        id="/".join(folder.parts[-2:]),
        folder=folder,
        shards=sorted(history.glob("*.parquet")),
        trace=trace,
    )


def find_runs(store: Path) -> list[Path]:
    """Return the complete run folders of ``store``, oldest name first.

    Raises :class:`~pipeline.java.PipelineError` when there is none.
    """
    if not store.is_dir():
        raise PipelineError(f"{store}: is no folder; name a store, such as ./store")
    runs = sorted(
        path.parent
        for path in store.glob("*/*/test.json")
        if not path.parent.is_symlink()
        and not path.parent.parent.is_symlink()
        and path.parent.suffix != RUNNING
    )
    if not runs:
        raise PipelineError(f"{store}: holds no complete run (looked for */*/test.json)")
    return runs
