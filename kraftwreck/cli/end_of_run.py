"""The output of ``kraftwreck run`` once a run has been judged."""

from __future__ import annotations

import json

import click

from kraftwreck.runs.judge import show_verdict
from kraftwreck.runs.whole import JudgedRun


def say(line: str) -> None:
    """Print one line for people."""
    click.echo(line, err=True)


def show(tested: JudgedRun, repeat: str, as_json: bool, instead: str | None) -> None:
    """Print the verdict and how to repeat the run, for people or as one line of JSON.

    ``instead`` is why the test ran in the simulator.
    """
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
