"""The kept records of runs against real systems: one line for each command and seed.

The records of ``bench/results/wild/runs.jsonl`` come from several stores and machines. A run of the
same command and seed replaces the older one; all others stay. Records whose store is gone have no
more than the pages said of them: ``wall_s`` is null where it was not printed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.hosts_matrix import records
from kraftwreck.reports.store.index import RunSummary, StoreIndex

Record = dict[str, Any]
LENGTH = 240
"""Characters of an anomaly that are kept."""


def of_store(store: Path, file: str) -> list[Record]:
    """Return the records of all runs in ``store`` that left a folder, by its lines in ``file``."""
    if not (store / "runs").is_dir():
        return []
    summaries = {Path(each.path).name: each for each in StoreIndex(store / "runs").runs()}
    found = []
    for line in records(store / file):
        summary = summaries.get(Path(line["run"] or "").name)
        if summary is not None and line["valid"] is not None:
            found.append(_record(line, summary))
    return found


def outcome(line: Record) -> Record:
    """Return command, seed and verdict of a store's line. The words leave out hosts and seed."""
    words = line["cell"]["words"]
    return {
        "words": list(words[: words.index("--nodes")]),
        "seed": line["number"] % 1000,
        "valid": line["valid"],
    }


def _record(line: Record, summary: RunSummary) -> Record:
    """Return what is kept of one run."""
    return {
        **outcome(line),
        "wall_s": line["wall_s"],
        "anomaly": telling(line["anomalies"]),
        "system": summary.system,
        "options": list(summary.options),
        "workload": summary.workload,
        "faults": list(summary.faults),
        "kinds": list(summary.kinds),
        "day": summary.day,
    }


def telling(anomalies: Sequence[str]) -> str:
    """Return the beginning of one anomaly: one between members or a loss if there is any, else the
    first; empty if there are none."""
    best = [text for text in anomalies if text.startswith(("members: ", "produced: lost-"))]
    return " ".join((best or anomalies or [""])[0].split())[:LENGTH]


def merged(old: Iterable[Record], new: Iterable[Record]) -> list[Record]:
    """Return all records in order of their words and seeds; ``new`` ones replace ``old`` ones."""
    by_key = {(tuple(each["words"]), each["seed"]): each for each in (*old, *new)}
    return [by_key[key] for key in sorted(by_key)]


def write(path: Path, kept: Iterable[Record]) -> None:
    """Write the records, one a line; a reader never meets half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in kept))
    fresh.replace(path)


def summary(kept: Record) -> RunSummary:
    """Return the run as ``kraftwreck table`` counts it."""
    return RunSummary(
        path="",
        name="",
        run="",
        system=kept["system"],
        workload=kept["workload"],
        options=tuple(kept["options"]),
        faults=tuple(kept["faults"]),
        valid=kept["valid"],
        kinds=tuple(kept["kinds"]),
        day=kept["day"],
    )
