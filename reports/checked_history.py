"""The report of ``kraftwreck check`` on one history, as JSON and as a page."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.checkers.catalogue import HistoryModel, Settings
from kraftwreck.checkers.elle.binding import MODELS as TRANSACTIONS
from kraftwreck.checkers.judging import cut_off
from kraftwreck.harness.command_line import command_words
from kraftwreck.histories.exit_codes import BadInputError, CommandError
from kraftwreck.histories.source import HistoryFile
from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.verdict import WORDS, CheckerResult


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


def check_file(
    path: Path,
    entry: HistoryModel | None,
    kind: str | None,
    settings: Settings,
    proofs: list[dict[str, Any]] | None,
) -> dict[str, Any]:
    """Judge the history ``path`` by the model ``entry``; return its report.

    The order of operations that proves it valid is appended to ``proofs``. Raises HistoryError.
    """
    if entry is None:
        if path.is_dir() and path.suffix != ".parquet":
            raise HistoryError(f"{path}: not a run folder: test.json is missing")
        raise HistoryError(
            f"{path}: a history file needs --model (kraftwreck check --help lists the models)"
        )
    source = HistoryFile(path, kind, independent=settings.independent)
    torn = source.torn_line
    report = entry.judge(source, settings)
    if proofs is not None and report.witness is not None:
        proofs.append({"file": str(path), "model": entry.name, "order": report.witness()})
    return report_of(path, entry, report.result, torn, report.details)


def check_run(path: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Judge the run in the folder ``path`` again; write its results and pages, and return its
    report."""
    from kraftwreck.reports.pages import write_pages
    from kraftwreck.runs.judge import judge, measured_strength

    verdict = judge(path, say)
    write_pages(path, say)
    return {
        "file": str(path),
        "valid": verdict.valid,
        "checkers": verdict.checkers,
        "strength": measured_strength(verdict),
    }


def of_spark(
    found: CheckerResult | CommandError, path: Path, entry: HistoryModel | None, kind: str | None
) -> dict[str, Any]:
    """Return the report of a history that Spark judged. Raises the error that it found instead."""
    if isinstance(found, CommandError):
        raise found
    assert entry is not None
    return report_of(path, entry, found, HistoryFile(path, kind).torn_line)


def findings(report: dict[str, Any]) -> Iterator[str]:
    """Yield the findings of a report as lines for people."""
    torn = report.get("torn_line")
    without = "" if torn is None else f" without line {torn}, which is torn"
    yield f"{report['file']}: {WORDS[report['valid']]}{without}"
    checkers = report.get("checkers")
    if checkers is None:
        yield from _lines("", report["anomalies"], report["error"])
        return
    for name, result in checkers.items():
        yield f"  {name}: {WORDS[result.valid]}"
        yield from _lines("  ", result.anomalies, result.error)


def _lines(indent: str, anomalies: list[Any], error: str | None) -> Iterator[str]:
    for anomaly in anomalies:
        yield f"{indent}  {anomaly.type}: {anomaly.explanation}"
    if error is not None:
        yield f"{indent}  {error}"


def refuse(
    histories: Sequence[Path],
    entry: HistoryModel | None,
    engine: str,
    elle: str | None,
    page: Path | None,
    graph: Path | None,
) -> None:
    """Raise ValueError, one line, if ``histories`` cannot be judged or reported in this way.

    ``page`` and ``graph`` are the files to write, ``engine`` and ``elle`` the checker of
    transactions.
    """
    models = " or ".join(TRANSACTIONS)
    transactions = entry is not None and entry.name in TRANSACTIONS
    if engine == "elle" and not transactions:
        raise ValueError(f"--engine elle needs --model {models}")
    if elle is not None and engine != "elle":
        raise ValueError("--elle needs --engine elle")
    for option, file in (("--report", page), ("--graph", graph)):
        if file is not None and len(histories) > 1:
            raise ValueError(f"{option} is for one history; got {len(histories)}")
    if page is not None and (histories[0] / "test.json").is_file():
        raise ValueError(f"--report is for histories; kraftwreck report {histories[0]} is for runs")
    if graph is not None and not (transactions and engine == "native"):
        raise ValueError(f"--graph needs --model {models}, and the built-in engine")


def write_graph_of(graph: Path, report: dict[str, Any]) -> None:
    """Write the cycles of a report as GraphML. Raises BadInputError if that is impossible."""
    from kraftwreck.checkers.elle.graphs import write_graph

    try:
        write_graph(graph, report["result"].get("anomalies", {}))
    except OSError as error:
        raise BadInputError(f"{graph}: cannot be written: {error.strerror}") from error
