"""``kraftwreck check``: judge any history, or a run folder again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from checkers.calls import HistoryShapeError, pair
from checkers.linearizable import TIME_LIMIT_S, check_calls
from checkers.models import MODELS, ModelError
from histories.convert import FORMATS, load
from histories.reading import HistoryError
from histories.verdict import CheckerResult, Validity, merge_valid

BAD_ARGUMENTS = 254
EXIT_CODES: dict[Validity, int] = {True: 0, False: 1, "unknown": 2}
WORDS: dict[Validity, str] = {True: "valid", False: "INVALID", "unknown": "unknown"}


@click.command(name="check")
@click.argument("histories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--model", metavar="MODEL", help=f"What it must obey: {', '.join(sorted(MODELS))}.")
@click.option("--format", "kind", type=click.Choice(FORMATS), help="[default: by file name]")
@click.option("--engine", type=click.Choice(["native"]), default="native", show_default=True)
@click.option("--independent", is_flag=True, help="Values are [key, value], as Jepsen's.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), default=TIME_LIMIT_S,
    show_default=True, metavar="SECONDS", help="Per history; then it is unknown.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON line per history on stdout.")
def cli(
    histories: tuple[Path, ...],
    model: str | None,
    kind: str | None,
    engine: str,
    independent: bool,
    time_limit: float,
    as_json: bool,
) -> None:
    """Check each of HISTORIES, files or run folders.

    A file needs --model. A run folder is checked by the checkers it was made for, and its
    results.json is written again.
    """
    if model is not None and model not in MODELS:
        raise click.UsageError(f"model {model!r} is not there; models: {', '.join(sorted(MODELS))}")
    verdicts: list[Validity] = []
    for path in histories:
        try:
            report = (
                _run_folder(path)
                if (path / "test.json").is_file()
                else _history(path, model, kind, independent, time_limit)
            )
        except (HistoryError, HistoryShapeError, ModelError) as error:
            text = str(error)
            where = "" if text.startswith(str(path)) else f"{path}: "
            click.echo(f"kraftwreck check: {where}{text}", err=True)
            sys.exit(BAD_ARGUMENTS)
        verdicts.append(report["valid"])
        if as_json:
            click.echo(msgspec.json.encode(report))
        else:
            _show(report)
    sys.exit(EXIT_CODES[merge_valid(verdicts)])


def _history(
    path: Path, model: str | None, kind: str | None, independent: bool, time_limit: float
) -> dict[str, Any]:
    if model is None:
        if path.is_dir() and path.suffix != ".parquet":
            raise HistoryError(f"{path}: is no run folder, it has no test.json")
        raise click.UsageError(f"{path} is a history: say what it must obey with --model")
    calls = pair(load(path, kind, independent=independent))
    result = check_calls(MODELS[model], calls, time_limit)
    return {"file": str(path), "valid": result.valid, "model": model, **_result(result)}


def _result(result: CheckerResult) -> dict[str, Any]:
    return {"anomalies": result.anomalies, "stats": result.stats, "error": result.error}


def _run_folder(path: Path) -> dict[str, Any]:
    from kraftwreck.judge import judge

    verdict = judge(path, lambda line: click.echo(line, err=True))
    return {"file": str(path), "valid": verdict.valid, "checkers": verdict.checkers}


def _show(report: dict[str, Any]) -> None:
    """Say for people what was found."""
    click.echo(f"{report['file']}: {WORDS[report['valid']]}", err=True)
    checkers = report.get("checkers")
    if checkers is None:
        _show_findings("", report["anomalies"], report["error"])
        return
    for name, result in checkers.items():
        click.echo(f"  {name}: {WORDS[result.valid]}", err=True)
        _show_findings("  ", result.anomalies, result.error)


def _show_findings(indent: str, anomalies: list[Any], error: str | None) -> None:
    for anomaly in anomalies:
        click.echo(f"{indent}  {anomaly.type}: {anomaly.explanation}", err=True)
    if error is not None:
        click.echo(f"{indent}  {error}", err=True)


if __name__ == "__main__":
    cli()
