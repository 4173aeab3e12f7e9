"""Analyze one run, or update the tables of a whole store."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from kraftwreck.histories.parquet import write_table
from kraftwreck.histories.tables import HistoryError
from kraftwreck.pipeline.changes import Changes, changes
from kraftwreck.pipeline.compute import Computed, Measured, complete, compute, judge, measure
from kraftwreck.pipeline.fleet import SOURCES, fleet
from kraftwreck.pipeline.gold import ANALYSIS, conform
from kraftwreck.pipeline.gold_frames import open_table
from kraftwreck.pipeline.java import PipelineError
from kraftwreck.pipeline.manifest import (
    STAGING,
    Manifest,
    Refused,
    RunEntry,
    Watch,
    commit,
    load,
    locate,
    locked,
    settle,
)
from kraftwreck.pipeline.nights import read_night
from kraftwreck.pipeline.rewrite import without
from kraftwreck.pipeline.runs import fingerprint, run_id
from kraftwreck.pipeline.schemas import GOLD, PER_RUN, SILVER
from kraftwreck.pipeline.scratch import scratch
from kraftwreck.pipeline.summaries import of_store, of_tables


def _nothing(_: str) -> None:
    pass


def analyze_run(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Judge the run in ``folder``, and write its tables; see :meth:`OneRun.finish`."""
    run = OneRun(spark, folder)
    with ThreadPoolExecutor(1, "judge") as pool:
        judged = pool.submit(lambda: judge(spark, [run.folder]).toArrow())
        run.measure()
    return run.finish(judged.result())


class OneRun:
    """The analysis of the run in ``folder``, which need not have been judged when it begins."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder.resolve()
        self._spark = spark
        self._seconds = 0.0
        self._measured: Measured | None = None

    def measure(self) -> None:
        """Compute what follows from the run's records, once."""
        if self._measured is None:
            begun = monotonic()
            with scratch("silver") as place:
                self._measured = measure(self._spark, self.folder, lambda table: place / table)
            self._seconds += monotonic() - begun

    def finish(self, findings: pa.Table) -> dict[str, Any]:
        """Write the gold tables to the folder's ``analysis``; return the summary.

        ``findings`` are the checkers' results. Raises :class:`~pipeline.java.PipelineError` when
        the run cannot be read.
        """
        self.measure()
        begun = monotonic()
        assert self._measured is not None
        done = complete(self._measured, findings)
        if done.refused:
            raise PipelineError(f"no run can be read: {done.refused[run_id(self.folder)]}")
        tables = {
            name: _sorted(conform(done.tables[name], schema)) for name, schema in PER_RUN.items()
        }
        target = self.folder / ANALYSIS
        target.mkdir(exist_ok=True)
        for name, table in tables.items():
            write_table(table, target / f"{name}.parquet")
        taken = round(self._seconds + monotonic() - begun, 3)
        return {**of_tables(tables), "analysis": str(target), "skipped": [], "seconds": taken}


def analyze_store(
    spark: Callable[[], SparkSession],
    store: Path,
    *,
    forget_removed: bool = False,
    watch: Watch = _nothing,
) -> dict[str, Any]:
    """Update the tables of ``store``; return the summary over all its runs.

    ``spark`` is only called if something changed. ``watch`` is called with every step. Raises
    :class:`~pipeline.java.PipelineError` when another analysis is running there.
    """
    begun = monotonic()
    store = store.resolve()
    analysis = store / ANALYSIS
    with locked(analysis):
        manifest = load(analysis)
        settle(analysis, manifest, watch)
        todo = changes(store, manifest, forget_removed=forget_removed)
        if todo.any:
            _Batch(spark(), store, manifest, todo, watch).run()
        summary = of_store(store)
    taken = round(monotonic() - begun, 3)
    return {**summary, "read": len(todo.read), "analysis": str(analysis), "seconds": taken}


