"""Proof and suspicion: what a limit in time proves in virtual time, and on hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.kraft import limits, recovery
from kraftwreck.checkers.kraft.invariants import check
from kraftwreck.checkers.kraft.invariants.table import TABLE
from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.checkers.registry import check as judge
from kraftwreck.checkers.suspicion import Limit
from kraftwreck.histories.verdict import CheckerResult, Verdict
from tests.checkers.breaks import in_virtual_time

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "invariants.md"
HOSTS: dict[str, Any] = {"simulated": False}
SECOND = 1_000_000_000


def busy(quorum: Any, capture: Capture) -> None:
    """n2 sends one request more in a second than any node may."""
    quorum.one_epoch()
    body: dict[str, Any] = {"topics": []}
    for number in range(limits.MOST_REQUESTS + 1):
        capture.api(SECOND + number, 2, 1, "DescribeQuorum", body, None)


def test_a_limit_in_time_is_a_proof_in_virtual_time_and_a_suspicion_on_hosts(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    busy(quorum, capture)
    run = make_run(None, quorum, capture=capture, simulated=False)
    result = check(run)
    assert (result.valid, result.anomalies, result.error) == (True, [], None)
    (suspicion,) = result.suspicions
    assert (suspicion.type, suspicion.why) == ("L8", limits.BUSY.why)
    told = result.stats["invariants"]["L8"]
    assert (told["status"], told["facts"], told["suspicions"]) == ("suspected", 1, 1)
    virtual = check(in_virtual_time(run))
    assert (virtual.valid, virtual.suspicions) == (False, [])
    assert virtual.stats["invariants"]["L8"]["status"] == "broken"


def test_a_run_that_does_not_say_how_time_passed_is_one_on_hosts(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    busy(quorum, capture)
    result = check(make_run(None, quorum, capture=capture))
    assert (result.valid, len(result.suspicions)) == (True, 1)


def test_a_proof_beside_a_suspicion_is_invalid(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    busy(quorum, capture)
    quorum.event("n3", "fatal", {"reason": "boom"})
    result = check(make_run(None, quorum, capture=capture, simulated=False))
    assert result.valid is False
    assert [a.type for a in result.anomalies] == ["I29"]
    assert [s.type for s in result.suspicions] == ["L8"]


def test_messages_that_were_not_kept_prove_no_silence(
    quorum: Any, capture: Capture, make_run: Callable[..., Any]
) -> None:
    """With all messages, the steps of the leader prove that it ran beyond its deadline."""
    quorum.one_epoch()
    for _ in range(10):
        quorum.time += 1
        quorum.append("n1", 1)
    capture.own_inputs = True
    whole = check(make_run(None, quorum, capture=capture, simulated=False))
    assert [anomaly.type for anomaly in whole.anomalies] == ["I18"]
    capture.dropped = 1
    partly = check(make_run(None, quorum, capture=capture, simulated=False))
    assert (partly.valid, partly.anomalies, partly.suspicions) == ("unknown", [], [])


def test_a_limit_that_a_valid_run_promises_leaves_it_unknown(
    history: Any, quorum: Any, make_run: Callable[..., Any]
) -> None:
    quorum.one_epoch()
    for second in range(1, 40, 2):
        history.time = second
        history.did(0, "write", 1, kind="fail")
    run = make_run(history, quorum, simulated=False)
    result = recovery.check(run)
    assert result.valid == "unknown"
    assert result.error == "no-recovery exceeded, which is no proof on hosts"
    verdict = judge(run, ["recovery"])
    assert verdict.in_words == "unknown, 1 suspicion: recovery: no-recovery"
    assert recovery.check(in_virtual_time(run)).valid is False


def test_suspicions_and_proofs_of_one_type_are_kept_apart() -> None:
    """Ten suspicions must not displace a proof."""
    findings = Findings(HOSTS)
    for number in range(15):
        findings.add("I17", f"late {number}", limit=limits.STICKINESS)
    findings.add("I18", "proven")
    other = Findings(HOSTS)
    other.add("I17", "late elsewhere", limit=limits.STICKINESS)
    findings.merge(other)
    result = findings.judged("a doubt", {})
    assert (result.valid, result.error) == (False, "a doubt")
    assert [a.explanation for a in result.anomalies] == ["proven"]
    assert (len(result.suspicions), findings.suspected) == (10, {"I17": 16})


@pytest.mark.parametrize(
    ("limit", "doubt", "valid"),
    [
        (limits.RETENTION, None, True),
        (limits.RETENTION, "no trace", "unknown"),
        (limits.STAYS, None, "unknown"),
    ],
)
def test_a_suspicion_alone_is_never_invalid(limit: Any, doubt: str | None, valid: Any) -> None:
    findings = Findings(HOSTS)
    findings.add(limit.rules[0], "late", limit=limit)
    assert findings.judged(doubt, {}).valid == valid
    merged = Findings(HOSTS)
    merged.merge(findings)
    assert merged.judged(doubt, {}).valid == valid


def test_results_of_earlier_releases_have_no_suspicions() -> None:
    old = msgspec.json.decode(b'{"valid": true, "stats": {}}', type=CheckerResult)
    assert old.suspicions == []
    assert Verdict.of({"old": old}).in_words == "valid"


def test_suspicions_survive_the_results_file() -> None:
    findings = Findings(HOSTS)
    findings.add("L11", "It stays.", operations=[3], limit=limits.RETENTION)
    verdict = Verdict.of({"invariants": findings.judged(None, {})})
    again = msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict)
    assert again == verdict
    assert again.suspected == {"invariants: L11": 1}


def test_the_page_lists_all_limits() -> None:
    assert "\n".join(limits.table()) in PAGE.read_text()
    listed = {id(limit) for limit in limits.LIMITS}
    known = [value for value in vars(limits).values() if isinstance(value, Limit)]
    assert {id(limit) for limit in known} == listed
    ids = {invariant.id for invariant in TABLE} | {"no-recovery"}
    assert {rule for limit in limits.LIMITS for rule in limit.rules} <= ids
