"""``kraftwreck check --master URL``: Spark's workers judge histories key by key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from kraftwreck.checkers.catalogue import HistoryModel, Settings
from kraftwreck.cli.history_verdict import report_of
from kraftwreck.histories.source import HistoryFile
from kraftwreck.histories.verdict import CheckerResult
from kraftwreck.pipeline.background import start
from kraftwreck.pipeline.keyed import Job, can_be_keyed

TIMEOUT_S = 24 * 3600.0


def judge_with_spark(
    histories: Sequence[Path],
    entry: HistoryModel | None,
    kind: str | None,
    settings: Settings,
    master: str,
) -> list[dict[str, Any]]:
    """Return a report for each of ``histories``.

    Raises :class:`click.UsageError` for a model that does not judge each key alone,
    :class:`~histories.tables.HistoryError` for a missing file and
    :class:`~pipeline.java.PipelineError` when Spark or a checker fails.
    """
    if entry is None or not can_be_keyed(entry, settings):
        name = "a run folder" if entry is None else f"model {entry.name}"
        raise click.UsageError(
            f"--master needs a model that judges each key alone; {name} does not"
        )
    jobs = [
        Job(
            history=str(number),
            file=str(path.resolve()),
            kind=HistoryFile(path, kind).kind,
            model=entry.name,
            settings=settings,
        )
        for number, path in enumerate(histories)
    ]
    handle = start(master=master, small=False)
    try:
        answer = handle.ask({"check": msgspec.to_builtins(jobs)}, timeout_s=TIMEOUT_S)
    finally:
        handle.wait()
    results = msgspec.convert(answer["results"], dict[str, CheckerResult])
    return [
        report_of(path, entry, results[str(number)], HistoryFile(path, kind).torn_line)
        for number, path in enumerate(histories)
    ]
