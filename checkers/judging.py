"""Judging a whole history: choice of the engine and of the input form, and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from kraftwreck.checkers.calls import pair
from kraftwreck.checkers.jepsen import clock_offsets, log_files
from kraftwreck.checkers.jepsen.judgement import Judgement
from kraftwreck.checkers.linearizability.keyed import TIME_LIMIT_S, check_keys, merge
from kraftwreck.checkers.linearizability.models import Model, Register
from kraftwreck.histories.events import Event, read_records
from kraftwreck.histories.source import HistoryFile, Source
from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.verdict import Anomaly, CheckerResult, merge_valid

Options = Mapping[str, Any]


class Settings(msgspec.Struct, kw_only=True):
    """Settings of a judgement; ``options`` are the model's own."""

    options: dict[str, Any] = {}
    time_limit_s: float = TIME_LIMIT_S
    independent: bool = False
    engine: str = "native"
    elle: str | None = None


class Report(msgspec.Struct, kw_only=True):
    """The result for a history: the verdict, and ``details`` under Jepsen's and Elle's names.

    ``witness`` returns, for a valid history of a model of states, a legal order: the
    indices of invocations, those of one key in their order.
    """

    result: CheckerResult
    details: dict[str, Any] = {}
    witness: Callable[[], list[int]] | None = None


class HistoryModel(msgspec.Struct, frozen=True, kw_only=True):
    """One entry. ``options`` maps each option's name to its description.

    ``by_the_end``: a fault may only mean that something comes later, as in a last read. An anomaly
    in a history that is cut off is then no proof.
    """

    name: str
    about: str
    judge: Callable[[Source, Settings], Report]
    aliases: tuple[str, ...] = ()
    options: Mapping[str, str] = {}
    by_the_end: bool = False


def cut_off(found: CheckerResult, entry: HistoryModel, line: int) -> CheckerResult:
    """Return the verdict of a history whose last line, ``line``, is torn and left out.

    Its operation counts as still open, as if the recorder had crashed. A missing order or a cycle
    is proof whatever comes later; a missing element may be in the torn line.
    """
    if found.valid is not False or not entry.by_the_end:
        return found
    reason = f"line {line} is torn, and may hold the missing elements"
    return msgspec.structs.replace(found, valid="unknown", error=reason)


def judge_jepsen(check: Callable[[Iterable[Event], Options], Judgement]) -> Any:
    def judge(source: Source, settings: Settings) -> Report:
        if not settings.independent:
            return _report(check(source.events(), settings.options))
        groups: dict[str, list[Event]] = {}
        for event in source.events():
            key = msgspec.json.encode(event.key, order="deterministic").decode()
            groups.setdefault(key, []).append(event)
        return _merged({k: check(group, settings.options) for k, group in groups.items()})

    return judge


def judge_log_files(source: Source, settings: Settings) -> Report:
    """Search the logs beside the history, which is not read."""
    if not isinstance(source, HistoryFile):
        raise HistoryError("log-file-pattern needs a history file with the nodes' logs beside it")
    return _report(log_files.check(source.path, settings.options))


def judge_clock(source: Source, settings: Settings) -> Report:
    """Take the clock offsets from the nemesis' events."""
    if not isinstance(source, HistoryFile) or source.kind in ("parquet", "arrow"):
        raise HistoryError("clock needs the nemesis' events: a history of Jepsen's, JSON or EDN")
    records = read_records(source.path, source.kind)
    found = (
        (f"{source.path}:{line}" if line else str(source.path), record) for line, record in records
    )
    return _report(clock_offsets.check(found, settings.options))


def _report(found: Judgement) -> Report:
    result = CheckerResult(valid=found.valid, anomalies=found.anomalies, error=found.error)
    return Report(result=result, details=found.result)


