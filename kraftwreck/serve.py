"""``kraftwreck serve STORE``: browse a store's runs, read-only, on loopback by default."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import click

from reports.web import StoreServer


@click.command(name="serve")
@click.argument("store", type=click.Path(path_type=Path), default=Path("store"))
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
@click.option(
    "--bind",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Anybody who reaches it can read the store.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON.")
def cli(store: Path, port: int, bind: str, as_json: bool) -> None:
    """Serve the runs in STORE until Ctrl-C. Port 0 takes a free one."""
    if not store.is_dir():
        click.echo(f"kraftwreck serve: {store}: no such folder; give a store", err=True)
        sys.exit(254)
    try:
        server = StoreServer(store, bind, port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        click.echo(
            f"kraftwreck serve: cannot listen on {bind}:{port} ({reason}); choose another --port",
            err=True,
        )
        sys.exit(254)
    with server, contextlib.suppress(KeyboardInterrupt):
        if as_json:
            click.echo(json.dumps({"url": server.url, "store": str(server.store)}))
            sys.stdout.flush()
        else:
            click.echo(f"{server.store} at {server.url} (Ctrl-C ends)", err=True)
        server.serve_forever(poll_interval=0.2)


if __name__ == "__main__":
    cli()
