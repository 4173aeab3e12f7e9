"""``kraftwreck table``: one table of all runs of stores, for a page."""

from __future__ import annotations

from pathlib import Path

import click

from kraftwreck.histories.exit_codes import BadInputError
from kraftwreck.reports.store.index import StoreIndex
from kraftwreck.reports.store.verdict_table import placed, table


@click.command(name="table")
@click.argument("stores", metavar="STORE...", nargs=-1, required=True,
                type=click.Path(path_type=Path))  # fmt: skip
@click.option("--into", type=click.Path(path_type=Path, dir_okay=False),
              help="Write it into this Markdown page, between two comments.")  # fmt: skip
def cli(stores: tuple[Path, ...], into: Path | None) -> None:
    """Print one table of all runs in STORE..., as Markdown.

    A row is a system with its options, a workload and fault families: runs, verdicts, types of
    anomalies with the number of runs that have them, and the day of the last run.
    """
    made = table(run for store in stores for run in StoreIndex(store).runs())
    if into is None:
        click.echo(made, nl=False)
        return
    try:
        page = into.read_text(encoding="utf-8")
        into.write_text(placed(page, made, str(into)), encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadInputError(f"{into}: {reason}") from error
