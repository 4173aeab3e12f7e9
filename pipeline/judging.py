"""The checkers in Spark's Python workers: the same functions as in any other process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from kraftwreck.checkers.linearizability.keyed import explain, model_of, verdicts_of
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import GROUP, check
from kraftwreck.histories.plugins import plugins
from kraftwreck.histories.verdict import Anomaly, Suspicion, Validity
from kraftwreck.nemesis.coverage import Coverage, coverage
from kraftwreck.pipeline.apart import Died, Tell, apart
from kraftwreck.pipeline.runs import read_test, recorded_verdict, run_id
from kraftwreck.pipeline.silver import one_line

Batches = Iterable[pa.RecordBatch]
Row = dict[str, Any]

WORDS: dict[Validity, str] = {True: "true", False: "false", "unknown": "unknown"}
RUNS = "run string, folder string, file string"
FINDINGS = (
    "run string, table string, checker string, valid string, anomalies long, error string, "
    "source string, number long, type string, explanation string, operations array<long>, "
    "counter string, item string, key string, model string, count long, why string"
)
_FINDINGS = pa.schema(
    [
        ("run", pa.string()),
        ("table", pa.string()),
        ("checker", pa.string()),
        ("valid", pa.string()),
        ("anomalies", pa.int64()),
        ("error", pa.string()),
        ("source", pa.string()),
        ("number", pa.int64()),
        ("type", pa.string()),
        ("explanation", pa.string()),
        ("operations", pa.list_(pa.int64())),
        ("counter", pa.string()),
        ("item", pa.string()),
        ("key", pa.string()),
        ("model", pa.string()),
        ("count", pa.int64()),
        ("why", pa.string()),
    ]
)
_COUNTERS = ("follows", "overlaps", "struck", "cuts", "directed", "steps", "marks")
MOST_DEATHS = 3
"""After this many killed processes a run is not judged any further."""
COUNTING, RECORDED, COUNTED = "counting", "recorded", "counted"
"""The table, and the names among the checkers, that record where a run's coverage is from."""
REFUSED = "refused"
"""The table for runs that the checkers could not read."""


