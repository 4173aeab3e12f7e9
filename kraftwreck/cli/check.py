"""``kraftwreck check``: judge any history, or judge a run folder again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from kraftwreck.checkers.bad_input import BAD_INPUT, reason_of
from kraftwreck.checkers.catalogue import CATALOGUE, HistoryModel, Settings
from kraftwreck.checkers.elle.binding import ElleError
from kraftwreck.checkers.linearizability.keyed import TIME_LIMIT_S
from kraftwreck.checkers.model_options import model_named, parsed_options
from kraftwreck.cli.option_types import MASTER, SECONDS, OutputFile
from kraftwreck.histories.events import FORMATS
from kraftwreck.histories.exit_codes import (
    BAD_ARGUMENTS,
    FAILED,
    CommandError,
    of_verdict,
)
from kraftwreck.histories.verdict import CheckerResult, Validity, merge_valid
from kraftwreck.histories.without_pandas import leave_pandas_out
from kraftwreck.reports.checked_history import (
    check_file,
    check_run,
    findings,
    of_spark,
    refuse,
    write_graph_of,
    write_page,
)


@click.command(name="check")
@click.argument("histories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--model", "-m", metavar="MODEL",
    help=f"The model to check against: {', '.join(sorted(CATALOGUE))}.",
)  # fmt: skip
@click.option(
    "--option", "-o", "options", multiple=True, metavar="NAME=JSON",
    help="An option of the model; a value that is not JSON is a string. Repeatable.",
)  # fmt: skip
@click.option(
    "--consistency-model", "consistency", multiple=True, metavar="NAME",
    help="Transactions: a model they must satisfy; repeatable. [default: strict-serializable]",
)  # fmt: skip
@click.option(
    "--anomaly", "-a", "forbidden", multiple=True, metavar="NAME",
    help="Transactions: an additional anomaly to forbid.",
)  # fmt: skip
@click.option(
    "--witness", type=OutputFile(),
    help="Write the order of operations that proves a history valid here, one JSON line each.",
)  # fmt: skip
@click.option(
    "--graph", type=OutputFile(),
    help="Transactions: write the cycles of one history to this file, as GraphML.",
)  # fmt: skip
@click.option(
    "--report", "page", metavar="FILE", type=OutputFile(),
    help="Write an HTML page about one history to this file, with a picture of its anomalies.",
)  # fmt: skip
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), help="Format of files [default: by file name]."
)
@click.option(
    "--engine", type=click.Choice(["native", "elle"]), default="native", show_default=True,
    help="Checker of transactions: the built-in one, or Elle itself.",
)  # fmt: skip
@click.option(
    "--elle", metavar="COMMAND",
    help="The elle-cli program or its jar. [default: KRAFTWRECK_ELLE, or elle-cli on the PATH]",
)  # fmt: skip
@click.option("--independent", is_flag=True, help="Values are [key, value] pairs, as in Jepsen.")
@click.option(
    "--budget", type=SECONDS, default=TIME_LIMIT_S,
    show_default=True, metavar="SECONDS",
    help="CPU seconds per history; beyond them the verdict is unknown.",
)  # fmt: skip
@click.option(
    "--master", type=MASTER, metavar="URL",
    help="Judge with Spark, key by key, on this master: local[*], spark://HOST:7077, ...",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON line per history on stdout.")
def cli(
    histories: tuple[Path, ...],
    model: str | None,
    options: tuple[str, ...],
    consistency: tuple[str, ...],
    forbidden: tuple[str, ...],
    witness: Path | None,
    graph: Path | None,
    page: Path | None,
    kind: str | None,
    engine: str,
    elle: str | None,
    independent: bool,
    budget: float,
    master: str | None,
    as_json: bool,
) -> None:
    """Check each of HISTORIES: history files or run folders.

    A file needs --model. A run folder is checked by the checkers recorded in it, and its
    results.json is written again.
    """
    lists = {"consistency-models": list(consistency), "anomalies": list(forbidden)}
    try:
        entry = None if model is None else model_named(model)
        values = parsed_options(entry, options, {k: v for k, v in lists.items() if v})
        refuse(histories, entry, engine, elle, page, graph)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    settings = Settings(
        options=values, time_limit_s=budget, independent=independent, engine=engine, elle=elle
    )
    proofs: list[dict[str, Any]] | None = None if witness is None else []
    if master is not None and witness is not None:
        raise click.UsageError("--witness is for histories judged without --master")
    if master is None:
        leave_pandas_out()
    spread: list[CheckerResult | CommandError] | None = None
    verdicts: list[Validity] = []
    failures: list[int] = []
    for number, path in enumerate(histories):
        try:
            if master is not None:
                # Spark judges all files at once, when the first is due.
                spread = spread or _with_spark(histories, entry, kind, settings, master)
                report = of_spark(spread[number], path, entry, kind)
            elif (path / "test.json").is_file():
                report = check_run(path, _say)
            else:
                report = check_file(path, entry, kind, settings, proofs)
        except BAD_INPUT as error:
            failures.append(BAD_ARGUMENTS)
            report = _unjudged(path, error)
        except (ElleError, CommandError) as error:
            failures.append(error.exit_code if isinstance(error, CommandError) else FAILED)
            report = _unjudged(path, error)
        else:
            verdicts.append(report["valid"])
            if page is not None and entry is not None:
                write_page(page, path, entry, kind, settings, report)
            if graph is not None:
                write_graph_of(graph, report)
            if not as_json:
                click.echo("\n".join(findings(report)))
        if as_json:
            click.echo(msgspec.json.encode(report))
    if witness is not None and proofs is not None:
        witness.write_bytes(b"".join(msgspec.json.encode(proof) + b"\n" for proof in proofs))
    sys.exit(max(failures, default=of_verdict(merge_valid(verdicts))))


def _unjudged(path: Path, error: Exception) -> dict[str, Any]:
    """Print why ``path`` has no verdict on standard error; return that as a report."""
    text = reason_of(error)
    where = "" if text.startswith(str(path)) else f"{path}: "
    click.echo(f"kraftwreck check: {where}{text}", err=True)
    return {"file": str(path), "valid": "unknown", "error": text}


def _with_spark(
    histories: tuple[Path, ...],
    entry: HistoryModel | None,
    kind: str | None,
    settings: Settings,
    master: str,
) -> list[CheckerResult | CommandError]:
    from kraftwreck.pipeline.check_histories import judge_with_spark
    from kraftwreck.pipeline.java import PipelineError
    from kraftwreck.pipeline.keyed import can_be_keyed

    if entry is None or not can_be_keyed(entry, settings):
        name = "a run folder" if entry is None else f"model {entry.name}"
        raise click.UsageError(
            f"--master needs a model that judges each key alone; {name} does not"
        )
    try:
        return judge_with_spark(histories, entry, kind, settings, master)
    except PipelineError as error:
        click.echo(f"kraftwreck check: {error}", err=True)
        sys.exit(FAILED)


def _say(line: str) -> None:
    click.echo(line, err=True)


if __name__ == "__main__":
    cli()
