"""The process of a run on hosts: what it reads from the results of ``kraftwreck run``."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from kraftwreck.histories.verdict import Anomaly, CheckerResult, Suspicion, Verdict
from kraftwreck.nightly.request import Request
from kraftwreck.nightly.worker import Commands, on_hosts


def answered(folder: Path, result: CheckerResult) -> list[list[tuple[str, str, str]]]:
    """Return failures and suspicions in the answer about a run with this one checker."""
    verdict = Verdict.of({"invariants": result})
    (folder / "results.json").write_bytes(msgspec.json.encode(verdict))

    def status(words: list[str]) -> int:
        print(json.dumps({"valid": verdict.valid, "run": str(folder), "repeat": "kraftwreck run"}))
        return 0

    commands = Commands(status=status, write_pages=lambda folder, say: None)
    answer = on_hosts(Request(do="cluster", answer="", workload="leader"), commands)
    assert answer.valid == verdict.valid
    return [
        [(each.checker, each.type, each.explanation) for each in found]
        for found in (answer.failures, answer.suspicions)
    ]


def test_the_first_suspicion_of_each_type_is_answered(tmp_path: Path) -> None:
    late = [
        Suspicion(type=kind, explanation=f"{kind} {number}", why="A machine may stand still.")
        for kind in ("C16", "L12")
        for number in range(2)
    ]
    suspected = [("invariants", "C16", "C16 0"), ("invariants", "L12", "L12 0")]
    assert answered(tmp_path, CheckerResult(valid=True, suspicions=late)) == [[], suspected]
    lost = [Anomaly(type="I10", explanation="It is gone.")]
    refuted = CheckerResult(valid=False, anomalies=lost, suspicions=late)
    assert answered(tmp_path, refuted) == [[("invariants", "I10", "It is gone.")], suspected]
