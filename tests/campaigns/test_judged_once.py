"""A rule over traces that the simulator judges during the run, and checkers after it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kraftwreck.campaigns import campaign
from kraftwreck.checkers import strength
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Verdict
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.registry import simulated_workload


class Result:
    """The result of a run with these failures."""

    test: ClassVar = {"system": "kraft"}

    def __init__(self, failures: Failures) -> None:
        self.failures = failures.items

    def data(self) -> None:
        """Return nothing: the checkers are replaced."""


@pytest.mark.parametrize(
    ("kind", "traced", "own"),
    [("I5", True, 0), ("I5", False, 1), ("I6", True, 1)],
    ids=["judged-again", "by-messages", "unseen-by-checkers"],
)
def test_it_is_reported_once_whatever_the_words(
    monkeypatch: pytest.MonkeyPatch, kind: str, traced: bool, own: int
) -> None:
    found = CheckerResult(valid=False, anomalies=[Anomaly(type="I5", explanation="in its words")])
    empty = CheckerResult(valid=True)
    verdict = Verdict.of({"invariants": found, strength.NAME: empty})
    monkeypatch.setattr(campaign, "check", lambda run, names: verdict)
    failures = Failures()
    failures.add(kind, 7, "in the simulator's words", traced=traced)
    result: Any = Result(failures)
    judged = campaign.judge(result, simulated_workload("kraft", "leader"))
    assert len(judged.checkers[campaign.SIMULATOR].anomalies) == own
