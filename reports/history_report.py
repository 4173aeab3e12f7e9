"""The page of one history without a run: the run report, with what a history has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from histories.operation import Op
from histories.verdict import CheckerResult, Verdict
from reports.run_folder import Run
from reports.run_report import render_report

_SHORTEST = 1_000_000
"""Nanoseconds; times of a shorter history are positions of events."""


def write_history_report(
    page: Path,
    history: Path,
    ops: list[Op],
    result: CheckerResult,
    *,
    model: str,
    options: Mapping[str, Any],
    repeat: str,
    notes: list[str],
) -> None:
    """Write what ``model`` found in ``ops`` of the file ``history`` to ``page``.

    ``repeat`` is the command that checks it again. The file appears whole or not at all. Raises
    OSError.
    """
    facts = [
        ("History", str(history)),
        ("Model", model),
        *((f"Option {name}", msgspec.json.encode(value).decode()) for name, value in options.items()),
        ("Events", f"{len(ops):,}"),
        ("Processes", f"{len({op.process for op in ops}):,}"),
    ]
    run = Run(
        folder=history.parent,
        test={"name": f"{history.name} as {model}", "repeat": repeat, "facts": facts},
        ops=ops,
        verdict=Verdict.of({model: result}),
        notes=notes,
        bare=True,
        timed=max((op.time for op in ops), default=0) >= _SHORTEST,
    )
    temporary = page.with_name(page.name + ".tmp")
    temporary.write_text(render_report(run), encoding="utf-8")
    temporary.replace(page)
