"""The page about one history without a run; like a run's report, without nodes and faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kraftwreck.histories.operation import INVOKE, Op
from kraftwreck.histories.verdict import CheckerResult, Verdict
from kraftwreck.reports.operations import value_text
from kraftwreck.reports.run_folder import Run
from kraftwreck.reports.run_report import render_report

_SHORTEST = 1_000_000
"""Nanoseconds. Times of a shorter history are taken as positions of events."""


def _with_invocations(ops: Iterable[Op]) -> Iterator[Op]:
    """Insert an invocation before each completion that has none."""
    begun: set[int] = set()
    for op in ops:
        if op.type == INVOKE:
            begun.add(op.process)
        elif op.process in begun:
            begun.remove(op.process)
        else:
            yield replace(op, type=INVOKE, value=None)
        yield op


def write_history_report(
    page: Path,
    history: Path,
    ops: list[Op],
    result: CheckerResult,
    *,
    model: str,
    options: Mapping[str, Any],
    repeat: str,
    torn: int | None = None,
) -> None:
    """Write the ``result`` of checking ``ops`` of file ``history`` against ``model`` to ``page``.

    ``repeat`` is the command that checks the history again, ``torn`` the number of a torn last
    line. The file is written completely or not at all. Raises OSError.
    """
    facts = [
        ("History", str(history)),
        ("Model", model),
        *((f"Option {name}", value_text(value)) for name, value in options.items()),
        ("Events", f"{len(ops):,}"),
        ("Processes", f"{len({op.process for op in ops}):,}"),
    ]
    without = "" if torn is None else f" without line {torn}, which is torn"
    run = Run(
        folder=history.parent,
        test={
            "name": f"{history.name} as {model}",
            "repeat": repeat,
            "facts": facts,
            "without": without,
        },
        ops=list(_with_invocations(ops)),
        verdict=Verdict.of({model: result}),
        bare=True,
        timed=max((op.time for op in ops), default=0) >= _SHORTEST,
    )
    temporary = page.with_name(page.name + ".tmp")
    temporary.write_text(render_report(run), encoding="utf-8")
    temporary.replace(page)
