"""Judge a run folder: write its verdict and its coverage, and sum the verdict up in lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.checkers import strength
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import check
from kraftwreck.histories.store import StoreError, unwritten, write_json
from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.histories.verdict import WORDS, Anomaly, CheckerResult, Verdict, stored_verdict
from kraftwreck.nemesis.coverage import Coverage, coverage
from kraftwreck.runs.node_replay import ReplayAhead
from kraftwreck.runs.replay import check_replay
from kraftwreck.runs.two_judges import wanted, with_elle
from kraftwreck.systems.registry import systems

_SHOWN_ANOMALIES = 3
REPLAY = "replay"
"""The checker of real runs that runs every node again from its input log."""


def judge(folder: Path, say: Callable[[str], None], ahead: ReplayAhead | None = None) -> Verdict:
    """Check the run in ``folder`` and write its results and its coverage.

    A file that cannot be written is reported with ``say``, and the verdict is returned all the
    same. A run that cannot be read is ``unknown``. ``ahead`` is the replay of its nodes if that has
    begun.
    """
    reached = None
    try:
        data = RunData.from_folder(folder)
        reached = _reached(data, say)
        verdict = _with_simulator(data.test, check(data, _checkers(data.test)))
        system = systems().get(str(data.test.get("system")))
        if wanted(data.test, system):
            verdict = with_elle(data, verdict)
        if data.test.get("simulated"):
            verdict = _with_memory(folder, verdict)
        if getattr(system, "replayable", False) and data.test.get("simulated") is False:
            verdict = Verdict.of({**verdict.checkers, REPLAY: _replay(folder, data.test, ahead)})
    except HistoryError as error:
        verdict = Verdict.of({"history": CheckerResult(valid="unknown", error=str(error))})
    try:
        write_json(folder / "results.json", verdict)
        if reached is not None:
            write_json(folder / "coverage.json", reached)
    except (StoreError, OSError) as error:
        say(unwritten(str(error)))
    return verdict


def _reached(data: RunData, say: Callable[[str], None]) -> Coverage | None:
    """Count what the run reached; an error there must not hide the verdict."""
    try:
        return coverage(data.events, data.faults, data.test, ordered=False)
    except HistoryError:
        raise
    except Exception as error:
        say(f"error: coverage: {type(error).__name__}: {' '.join(str(error).split())}")
        return None


def _checkers(test: dict[str, Any]) -> list[str]:
    """Return the checkers of a run: those recorded for its workload, those of its system, and the
    measurement of its strength."""
    named = [*(test.get("checkers") or ["stats"])]
    system = systems().get(str(test.get("system")))
    own = system.checkers if system is not None else ()
    return list(dict.fromkeys([strength.NAME, *named, *own]))


def _replay(folder: Path, test: dict[str, Any], ahead: ReplayAhead | None) -> CheckerResult:
    """Run the nodes again; done here because checkers only read."""
    try:
        return check_replay(folder, test, ahead)
    except (OSError, ValueError) as error:
        return CheckerResult(valid="unknown", error=f"{type(error).__name__}: {error}")


def _with_simulator(test: dict[str, Any], verdict: Verdict) -> Verdict:
    """Add the failures that the simulator detected and no trace shows."""
    seen = test.get("simulator_failures")
    if seen is None:
        return verdict
    anomalies = [
        Anomaly(
            type=failure["type"],
            explanation=f"{failure['explanation']} (at {failure['time'] / 1e6:.3f} s)",
            events=failure.get("events", []),
            time=failure["time"],
        )
        for failure in seen
    ]
    own = CheckerResult(valid=not anomalies, anomalies=anomalies)
    return Verdict.of({**verdict.checkers, "simulator": own})


def _with_memory(folder: Path, verdict: Verdict) -> Verdict:
    """Keep the anomalies of rules that this folder has no evidence for.

    A simulated run is judged first from memory, which has every message. Without them such a rule
    is "not checked" and cannot take its anomaly back.
    """
    try:
        before = stored_verdict(folder)
    except (OSError, *UNDECODABLE):
        return verdict
    checkers = dict(verdict.checkers)
    for name, old in before.checkers.items():
        result = checkers.get(name)
        if result is None:
            continue
        kept = [each for each in old.anomalies if each.type in result.unchecked]
        if kept:
            anomalies = [*result.anomalies, *kept]
            checkers[name] = msgspec.structs.replace(result, valid=False, anomalies=anomalies)
    return Verdict.of(checkers)


def show_verdict(
    verdict: Verdict,
    folder: Path,
    repeat: str,
    say: Callable[[str], None],
    instead: str | None = None,
) -> None:
    """Print each checker's result, the verdict, the run's files, and the command to repeat it.

    ``instead`` is why the test ran in the simulator although hosts were the default.
    """
    width = max((len(name) for name in verdict.checkers), default=0)
    for name, result in verdict.checkers.items():
        note = result.error or ""
        if result.anomalies:
            note = f"{len(result.anomalies)} anomalies"
        if result.suspicions:
            count = len(result.suspicions)
            suspected = f"{count} suspicion{'' if count == 1 else 's'}"
            note = f"{note}; {suspected}" if note else suspected
        say(f"  {name:<{width}}  {WORDS[result.valid]:<8}{note}".rstrip())
        for anomaly in result.anomalies[:_SHOWN_ANOMALIES]:
            say(f"  {'':<{width}}    {anomaly.type}: {anomaly.explanation}")
        for suspicion in result.suspicions[:_SHOWN_ANOMALIES]:
            told = f"{suspicion.type}: {suspicion.explanation} {suspicion.why}"
            say(f"  {'':<{width}}    suspected: {told}")
    if measured := measured_strength(verdict):
        say(f"rests on {strength.sentence(measured)}")
    where = "" if instead is None else f" (in the simulator: {instead})"
    say(f"verdict: {verdict.in_words}{where}")
    say(f"run:     {folder}")
    report = folder / "report.html"
    if report.exists():
        say(f"report:  {report}")
    say(f"repeat:  {repeat}")


def measured_strength(verdict: Verdict) -> dict[str, Any]:
    """Return the measured strength of ``verdict``; empty if nothing was measured."""
    measured = verdict.checkers.get(strength.NAME)
    return {} if measured is None else measured.stats
