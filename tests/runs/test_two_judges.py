"""Runs of ``append`` on foreign systems are judged by two engines."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.checkers.elle.binding import VARIABLE
from kraftwreck.checkers.modelled import parse
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.harness.options import OptionError
from kraftwreck.histories.operation import Op, OpType
from kraftwreck.histories.verdict import Verdict
from kraftwreck.runs.two_judges import ELLES, OURS, require_elle, wanted, with_elle

GOOD, BAD = True, False
FAKE = {
    GOOD: {"valid?": True, "anomaly-types": [], "anomalies": {}},
    BAD: {
        "valid?": False,
        "anomaly-types": ["G1a"],
        "anomalies": {"G1a": []},
        "not": ["read-committed"],
    },
}


def run_of(good: bool) -> RunData:
    """Return a run with a read of a committed value, or of an aborted one."""
    written: list[Any] = ["append", "x", 1]
    read: list[Any] = ["r", "x", [1]]
    end: OpType = "ok" if good else "fail"
    ops = [
        Op(index=0, process=0, type="invoke", f="txn", value=[written], time=0),
        Op(index=1, process=0, type=end, f="txn", value=[written], time=1),
        Op(index=2, process=1, type="invoke", f="txn", value=[["r", "x", None]], time=2),
        Op(index=3, process=1, type="ok", f="txn", value=[read], time=3),
    ]
    return RunData.from_memory(ops, [], [], [], {})


def judged(run: RunData) -> Verdict:
    """Return the verdict of our engine."""
    return Verdict.of({OURS: parse(OURS)(run)})


def name_an_elle(folder: Path, says: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a program that always gives this answer be the real Elle."""
    program = folder / "elle-cli"
    program.write_text(f"#!/usr/bin/env python3\nprint({json.dumps(FAKE[says])!r})\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(VARIABLE, str(program))


@pytest.mark.parametrize("good", [GOOD, BAD])
def test_an_elle_that_agrees_confirms_the_verdict(
    good: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_an_elle(tmp_path, good, monkeypatch)
    run = run_of(good)
    verdict = with_elle(run, judged(run))
    assert verdict.valid is good
    assert {name: result.valid for name, result in verdict.checkers.items()} == {
        OURS: good,
        ELLES: good,
    }


@pytest.mark.parametrize("good", [GOOD, BAD])
def test_a_difference_is_unknown_with_both_answers(
    good: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_an_elle(tmp_path, not good, monkeypatch)
    run = run_of(good)
    verdict = with_elle(run, judged(run))
    assert verdict.valid == "unknown"
    for name in (OURS, ELLES):
        text = verdict.checkers[name].error or ""
        assert f"kraftwreck: {'valid' if good else 'INVALID (G1a'}" in text
        assert f"Elle: {'INVALID' if good else 'valid'}" in text


def test_an_elle_that_is_missing_leaves_the_run_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "no-such-elle")
    run = run_of(GOOD)
    verdict = with_elle(run, judged(run))
    assert verdict.valid == "unknown"
    assert "there is no no-such-elle" in (verdict.checkers[ELLES].error or "")


def test_only_runs_of_foreign_systems_on_hosts_have_two_judges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Own:
        replayable = True

    monkeypatch.setenv(VARIABLE, "elle-cli")
    assert wanted({"simulated": False}, object())
    assert not wanted({"simulated": False}, Own())
    assert not wanted({"simulated": True}, object())
    monkeypatch.delenv(VARIABLE)
    assert not wanted({"simulated": False}, object())


WRONG = {
    "missing": ("no-such-elle", "there is no no-such-elle"),
    "silent": ("true", "KRAFTWRECK_ELLE: "),
    "no jar": ("/no/such/elle.jar", "there is no /no/such/elle.jar"),
}


@pytest.mark.parametrize(("command", "why"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_elle_is_refused_in_one_line_before_hosts_are_up(
    command: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, command)
    with pytest.raises(OptionError) as refused:
        require_elle(object(), ("stats", OURS))
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
    require_elle(object(), ("stats",))


@pytest.mark.parametrize("says", [GOOD, BAD])
def test_an_elle_is_tried_with_a_valid_history(
    says: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_an_elle(tmp_path, says, monkeypatch)
    if says is GOOD:
        require_elle(object(), (OURS,))
        return
    with pytest.raises(OptionError, match="it calls a valid history INVALID"):
        require_elle(object(), (OURS,))
