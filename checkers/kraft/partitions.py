"""Responses to clients that act as brokers and operators are explained by the history (T5).

Judges only the histories of the workload ``partitions``, so it needs neither traces nor captured
messages. C1: broker epochs increase, and one process at a time has a broker id. C8: an accepted
ISR was proposed against the newest known epochs. C5: epochs of a partition never decrease. C11:
producer ids are assigned once. I24: no broker is unfenced before it has caught up. The rules for
records are in :mod:`checkers.kraft.invariants`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from kraftwreck.checkers.calls import Call
from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.kraft.limits import MS, SESSION_MS
from kraftwreck.checkers.kraft.recorded.settings import setting
from kraftwreck.checkers.recorded.clocks import fastest
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.histories.operation import OK
from kraftwreck.histories.verdict import CheckerResult

_BEHIND = frozenset({"fenced-leader-epoch", "invalid-update-version"})
"""Errors for a proposer with old epochs."""

_REPORTED = frozenset({"beat", "twin", "restart"})


class Registered(NamedTuple):
    """A registration that was acknowledged."""

    call: Call
    incarnation: str
    epoch: int


class Told(NamedTuple):
    """The epochs of a partition in an answer, -1 where it has none."""

    call: Call
    leader_epoch: int
    partition_epoch: int


def check(run: RunData) -> CheckerResult:
    """Judge the history; valid if there is nothing to judge."""
    calls, findings = run.calls, Findings()
    registrations = _registrations(calls)
    _broker_epochs(registrations, findings)
    _twins(run, registrations, findings)
    _unfenced(calls, findings)
    blocks = _blocks(calls, findings)
    accepted = [c for c in calls if c.f == "isr" and c.type == OK and "new" in c.value]
    _accepted(accepted, registrations, findings)
    _ahead(calls, findings)
    _grow(_told(calls), findings)
    return CheckerResult(
        valid=not findings.anomalies,
        anomalies=findings.anomalies,
        stats={
            "registrations": sum(len(each) for each in registrations.values()),
            "accepted_proposals": len(accepted),
            "producer_id_blocks": blocks,
            "broken": dict(findings.counts),
        },
    )


def reports(calls: Sequence[Call]) -> Iterator[tuple[Call, dict[str, Any]]]:
    """Yield the reports of each scripted broker, with their operations."""
    for call in calls:
        if call.f in _REPORTED and isinstance(call.value, list):
            for report in call.value:
                yield call, report


def _registrations(calls: Sequence[Call]) -> dict[int, list[Registered]]:
    """Return the acknowledged registrations by broker id, in order of completion."""
    found: dict[int, list[Registered]] = {}
    for call, report in reports(calls):
        if report["did"] == "register" and "epoch" in report:
            told = Registered(call, report["incarnation"], report["epoch"])
            found.setdefault(report["broker"], []).append(told)
    for each in found.values():
        each.sort(key=lambda told: told.call.completion)
    return found


def _broker_epochs(registrations: dict[int, list[Registered]], findings: Findings) -> None:
    """C1: a later registration has a later epoch, unless it is the same process again."""
    for broker, told in sorted(registrations.items()):
        for earlier, later in pairwise(told):
            if later.call.start < earlier.call.completion:
                continue
            same = earlier.incarnation == later.incarnation
            if later.epoch < earlier.epoch or (later.epoch == earlier.epoch and not same):
                findings.add(
                    "C1",
                    f"Broker {broker} was registered with epoch {later.epoch} after epoch "
                    f"{earlier.epoch}, as {'the same' if same else 'another'} process.",
                    operations=earlier.call.indices + later.call.indices,
                )


def _twins(run: RunData, registrations: dict[int, list[Registered]], findings: Findings) -> None:
    """C1: a broker id stays with its process until the session of that process has ended.

    Every contact begins a session, and so does a controller that takes over.
    """
    # By the fastest clock of any controller: the clock of this controller is not known here.
    session = int(setting(run.test, "session_timeout_ms", SESSION_MS) * MS * fastest(run.test))
    contacts: dict[int, list[tuple[Call, int]]] = {}
    for call, report in reports(run.calls):
        if report["did"] == "heartbeat" and "fenced" in report:
            contacts.setdefault(report["broker"], []).append((call, report["epoch"]))
    for broker, told in registrations.items():
        for new in told:
            completed = new.call.completed
            for call, epoch in contacts.get(broker, ()):
                before = call.completion < new.call.start and epoch < new.epoch
                if before and completed is not None and completed < call.invoked + session:
                    # An unregistered process no longer has a session.
                    if _unregistered(run.calls, broker, call, new.call):
                        continue
                    findings.add(
                        "C1",
                        f"Broker {broker} was registered again (epoch {new.epoch}) "
                        f"{(completed - call.invoked) / 1e9:.2f} s after a heartbeat of epoch "
                        f"{epoch}, whose session lasts {session / 1e9:g} s.",
                        operations=call.indices + new.call.indices,
                    )
                    break


def _unregistered(calls: Sequence[Call], broker: int, after: Call, before: Call) -> bool:
    """Whether the broker may have been unregistered between two operations."""
    return any(
        c.f == "unregister"
        and c.start < before.completion
        and c.end > after.start
        and (c.type == "info" or (c.type == OK and c.value["broker"] == broker))
        for c in calls
    )


def _unfenced(calls: Sequence[Call], findings: Findings) -> None:
    """I24: a broker that has not applied its own registration stays fenced."""
    for call, report in reports(calls):
        if report.get("fenced") is False and report["offset"] < report["epoch"]:
            findings.add(
                "I24",
                f"Broker {report['broker']} (epoch {report['epoch']}) was unfenced although it "
                f"knew the metadata only up to offset {report['offset']}.",
                operations=call.indices,
            )


def _blocks(calls: Sequence[Call], findings: Findings) -> int:
    """C11: blocks of producer ids do not overlap."""
    given = sorted((c.value["start"], c.value["length"], c.start, c) for c in calls if _is_block(c))
    for (start, length, _, earlier), (following, _, _, later) in pairwise(given):
        if following < start + length:
            findings.add(
                "C11",
                f"Producer ids from {following} on were assigned twice.",
                operations=earlier.indices + later.indices,
            )
    return len(given)


def _is_block(call: Call) -> bool:
    return call.f == "ids" and call.type == OK


# --- partitions ---------------------------------------------------------------------------


def _accepted(
    accepted: list[Call], registrations: dict[int, list[Registered]], findings: Findings
) -> None:
    """C8, C2: accepted proposals were made against the newest known epochs."""
    taken: dict[tuple[str, int, int], Call] = {}
    newest: dict[tuple[str, int], list[Told]] = {}
    for call in sorted(accepted, key=lambda c: c.completion):
        proposal, new = call.value, call.value["new"]
        key = proposal["id"], proposal["partition"]
        where = f"{proposal['topic']}-{proposal['partition']}"
        told = f"The ISR {new['isr']} of {where} proposed by broker {proposal['broker']}"
        if proposal["how"] in ("stranger", "not-leader", "ahead"):
            findings.add("C8", f"{told} ({proposal['how']}) was accepted.", operations=call.indices)
        base, got = proposal["base"], new["partition_epoch"]
        if got not in (base, base + 1):
            findings.add(
                "C8",
                f"{told} at partition epoch {base} was accepted as epoch {got}.",
                operations=call.indices,
            )
        for known in newest.get(key, ()):
            if known.call.end < call.start and (
                base < known.partition_epoch or proposal["leader_epoch"] < known.leader_epoch
            ):
                findings.add(
                    "C8",
                    f"{told} at leader epoch {proposal['leader_epoch']}, partition epoch {base} "
                    f"was accepted after one was answered with epochs {known.leader_epoch} and "
                    f"{known.partition_epoch}.",
                    operations=known.call.indices + call.indices,
                )
                break
        newest.setdefault(key, []).append(Told(call, new["leader_epoch"], got))
        if got == base + 1:
            other = taken.setdefault((*key, got), call)
            if other is not call:
                findings.add(
                    "C8",
                    f"Two ISRs of {where} were accepted as partition epoch {got}.",
                    operations=other.indices + call.indices,
                )
        senders = [[proposal["broker"], proposal["broker_epoch"]]]
        _current(call, told, senders, "C2", registrations, findings)
        _current(call, told, proposal["members"], "C8", registrations, findings)


def _ahead(calls: Sequence[Call], findings: Findings) -> None:
    """C8: a controller whose partition epoch is older than the proposal's answers NOT_CONTROLLER.

    A leader that gets an error for old epochs instead would discard its newer state.
    """
    for call in calls:
        if call.f != "isr" or not isinstance(call.value, dict) or call.value["how"] != "ahead":
            continue
        if call.error in _BEHIND:
            findings.add(
                "C8",
                f"An ISR of {call.value['topic']}-{call.value['partition']} that was proposed at "
                f"partition epoch {call.value['base']}, above all earlier ones, was refused as "
                f"{call.error}.",
                operations=call.indices,
            )


def _current(
    call: Call,
    told: str,
    named: Sequence[Sequence[int]],
    kind: str,
    registrations: dict[int, list[Registered]],
    findings: Findings,
) -> None:
    """Brokers must not have registered again since the epoch that the proposal names."""
    for broker, epoch in named:
        for later in registrations.get(broker, ()):
            if epoch != -1 and later.epoch > epoch and later.call.completion < call.start:
                findings.add(
                    kind,
                    f"{told} names epoch {epoch} of broker {broker}, which had registered with "
                    f"epoch {later.epoch} before, but was accepted.",
                    operations=later.call.indices + call.indices,
                )
                return


def _told(calls: Sequence[Call]) -> dict[tuple[str, int], list[Told]]:
    """Return the epochs in answers, by topic id and partition."""
    found: dict[tuple[str, int], list[Told]] = {}
    for call in calls:
        if call.type != OK:
            continue
        if call.f == "describe" and isinstance(call.value, dict):
            for number, (_, leader_epoch, _, _) in enumerate(call.value["partitions"]):
                key = call.value["id"], number
                found.setdefault(key, []).append(Told(call, leader_epoch, -1))
        elif call.f == "isr" and "new" in call.value:
            new = call.value["new"]
            key = call.value["id"], call.value["partition"]
            told = Told(call, new["leader_epoch"], new["partition_epoch"])
            found.setdefault(key, []).append(told)
    return found


def _grow(told: dict[tuple[str, int], list[Told]], findings: Findings) -> None:
    """C5: leader epochs and partition epochs never decrease, in real time."""
    for (topic_id, number), each in told.items():
        where = f"of partition {number} of topic id {topic_id}"
        leader = [(t.call, t.leader_epoch) for t in each]
        _never_back(f"The leader epoch {where}", leader, findings)
        partition = [(t.call, t.partition_epoch) for t in each if t.partition_epoch >= 0]
        _never_back(f"The partition epoch {where}", partition, findings)


def _never_back(what: str, told: list[tuple[Call, int]], findings: Findings) -> None:
    ended = sorted(told, key=lambda t: t[0].end)
    place = 0
    highest: tuple[Call, int] | None = None
    for call, epoch in sorted(told, key=lambda t: t[0].start):
        while place < len(ended) and ended[place][0].end < call.start:
            if highest is None or ended[place][1] > highest[1]:
                highest = ended[place]
            place += 1
        if highest is not None and epoch < highest[1]:
            findings.add(
                "C5",
                f"{what} was {highest[1]} and is {epoch} later.",
                operations=highest[0].indices + call.indices,
            )