def _merged(found: dict[str, Judgement]) -> Report:
    """Merge the verdicts of independent keys, as jepsen.independent does."""
    valid = merge_valid(judgement.valid for judgement in found.values())
    anomalies = [
        Anomaly(
            type=anomaly.type,
            explanation=f"Key {key}: {anomaly.explanation}",
            operations=anomaly.operations,
        )
        for key, judgement in found.items()
        for anomaly in judgement.anomalies
    ]
    undecided = [(key, j.error) for key, j in found.items() if j.valid == "unknown"]
    error = f"key {undecided[0][0]}: {undecided[0][1]}" if undecided else None
    details = {
        "valid?": valid,
        "results": {key: judgement.result for key, judgement in found.items()},
        "failures": [key for key, judgement in found.items() if judgement.valid is False],
    }
    return Report(
        result=CheckerResult(valid=valid, anomalies=anomalies, error=error), details=details
    )


def judge_searched(make: Callable[[Options], Model]) -> Any:
    """Judge by a search for an order."""

    def judge(source: Source, settings: Settings) -> Report:
        model = make(settings.options)
        verdicts = check_keys(model, pair(source.ops()), settings.time_limit_s)
        found = merge(model, verdicts)

        def witness() -> list[int]:
            return [start for verdict in verdicts for start in verdict.outcome.order]

        return _ordered(found, witness)

    return judge


def _ordered(
    found: CheckerResult, witness: Callable[[], list[int]], options: Options | None = None
) -> Report:
    if options:
        found.stats["options"] = dict(options)
    details = {"valid?": found.valid, **found.stats}
    return Report(result=found, details=details, witness=witness if found.valid is True else None)


def judge_register(name: str, cas: bool) -> Any:
    """Judge a register: by sorting where values are distinct, else by a search."""

    def judge(source: Source, settings: Settings) -> Report:
        from kraftwreck.checkers.linearizability.zones.registers import decide

        initial = settings.options.get("initial")
        model = Register(name, cas=cas, initial=initial)
        decision = decide(
            source.table(),
            model,
            initial=initial,
            cas=cas,
            time_limit_s=settings.time_limit_s,
        )
        found = merge(model, decision.verdicts, keys=decision.keys, operations=decision.operations)
        found.stats["keys_decided_by_sorting"] = decision.sorted_keys
        return _ordered(found, decision.order, settings.options)

    return judge


def judge_machine(name: str) -> Any:
    """Judge a machine, each key (and each independent element) by itself."""

    def judge(source: Source, settings: Settings) -> Report:
        from kraftwreck.checkers.linearizability.machines.linearizable import check_calls

        verdicts = check_calls(name, settings.options, pair(source.ops()), settings.time_limit_s)
        found = merge(name, verdicts)

        def witness() -> list[int]:
            return [start for verdict in verdicts for start in verdict.outcome.order]

        return _ordered(found, witness, settings.options)

    return judge


def judge_log(source: Source, settings: Settings) -> Report:
    from kraftwreck.checkers.linearizability.logs.linearizable import check_log

    judged = check_log(source, settings.time_limit_s)
    found = merge("log", [verdict for verdict, _ in judged])

    def witness() -> list[int]:
        return [start for _, order in judged for start in order()]

    return _ordered(found, witness)


def judge_transactions(name: str) -> Any:
    def judge(source: Source, settings: Settings) -> Report:
        from kraftwreck.checkers.elle import check_transactions
        from kraftwreck.checkers.elle.files import read_history_file

        options = {key.replace("-", "_"): value for key, value in settings.options.items()}
        if settings.engine == "elle":
            from kraftwreck.checkers.elle.binding import Limits, check_with_elle
            from kraftwreck.checkers.elle.check import Options as Asked

            limits = Limits(seconds=settings.time_limit_s)
            asked = Asked(**options)
            ops = list(source.ops())
            found = check_with_elle(ops, name, asked, command=settings.elle, limits=limits)
            return Report(result=found, details=dict(found.stats.get("elle", {})))
        history = (
            read_history_file(source.path, source.kind)
            if isinstance(source, HistoryFile)
            else list(source.ops())
        )
        found = check_transactions(history, name, **options)
        return Report(result=found, details=dict(found.stats["elle"]))

    return judge
