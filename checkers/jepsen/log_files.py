"""jepsen.checker ``log-file-pattern``: nodes' logs must not contain a pattern.

Logs are looked for beside the history: ``nodes/<node>/<file>`` (a run folder of this project) or
``<node>/<file>`` (a folder of Jepsen's store).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kraftwreck.checkers.jepsen.judgement import Judgement, Options, unknown
from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.verdict import Anomaly

FILE = "stdout.log"
_SHOWN = 1000
"""Matches in the result; all are counted."""
_LONGEST = 2000
"""Characters of a line in the result."""


def check(history: Path, options: Options) -> Judgement:
    """Search every node's file; a match is an anomaly.

    Raises :class:`~histories.tables.HistoryError` for an invalid pattern, or a file that cannot be
    read.
    """
    text = options.get("pattern")
    if not isinstance(text, str):
        return unknown("no pattern; pass -o pattern=REGEX")
    name = str(options.get("filename", FILE))
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise HistoryError(f"filename {name!r}: must be a name inside the nodes' folders")
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise HistoryError(f"pattern {text!r}: {error}") from error
    folder = history if history.is_dir() and history.suffix != ".parquet" else history.parent
    files = list(_files(folder, name))
    if not files:
        return unknown(f"no node has a file {name} beside {history}")
    count = 0
    matches: list[dict[str, Any]] = []
    for node, path in files:
        for number, line in _lines(path):
            if pattern.search(line):
                count += 1
                if len(matches) < _SHOWN:
                    matches.append({"node": node, "line": line[:_LONGEST], "number": number})
    anomalies = [
        Anomaly(
            type="log-file-pattern",
            explanation=f"{m['node']}, {name}:{m['number']}: {m['line']}",
        )
        for m in matches
    ]
    result = {"valid?": count == 0, "count": count, "matches": matches, "files": len(files)}
    return Judgement(result=result, anomalies=anomalies)


def _files(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    inside = folder / "nodes"
    for node in sorted((inside if inside.is_dir() else folder).iterdir()):
        if (node / name).is_file():
            yield node.name, node / name


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(errors="replace") as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip("\n")
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}") from error
