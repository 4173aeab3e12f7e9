"""The end of ``kraftwreck run``: pages and verdict.

Checkers and reports are imported while hosts come up: that takes half a second.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from threading import Thread

import click

from kraftwreck.runs.whole import JudgedRun


def say(line: str) -> None:
    """Print one line for people."""
    click.echo(line, err=True)


def import_ahead() -> None:
    """Begin to import, in the background, what the end of a run needs."""
    Thread(target=_import, name="imports", daemon=True).start()


def _import() -> None:
    from kraftwreck.histories.without_pandas import leave_pandas_out

    leave_pandas_out()  # Nothing in this process needs it, and importing it takes long.
    import_module("kraftwreck.runs.judge")
    import_module("kraftwreck.reports.pages")


def write_pages(folder: Path, note: Callable[[str], None]) -> None:
    """Write the pages of a run; see :func:`reports.pages.write_pages`."""
    from kraftwreck.reports.pages import write_pages as write

    write(folder, note)


def show(tested: JudgedRun, repeat: str, as_json: bool, instead: str | None) -> None:
    """Print the verdict and how to repeat the run, for people or as one line of JSON.

    ``instead`` is why the test ran in the simulator.
    """
    from kraftwreck.runs.judge import show_verdict

    outcome = tested.outcome
    if outcome.judgeable:
        # With --json, standard output holds only the JSON.
        print_line = say if as_json else click.echo
        show_verdict(tested.verdict, outcome.folder, repeat, print_line, instead)
        for line in outcome.errors:
            say(f"harness: {line}")
    else:
        say(f"run:     {outcome.folder}")
    if as_json:
        click.echo(json.dumps(tested.as_json(repeat, instead)))
