"""``kraftwreck check``: judge any history, or judge a run folder again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from kraftwreck.checkers.bad_input import BAD_INPUT, reason_of
from kraftwreck.checkers.catalogue import CATALOGUE, HistoryModel, Settings, find, options_of
from kraftwreck.checkers.elle.binding import MODELS as TRANSACTIONS
from kraftwreck.checkers.elle.binding import ElleError
from kraftwreck.checkers.linearizability.keyed import TIME_LIMIT_S
from kraftwreck.cli.option_types import MASTER, SECONDS, OutputFile
from kraftwreck.histories.events import FORMATS
from kraftwreck.histories.exit_codes import (
    BAD_ARGUMENTS,
    FAILED,
    BadInputError,
    CommandError,
    of_verdict,
)
from kraftwreck.histories.source import HistoryFile
from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.verdict import WORDS, CheckerResult, Validity, merge_valid
from kraftwreck.histories.without_pandas import leave_pandas_out
from kraftwreck.reports.checked_history import report_of, write_page


@click.command(name="check")
@click.argument("histories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--model",
    "-m",
    metavar="MODEL",
    help=f"The model to check against: {', '.join(sorted(CATALOGUE))}.",
)
@click.option(
    "--option",
    "-o",
    "options",
    multiple=True,
    metavar="NAME=JSON",
    help="An option of the model; may be given several times.",
)
@click.option(
    "--consistency-model",
    "consistency",
    multiple=True,
    metavar="NAME",
    help="Transactions: a model they must satisfy; repeatable. [default: strict-serializable]",
)
@click.option(
    "--anomaly",
    "-a",
    "forbidden",
    multiple=True,
    metavar="NAME",
    help="Transactions: an additional anomaly to forbid.",
)
@click.option(
    "--witness",
    type=OutputFile(),
    help="Write the order of operations that proves a history valid here, one JSON line each.",
)
@click.option(
    "--graph",
    type=OutputFile(),
    help="Transactions: write the cycles of one history to this file, as GraphML.",
)
@click.option(
    "--report",
    "page",
    metavar="FILE",
    type=OutputFile(),
    help="Write an HTML page about one history to this file, with a picture of its anomalies.",
)
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), help="Format of files [default: by file name]."
)
@click.option(
    "--engine", type=click.Choice(["native", "elle"]), default="native", show_default=True,
    help="Checker of transactions: the built-in one, or Elle itself.",
)  # fmt: skip
@click.option(
    "--elle",
    metavar="COMMAND",
    help="The elle-cli program or its jar. [default: KRAFTWRECK_ELLE, or elle-cli on the PATH]",
)
@click.option("--independent", is_flag=True, help="Values are [key, value] pairs, as in Jepsen.")
@click.option(
    "--budget", type=SECONDS, default=TIME_LIMIT_S,
    show_default=True, metavar="SECONDS",
    help="CPU seconds per history; beyond them the verdict is unknown.",
)  # fmt: skip
@click.option(
    "--master",
    type=MASTER,
    metavar="URL",
    help="Judge with Spark, key by key, on this master: local[*], spark://HOST:7077, ...",
)
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
    entry = None if model is None else _entry(model)
    lists = {"consistency-models": list(consistency), "anomalies": list(forbidden)}
    settings = Settings(
        options=_options(entry, options, {k: v for k, v in lists.items() if v}),
        time_limit_s=budget,
        independent=independent,
        engine=engine,
        elle=elle,
    )
    _check_engine(entry, engine, elle)
    proofs: list[dict[str, Any]] | None = None if witness is None else []
    if master is not None and witness is not None:
        raise click.UsageError("--witness is for histories judged without --master")
    _check_page(page, histories)
    _check_graph(graph, histories, entry, engine)
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
                report = _of_one(spread[number], path, entry, kind)
            elif (path / "test.json").is_file():
                report = _run_folder(path)
            else:
                report = _history(path, entry, kind, settings, proofs)
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
                _write_graph(graph, report)
            if not as_json:
                _show(report)
        if as_json:
            click.echo(msgspec.json.encode(report))
    _write_proofs(witness, proofs)
    sys.exit(max(failures, default=of_verdict(merge_valid(verdicts))))


def _check_engine(entry: HistoryModel | None, engine: str, elle: str | None) -> None:
    """Raise a usage error if Elle does not judge histories of the model."""
    if engine == "elle" and (entry is None or entry.name not in TRANSACTIONS):
        raise click.UsageError(f"--engine elle needs --model {' or '.join(TRANSACTIONS)}")
    if elle is not None and engine != "elle":
        raise click.UsageError("--elle needs --engine elle")


def _check_page(page: Path | None, histories: tuple[Path, ...]) -> None:
    """Raise a usage error if ``--report`` cannot be written for ``histories``."""
    if page is None:
        return
    if len(histories) > 1:
        raise click.UsageError(f"--report is for one history; got {len(histories)}")
    if (histories[0] / "test.json").is_file():
        raise click.UsageError(
            f"--report is for histories; kraftwreck report {histories[0]} is for runs"
        )


def _check_graph(
    graph: Path | None, histories: tuple[Path, ...], entry: HistoryModel | None, engine: str
) -> None:
    """Raise a usage error if ``--graph`` cannot be written for ``histories``."""
    if graph is None:
        return
    if len(histories) > 1:
        raise click.UsageError(f"--graph is for one history; got {len(histories)}")
    if entry is None or entry.name not in TRANSACTIONS or engine != "native":
        models = " or ".join(TRANSACTIONS)
        raise click.UsageError(f"--graph needs --model {models}, and the built-in engine")


def _write_graph(graph: Path, report: dict[str, Any]) -> None:
    """Write the cycles of a report as GraphML. Raises BadInputError if that is impossible."""
    from kraftwreck.checkers.elle.graphs import write_graph

    try:
        write_graph(graph, report["result"].get("anomalies", {}))
    except OSError as error:
        raise BadInputError(f"{graph}: cannot be written: {error.strerror}") from error


def _write_proofs(witness: Path | None, proofs: list[dict[str, Any]] | None) -> None:
    if witness is not None and proofs is not None:
        witness.write_bytes(b"".join(msgspec.json.encode(proof) + b"\n" for proof in proofs))


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


def _of_one(
    found: CheckerResult | CommandError, path: Path, entry: HistoryModel | None, kind: str | None
) -> dict[str, Any]:
    if isinstance(found, CommandError):
        raise found
    assert entry is not None
    return report_of(path, entry, found, HistoryFile(path, kind).torn_line)


def _entry(model: str) -> HistoryModel:
    try:
        return find(model)
    except KeyError as error:
        raise click.UsageError(str(error.args[0])) from None


def _options(
    entry: HistoryModel | None, given: tuple[str, ...], lists: dict[str, Any]
) -> dict[str, Any]:
    """Read the NAME=JSON pairs; a value that is not JSON is taken as a string."""
    if not given and not lists:
        return {}
    if entry is None:
        raise click.UsageError("options of a model need --model")
    values: dict[str, Any] = dict(lists)
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise click.UsageError(f"--option {text!r} is not NAME=JSON")
        try:
            values[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            values[name] = value
    try:
        return options_of(entry, values)
    except KeyError as error:
        raise click.UsageError(str(error.args[0])) from None


def _history(
    path: Path,
    entry: HistoryModel | None,
    kind: str | None,
    settings: Settings,
    proofs: list[dict[str, Any]] | None,
) -> dict[str, Any]:
    if entry is None:
        if path.is_dir() and path.suffix != ".parquet":
            raise HistoryError(f"{path}: not a run folder: test.json is missing")
        raise HistoryError(
            f"{path}: a history file needs --model (kraftwreck check --help lists the models)"
        )
    source = HistoryFile(path, kind, independent=settings.independent)
    torn = source.torn_line
    report = entry.judge(source, settings)
    if proofs is not None and report.witness is not None:
        proofs.append({"file": str(path), "model": entry.name, "order": report.witness()})
    return report_of(path, entry, report.result, torn, report.details)


def _run_folder(path: Path) -> dict[str, Any]:
    from kraftwreck.reports.pages import write_pages
    from kraftwreck.runs.judge import judge, measured_strength

    def say(line: str) -> None:
        click.echo(line, err=True)

    verdict = judge(path, say)
    write_pages(path, say)
    return {
        "file": str(path),
        "valid": verdict.valid,
        "checkers": verdict.checkers,
        "strength": measured_strength(verdict),
    }


def _show(report: dict[str, Any]) -> None:
    """Print the findings for people."""
    torn = report.get("torn_line")
    without = "" if torn is None else f" without line {torn}, which is torn"
    click.echo(f"{report['file']}: {WORDS[report['valid']]}{without}")
    checkers = report.get("checkers")
    if checkers is None:
        _show_findings("", report["anomalies"], report["error"])
        return
    for name, result in checkers.items():
        click.echo(f"  {name}: {WORDS[result.valid]}")
        _show_findings("  ", result.anomalies, result.error)


def _show_findings(indent: str, anomalies: list[Any], error: str | None) -> None:
    for anomaly in anomalies:
        click.echo(f"{indent}  {anomaly.type}: {anomaly.explanation}")
    if error is not None:
        click.echo(f"{indent}  {error}")


if __name__ == "__main__":
    cli()
