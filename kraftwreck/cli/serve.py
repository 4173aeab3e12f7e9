"""``kraftwreck serve STORE``: browse a store's runs, read-only, on loopback by default."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import click

from kraftwreck.histories.exit_codes import BadInputError
from kraftwreck.reports.store.export import ALL, NONE, RED, export
from kraftwreck.reports.store.index import is_run
from kraftwreck.reports.web import StoreServer


@click.command(name="serve")
@click.argument("store", type=click.Path(path_type=Path), default=Path("store"))
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True,
              help="Port to listen on; 0: a free one.")  # fmt: skip
@click.option(
    "--bind",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Anyone who can reach it can read the store.",
)
@click.option(
    "--export",
    "target",
    type=click.Path(path_type=Path),
    help="Write the pages as files into this folder and exit.",
)
@click.option(
    "--reports",
    type=click.Choice([RED, ALL, NONE]),
    default=RED,
    show_default=True,
    help="Which runs' reports --export includes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON.")
def cli(
    store: Path, port: int, bind: str, target: Path | None, reports: str, as_json: bool
) -> None:
    """Serve the runs and nights in STORE until Ctrl-C."""
    if not store.is_dir():
        raise BadInputError(
            f"{store}: not a directory; pass a store (kraftwreck run creates ./store)"
        )
    if is_run(store):
        raise BadInputError(f"{store}: a run folder; pass its store, or open its report.html")
    if target is not None:
        _export(store, target, reports, as_json)
        return
    try:
        server = StoreServer(store, bind, port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        text = f"cannot listen on {bind}:{port} ({reason}); choose another --bind or --port"
        raise BadInputError(text) from error
    with server, contextlib.suppress(KeyboardInterrupt):
        if as_json:
            click.echo(json.dumps({"url": server.url, "store": str(server.store)}))
            sys.stdout.flush()
        else:
            click.echo(f"{server.store} at {server.url} (Ctrl-C stops)", err=True)
        server.serve_forever(poll_interval=0.2)


def _export(store: Path, target: Path, reports: str, as_json: bool) -> None:
    done = export(store, target, reports)
    if as_json:
        summary = {"export": str(done.folder), "nights": done.nights, "reports": done.reports}
        summary |= {"compared": done.compared, "left_out": done.left_out}
        click.echo(json.dumps(summary))
    else:
        more = f", {done.left_out} left out" if done.left_out else ""
        click.echo(
            f"{done.folder}/index.html: {done.nights} nights, {done.reports} reports{more},"
            f" {done.compared} comparisons",
            err=True,
        )