def findings(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield each run's rows of ``verdicts``, ``anomalies``, ``suspicions``, ``keys`` and
    ``coverage``."""
    plugins(GROUP)  # Imported here, once, and not again in every separate process.
    for row in _rows(batches):
        yield from _of_run(Path(row["folder"]), row["run"], survived).to_batches()


def recorded(folder: Path) -> pa.Table:
    """Return the rows of :func:`findings` for a run that has been judged, without judging again."""
    return _of_run(folder, run_id(folder), _as_recorded)


def _of_run(folder: Path, run: str, rows_of: Callable[[Path], list[Row]]) -> pa.Table:
    try:
        rows = rows_of(folder)
    except Exception as error:
        rows = [{"table": REFUSED, "error": one_line(error, str(folder))}]
    return pa.Table.from_pylist([{"run": run, **each} for each in rows], schema=_FINDINGS)


def survived(folder: Path) -> list[Row]:
    """Return the result of :func:`judged` in a separate process.

    If that process is killed (out of memory, a crash in compiled code), the verdict of the checker
    that was running says so, and the others run again without it. Raises
    :class:`~pipeline.apart.Died` if no checker was running.
    """
    dead: dict[str, str] = {}
    for _ in range(MOST_DEATHS):
        try:
            found: list[Row] = apart(lambda tell: judged(folder, dead, tell))
            return found
        except Died as died:
            if not died.at or died.at in dead:
                raise
            dead[died.at] = f"{died} while it ran"
    names = read_test(folder).get("checkers") or ["stats"]
    left = f"not run: judging this run was killed {MOST_DEATHS} times"
    dead |= {name: left for name in [*names, COUNTING] if name not in dead}
    return judged(folder, dead)


def judged(
    folder: Path, dead: Mapping[str, str] = MappingProxyType({}), tell: Tell = lambda where: None
) -> list[Row]:
    """Return the results of checkers and counters for the run in ``folder``.

    A checker in ``results.json`` that needs more than the run's records (it runs the nodes again,
    or is part of the simulator) keeps its recorded verdict. Checkers in ``dead`` do not run: they
    are unknown, with the reason given there. ``tell`` is called with the name of each checker
    before it runs.
    """
    data = RunData.from_folder(folder)
    names = data.test.get("checkers") or ["stats"]
    verdict = check(data, _announced([name for name in names if name not in dead], tell))
    rows: list[Row] = []
    for name, result in verdict.checkers.items():
        rows += _told(name, "computed", WORDS[result.valid], result.error, result.anomalies)
        rows += _suspected(name, "computed", result.suspicions)
    linearizable = verdict.checkers.get("linearizable")
    if linearizable is not None and "keys" in linearizable.stats:
        # The checker of the whole run has covered what cannot be judged by key.
        rows += _keys(data)
    for name in names:
        if name in dead:
            rows += _told(name, "computed", WORDS["unknown"], dead[name], [])
    told = {
        name: each
        for name, each in recorded_verdict(folder).items()
        if name not in verdict.checkers and name not in dead
    }
    rows += _from_results(told)
    tell(COUNTING)
    return rows + _reached(folder, data, dead.get(COUNTING))


def _as_recorded(folder: Path) -> list[Row]:
    told = recorded_verdict(folder)
    rows = _from_results(told)
    data = RunData.from_folder(folder)
    if "keys" in (told.get("linearizable", {}).get("stats") or {}):
        rows += _keys(data)
    return rows + _reached(folder, data, None)


def _from_results(checkers: Mapping[str, Row]) -> list[Row]:
    """Return the rows of checkers as ``results.json`` has them."""
    rows: list[Row] = []
    for name, told in checkers.items():
        anomalies = msgspec.convert(told.get("anomalies") or [], list[Anomaly])
        valid = WORDS[told.get("valid", "unknown")]
        rows += _told(name, "recorded", valid, told.get("error"), anomalies)
        suspicions = msgspec.convert(told.get("suspicions") or [], list[Suspicion])
        rows += _suspected(name, "recorded", suspicions)
    return rows


def _announced(names: Iterable[str], tell: Tell) -> Iterator[str]:
    for name in names:
        tell(name)
        yield name


def _told(
    checker: str, source: str, valid: str, error: str | None, anomalies: list[Anomaly]
) -> list[Row]:
    head: Row = {"checker": checker, "source": source}
    counted = {"table": "verdicts", "valid": valid, "anomalies": len(anomalies), "error": error}
    listed = (_finding(number, anomaly) for number, anomaly in enumerate(anomalies))
    return [{**head, **counted}, *({**head, "table": "anomalies", **each} for each in listed)]


def _suspected(checker: str, source: str, suspicions: list[Suspicion]) -> list[Row]:
    head: Row = {"table": "suspicions", "checker": checker, "source": source}
    return [
        {**head, **_finding(number, suspicion), "why": suspicion.why}
        for number, suspicion in enumerate(suspicions)
    ]


def _finding(number: int, found: Anomaly) -> Row:
    return {
        "number": number,
        "type": found.type,
        "explanation": found.explanation,
        "operations": found.operations,
    }


def _reached(folder: Path, data: RunData, dead: str | None) -> list[Row]:
    """Return the rows of the run's coverage, and whether it was recorded or is counted now."""
    reached, how = _coverage(folder, data, dead)
    rows: list[Row] = [{"table": COUNTING, "error": how}]
    for counter in _COUNTERS:
        rows += [
            {"table": "coverage", "counter": counter, "item": item}
            for item in sorted(getattr(reached, counter))
        ]
    return rows


def _coverage(folder: Path, data: RunData, dead: str | None) -> tuple[Coverage, str]:
    """Return the coverage of the run and its source.

    Errors must not affect the verdict: then the coverage is empty, and the reason is returned.
    """
    path = folder / "coverage.json"
    try:
        if path.exists():
            return msgspec.json.decode(path.read_bytes(), type=Coverage), RECORDED
        if dead is not None:
            return Coverage(), f"not counted: {dead}"
        return coverage(data.events, data.faults, data.test, ordered=False), COUNTED
    except Exception as error:
        return Coverage(), f"not counted: {one_line(error, path.name)}"


def _keys(data: RunData) -> list[Row]:
    """Return one row per key: whether its history is linearizable, and if not, why."""
    model = model_of(data.test)
    return [
        {
            "table": "keys",
            "key": verdict.key,
            "model": model.name,
            "valid": WORDS[verdict.outcome.valid],
            "count": verdict.count,
            "explanation": explain(verdict.key, verdict.outcome)
            if verdict.outcome.valid is False
            else verdict.outcome.reason,
        }
        for verdict in verdicts_of(data)
    ]


def _rows(batches: Batches) -> Iterator[dict[str, str]]:
    for batch in batches:
        yield from batch.to_pylist()
