"""Judge histories key by key with Spark's workers: ``kraftwreck check --master URL``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from kraftwreck.checkers.catalogue import HistoryModel, Settings
from kraftwreck.histories.exit_codes import CommandError
from kraftwreck.histories.source import HistoryFile
from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.verdict import CheckerResult
from kraftwreck.pipeline.background import start
from kraftwreck.pipeline.keyed import Job, Unjudged, Verdicts

TIMEOUT_S = 24 * 3600.0


def judge_with_spark(
    histories: Sequence[Path],
    entry: HistoryModel,
    kind: str | None,
    settings: Settings,
    master: str,
) -> list[CheckerResult | CommandError]:
    """Return the result for each of ``histories``, by a model that judges each key alone.

    A history without a result has an error in its place: a :class:`~histories.tables.HistoryError`
    if the history is the cause, another :class:`~histories.exit_codes.CommandError` if a checker
    raised. Raises :class:`~pipeline.java.PipelineError` when Spark fails.
    """
    found: dict[str, CheckerResult | CommandError] = {}
    jobs: list[Job] = []
    for number, path in enumerate(histories):
        try:
            kind_of_file = HistoryFile(path, kind).kind
        except HistoryError as error:
            found[str(number)] = error
            continue
        jobs.append(
            Job(
                history=str(number),
                file=str(path.resolve()),
                kind=kind_of_file,
                model=entry.name,
                settings=settings,
            )
        )
    if jobs:
        verdicts = _judged(jobs, master)
        found |= verdicts.results
        found |= {
            name: _error(histories[int(name)], why) for name, why in verdicts.unjudged.items()
        }
    return [found[str(number)] for number in range(len(histories))]


def _judged(jobs: list[Job], master: str) -> Verdicts:
    handle = start(master=master, small=False)
    try:
        answer = handle.ask({"check": msgspec.to_builtins(jobs)}, timeout_s=TIMEOUT_S)
    finally:
        handle.wait()
    return msgspec.convert(answer, Verdicts)


def _error(path: Path, why: Unjudged) -> CommandError:
    """Return the error, with the path as it was given: workers know the absolute one."""
    absolute, text = str(path.resolve()), why.text
    if text.startswith(absolute):
        text = f"{path}{text.removeprefix(absolute)}"
    return HistoryError(text) if why.bad_input else CommandError(text)
