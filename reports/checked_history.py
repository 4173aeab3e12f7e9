"""The report of ``kraftwreck check`` on one history, as JSON and as a page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.checkers.catalogue import HistoryModel, Settings
from kraftwreck.checkers.judging import cut_off
from kraftwreck.harness.command_line import command_words
from kraftwreck.histories.exit_codes import BadInputError
from kraftwreck.histories.source import HistoryFile
from kraftwreck.histories.verdict import CheckerResult


def report_of(
    path: Path,
    entry: HistoryModel,
    result: CheckerResult,
    torn: int | None,
    details: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the JSON report of a history, with its verdict and, if any, ``torn_line``.

    ``torn`` is the number of a torn last line, which was ignored. ``details`` is the model's own
    result; the default is the statistics.
    """
    found = result if torn is None else cut_off(result, entry, torn)
    report: dict[str, Any] = {
        "file": str(path),
        "valid": found.valid,
        "model": entry.name,
        "anomalies": found.anomalies,
        "stats": found.stats,
        "error": found.error,
        "result": {"valid?": found.valid, **found.stats} if details is None else details,
    }
    if torn is not None:
        report["torn_line"] = torn
    return report


def write_page(
    page: Path,
    path: Path,
    entry: HistoryModel,
    kind: str | None,
    settings: Settings,
    report: dict[str, Any],
) -> None:
    """Write an HTML page with ``report`` on the history ``path``.

    Raises :class:`~histories.exit_codes.BadInputError` if it cannot be written.
    """
    from kraftwreck.reports.history_report import write_history_report

    named = {
        "--model": entry.name,
        "--format": kind,
        "--engine": None if settings.engine == "native" else settings.engine,
        "--elle": settings.elle,
        "--independent": settings.independent,
        "--report": page,
    }
    words = ["kraftwreck", *command_words("check", path, options=named)]
    for name, value in settings.options.items():
        words += ["--option", f"{name}={msgspec.json.encode(value).decode()}"]
    try:
        write_history_report(
            page,
            path,
            list(HistoryFile(path, kind, independent=settings.independent).ops()),
            CheckerResult(
                valid=report["valid"],
                anomalies=report["anomalies"],
                stats=report["stats"],
                error=report["error"],
            ),
            model=entry.name,
            options=settings.options,
            repeat=shlex.join(words),
            torn=report.get("torn_line"),
        )
    except OSError as error:
        raise BadInputError(f"{page}: {error.strerror}; pass another --report") from error
