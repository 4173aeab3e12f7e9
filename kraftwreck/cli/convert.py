"""``kraftwreck convert``: write a history in another format."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from kraftwreck.histories.convert import FORMATS, guess_format, write
from kraftwreck.histories.events import Event, events_of, read_events, read_records, to_ops
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS
from kraftwreck.histories.source import HistoryFile
from kraftwreck.histories.tables import HistoryError


@click.command(name="convert")
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--from", "read_as", type=click.Choice(FORMATS), help="Format of IN [default: by name]."
)
@click.option(
    "--to", "write_as", type=click.Choice(FORMATS), help="Format of OUT [default: by name]."
)
@click.option(
    "--independent", is_flag=True, help="Values in IN are [key, value] pairs, as in Jepsen."
)
@click.option(
    "--join-keys", is_flag=True, help="Write [key, value] pairs as values, like jepsen.independent."
)
def cli(
    source: Path,
    target: Path,
    read_as: str | None,
    write_as: str | None,
    independent: bool,
    join_keys: bool,
) -> None:
    """Write the history IN to OUT as JSON lines, JSON, EDN, Parquet or Arrow.

    Only client operations are written, with the fields index, process, type, f, key, value, time,
    node, error and final. Everything left out is listed on standard error.
    """
    left = Counter[str]()
    try:
        history = HistoryFile(source, read_as or guess_format(source, "--from"))
        kind = write_as or guess_format(target, "--to")
        if join_keys and kind in ("parquet", "arrow"):
            raise click.UsageError(f"--join-keys is for text formats; {kind} has a column for keys")
        if target.exists() and target.samefile(source):
            raise click.UsageError(f"{target}: is the input file; write to another one")
        ops = list(to_ops(_counted(_events(history, independent, left), left)))
        torn = history.torn_line
        write(ops, target, kind, independent=join_keys)
    except HistoryError as error:
        text = " ".join(str(error).split())
        where = "" if text.startswith((f"{source}:", f"{target}:")) else f"{source}: "
        click.echo(f"kraftwreck convert: {where}{text}", err=True)
        sys.exit(BAD_ARGUMENTS)
    except OSError as error:
        click.echo(f"kraftwreck convert: {target}: {error.strerror}", err=True)
        sys.exit(BAD_ARGUMENTS)
    if torn is not None:
        left[f"line {torn}, which is torn"] += 1
    for what, count in left.items():
        click.echo(f"{source}: left out: {what}" + (f" ({count:,})" if count > 1 else ""), err=True)
    click.echo(f"{target}: {len(ops):,} {'event' if len(ops) == 1 else 'events'}")


def _events(history: HistoryFile, independent: bool, left: Counter[str]) -> Iterator[Event]:
    if history.kind in ("parquet", "arrow"):
        return read_events(history.path, history.kind, independent=independent)
    records = _clients(read_records(history.path, history.kind), left)
    return events_of(history.path, records, independent=independent)


def _clients(records: Iterable[tuple[int, Any]], left: Counter[str]) -> Iterator[tuple[int, Any]]:
    """Yield all records, and count those of the nemesis in ``left``."""
    for line, record in records:
        if isinstance(record, dict) and isinstance(record.get("process"), str):
            left["events of the nemesis"] += 1
        yield line, record


def _counted(events: Iterable[Event], left: Counter[str]) -> Iterator[Event]:
    """Yield all events; count in ``left`` the fields that the output formats cannot hold."""
    for event in events:
        left.update(f"field {name}" for name in event.fields)
        yield event


if __name__ == "__main__":
    cli()
