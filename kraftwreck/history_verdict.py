"""What ``kraftwreck check`` reports of one history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkers.catalogue import HistoryModel
from checkers.judging import cut_off
from histories.verdict import CheckerResult


def report_of(
    path: Path,
    entry: HistoryModel,
    result: CheckerResult,
    torn: int | None,
    details: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the JSON report of a history: its verdict, and ``torn_line`` where there is one.

    ``torn`` is the number of a torn last line, which was left out, ``details`` the model's own
    result, by default the statistics.
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