class _Batch:
    """One analysis of a store, from the changes to the commit."""

    def __init__(
        self, spark: SparkSession, store: Path, old: Manifest, todo: Changes, watch: Watch
    ) -> None:
        self._spark = spark
        self._store = store
        self._analysis = store / ANALYSIS
        self._old, self._todo, self._watch = old, todo, watch
        self._id = f"{old.generation + 1:06d}"
        self._tables: dict[str, list[str]] = {}

    def run(self) -> None:
        """Compute and commit."""
        shutil.rmtree(self._analysis / STAGING, ignore_errors=True)
        self._keep_old()
        # Computed before anything is read, so that later changes are read the next time.
        prints = {run_id(folder): fingerprint(folder) for folder in self._todo.read}
        done = compute(
            self._spark, self._todo.read, lambda table: self._place("silver", table), self._watch
        )
        try:
            self._take_in(done)
        finally:
            done.release()
        manifest = self._manifest(done, prints)
        self._nights(manifest)
        self._fleet()
        self._write_rows(
            "quarantine",
            [{"run": run, "reason": e.reason} for run, e in manifest.quarantined.items()],
        )
        self._watch("nights")
        manifest.tables = self._tables
        commit(self._analysis, manifest, self._watch)

    def _place(self, layer: str, table: str) -> Path:
        return self._analysis / STAGING / layer / table / self._id

    def _take_in(self, done: Computed) -> None:
        # Only named files count, not those of rejected runs or of tasks that were killed and
        # repeated.
        for table, files in done.silver.items():
            self._add("silver", table, files)
        for name, frame in done.frames.items():
            self._write_frame(name, frame)
            self._watch(f"gold {name}")
        for name, rows in done.tables.items():
            self._write_table(name, rows)

    def _keep_old(self) -> None:
        """Keep the rows of runs that neither changed nor must be forgotten."""
        for table in SILVER:
            name = f"silver/{table}"
            kept = self._old.tables.get(name, [])
            gone = tuple(f"{each}~" for each in self._todo.slugs_gone)
            self._tables[name] = [f for f in kept if not Path(f).name.startswith(gone)]
        for table, schema in PER_RUN.items():
            files = self._old.tables.get(f"gold/{table}", [])
            place = self._place("gold", table)
            rewritten = without(self._analysis, files, self._todo.rows_gone, schema, place)
            relative = [
                f if isinstance(f, str) else f.relative_to(self._analysis / STAGING).as_posix()
                for f in rewritten
            ]
            self._tables[f"gold/{table}"] = relative
        self._watch("old rows")

    def _manifest(self, done: Computed, prints: Mapping[str, str]) -> Manifest:
        """Return the new manifest, without its tables."""
        todo = self._todo
        runs = {run: entry for run, entry in self._old.runs.items() if run not in todo.rows_gone}
        for run in todo.removed:
            if run in runs:
                entry = runs[run]
                runs[run] = RunEntry(fingerprint=entry.fingerprint, batch=entry.batch, removed=True)
        refused = {
            run: entry
            for run, entry in self._old.quarantined.items()
            if run not in prints and run in todo.present
        }
        for run, digest in prints.items():
            if run in done.refused:
                refused[run] = Refused(fingerprint=digest, reason=done.refused[run])
            else:
                runs[run] = RunEntry(fingerprint=digest, batch=self._id)
        return Manifest(
            generation=self._old.generation + 1,
            runs=dict(sorted(runs.items())),
            quarantined=dict(sorted(refused.items())),
            nights=dict(self._todo.nights),
        )

    def _nights(self, manifest: Manifest) -> None:
        rows: list[dict[str, Any]] = []
        nights: list[dict[str, Any]] = []
        for night, digest in self._todo.nights.items():
            try:
                lines, one = read_night(self._store / "nights" / night)
            except HistoryError as error:
                name = f"nights/{night}"
                manifest.quarantined[name] = Refused(fingerprint=digest, reason=str(error))
                continue
            rows += lines
            nights.append(one)
        self._write_rows("night_runs", rows)
        self._write_rows("nights", nights)

    def _fleet(self) -> None:
        sources = {}
        for name in SOURCES:
            files = [locate(self._analysis, f) for f in self._tables.get(f"gold/{name}", ())]
            sources[name] = open_table(self._spark, f"gold/{name}", files)
        for name, frame in fleet(self._spark, sources).items():
            self._write_frame(name, frame)
        self._watch("fleet")

    def _write_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        self._write_table(name, pa.Table.from_pylist(rows, schema=GOLD[name]))

    def _write_table(self, name: str, table: pa.Table) -> None:
        path = self._place("gold", name) / "rows.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression="zstd")
        self._add("gold", name, [path])

    def _write_frame(self, name: str, frame: DataFrame) -> None:
        """Let Spark write a table; keep files without rows only if there are no others."""
        folder = self._place("gold", name) / "spark"
        # At most one file per core and table: many batches give many files.
        few = frame.coalesce(self._spark.sparkContext.defaultParallelism)
        few.write.option("compression", "zstd").parquet(str(folder))
        written = []
        for path in sorted(folder.glob("*.parquet")):
            if pq.read_metadata(path).num_rows:
                written.append(path.rename(folder.parent / path.name))
        shutil.rmtree(folder)
        if not written and not self._tables.get(f"gold/{name}"):
            self._write_rows(name, [])
        self._add("gold", name, written)

    def _add(self, layer: str, table: str, files: Sequence[Path]) -> None:
        staging = self._analysis / STAGING
        names = [file.relative_to(staging).as_posix() for file in files]
        self._tables.setdefault(f"{layer}/{table}", []).extend(names)


def _sorted(table: pa.Table) -> pa.Table:
    order = [name for name in table.column_names if not pa.types.is_list(table.field(name).type)]
    return table.sort_by([(name, "ascending") for name in order])
