"""``kraftwreck report RUN``: write a run's HTML report and JUnit file again."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kraftwreck.reports.junit import write_junit
from kraftwreck.reports.run_report import write_report


@click.command(name="report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--downloads", is_flag=True, help="Also write EDN, JSON and Perfetto files if the run is long."
)
@click.option("--json", "as_json", is_flag=True, help="Print the paths of the files as JSON.")
def cli(run: Path, downloads: bool, as_json: bool) -> None:
    """Write report.html and junit.xml in the run folder RUN (such as store/latest)."""
    report, junit = write_report(run, all_downloads=downloads), write_junit(run)
    if as_json:
        paths = {"run": str(report.parent), "report": str(report), "junit": str(junit)}
        click.echo(json.dumps(paths))
    else:
        click.echo(f"{report}\n{junit}", err=True)
