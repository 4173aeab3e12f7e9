"""Acknowledged operations on metadata: C9 AckedIsCommitted and C10 AdminLinearizable.

The checkers ``committed`` and ``linearizable`` judge both from the client's own view. This module
compares acknowledged operations with the records of the committed log.
"""

from __future__ import annotations

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import NO_LOG, Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.invariants.topic_rules import TopicRules
from kraftwreck.checkers.kraft.rule import judges
from kraftwreck.histories.operation import OK

SETTING = "retention.ms"
"""The topic setting that holds the value of a register."""


@judges("C9", "C10")
def check(evidence: Evidence, report: Report) -> None:
    """Judge C9; the replay judges C10 by records."""
    controller = Controller.of(evidence)
    report.unseen("C9", "no operation on metadata was acknowledged")
    report.unseen("C10", "no topic was created")
    workload = evidence.run.test.get("workload")
    if workload not in ("metadata", "partitions", "register", "requests"):
        return
    if not controller.replay.records:
        report.unseen("C9", NO_LOG)
        return
    if not evidence.log.whole or evidence.log.missing or evidence.trace.gaps:
        report.unseen("C9", "the disks no longer hold the whole committed log")
        return
    judge = _register if workload == "register" else _topic
    for call in evidence.run.calls:
        if call.type == OK:
            missing = judge(call, controller.topics, report)
            if missing is not None:
                report.broken(
                    "C9",
                    f"Operation {call.f} of {call.key!r} was acknowledged, and the committed log "
                    f"holds no record {missing}.",
                    operations=call.indices,
                )


def _topic(call: Call, topics: TopicRules, report: Report) -> str | None:
    if call.f not in ("create", "delete") or not isinstance(call.key, str):
        return None
    report.held("C9")
    known = topics.created if call.f == "create" else topics.removed
    if call.key in known:
        return None
    return f"that {call.f}s topic {call.key}"


def _register(call: Call, topics: TopicRules, report: Report) -> str | None:
    name = f"register-{call.key}"
    if call.f == "delete":
        report.held("C9")
        return None if name in topics.removed else f"that deletes topic {name}"
    if call.f == "write" and call.argument is not None:
        value = str(call.argument)
    elif call.f == "cas" and isinstance(call.argument, list | tuple) and len(call.argument) == 2:
        value = str(call.argument[1])
    else:
        return None
    report.held("C9")
    if (name, SETTING, value) in topics.configs:
        return None
    return f"that sets {SETTING} of topic {name} to {value}"
