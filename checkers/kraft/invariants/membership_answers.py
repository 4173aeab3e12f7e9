"""Answers to requests that change or describe the quorum: C22 MembershipAnswered.

A refusal of AddRaftVoter or RemoveRaftVoter (KIP-853) must be true of the voters that the leader
uses, and a success changes only the named voter. DescribeQuorum (KIP-595, KIP-836) returns the
leader's own epoch, voters and high watermark.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from kraftwreck.checkers.kraft.invariants.evidence import GAPS, Evidence
from kraftwreck.checkers.kraft.invariants.refused_upgrades import (
    raises_kraft_version,
    refused_in_vain,
)
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.invariants.standing import Standing, told
from kraftwreck.checkers.kraft.quorum_model.quorum import VoterSet
from kraftwreck.checkers.kraft.quorum_model.replica import NO_DIRECTORY
from kraftwreck.checkers.kraft.quorum_model.transitions import LEADER
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.message import Message
from kraftwreck.nodes.protocol import errors

ADD, REMOVE, DESCRIBE = "AddRaftVoter", "RemoveRaftVoter", "DescribeQuorum"
UPDATE = "UpdateFeatures"

_ANY_TIME = frozenset((errors.REQUEST_TIMED_OUT, errors.BROKER_NOT_AVAILABLE))
"""Refusals that do not depend on the voters."""


@rule(
    "C22",
    "MembershipAnswered",
    "Requests about the quorum are answered from the leader's voters and change only the named "
    "voter. Valid kraft.version upgrades succeed.",
    "T1 T4",
    nothing="no request changed or described the quorum",
)
def check(evidence: Evidence, report: Report) -> None:
    """Judge C22."""
    if evidence.trace.gaps:
        report.unseen("C22", GAPS)
        return
    standing = Standing.of(evidence)
    for api in (ADD, REMOVE, DESCRIBE, UPDATE):
        for message in evidence.of(api):
            # Brokers only forward; the answer is judged at the controller that gave it.
            if not message.is_exchange or evidence.is_broker(message):
                continue
            if not standing.positions(message):
                continue
            if api == UPDATE:
                if not raises_kraft_version(message.request):
                    continue
                was_refused = _code(message) == errors.INVALID_UPDATE_VERSION
                wrong = refused_in_vain(evidence, standing, message) if was_refused else None
            elif api == DESCRIBE:
                settled = not evidence.trace.voter_changes
                wrong = _described(message, standing, evidence, settled=settled)
            else:
                wrong = _changed(message, standing, evidence.cluster_id)
            report.held("C22")
            if wrong is not None:
                report.broken("C22", f"{evidence.name(message.replier)} answers {api} {wrong}")


def _value(message: Any, *names: str) -> Any:
    """Return a field of a client's request or answer (by name), or of a node's."""
    for name in names:
        if isinstance(message, dict):
            if name in message:
                return message[name]
        elif hasattr(message, name):
            return getattr(message, name)
    raise KeyError(names[0])


def _code(message: Message) -> Any:
    return _value(message.response, "error_code", "error")


def _changed(message: Message, standing: Standing, cluster_id: str | None) -> str | None:
    request = message.request
    code = _code(message)
    voter = (
        _value(request, "voter_id"),
        bytes(_value(request, "voter_directory_id", "directory")).hex(),
    )
    counted = standing.voters(message)
    sets = [voters for voters, _ in counted]
    what = f"of node {voter[0]} (directory {voter[1]}) with {errors.error_name(code)}"
    voters_told = f"; the voters were {sorted(sets[-1]) if sets else []}."
    if code in _ANY_TIME or not sets:
        return None
    meant = _value(request, "cluster_id")
    if meant is not None and cluster_id is not None:
        if (code == errors.INCONSISTENT_CLUSTER_ID) != (meant != cluster_id):
            return f"{what}; it was addressed to cluster {meant!r}, and is of {cluster_id!r}."
        if meant != cluster_id:
            return None
    if code == errors.NOT_LEADER_OR_FOLLOWER:
        stood = standing.positions(message)
        if any(at.state != LEADER for at in stood):
            return None
        return f"{what}; it was {told(stood)}."
    if code == errors.UNSUPPORTED_VERSION:
        return None if any(level == 0 for _, level in counted) else what + voters_told
    if code == errors.NONE:
        return None if _done(message.api, voter, sets) else what + voters_told
    if message.api == ADD:
        known = any(voter[0] == each[0] for voters in sets for each in voters)
        odd = (
            voter[0] < 0
            or voter[1] == NO_DIRECTORY
            or not _value(request, "listeners", "endpoints")
        )
        right = known if code == errors.DUPLICATE_VOTER else odd
        right = right and code in (errors.DUPLICATE_VOTER, errors.INVALID_REQUEST)
    else:
        right = (code == errors.VOTER_NOT_FOUND and any(voter not in each for each in sets)) or (
            code == errors.INVALID_REQUEST and any(len(each) == 1 for each in sets)
        )
    return None if right else what + voters_told


def _done(api: str, voter: tuple[int, str], sets: list[VoterSet]) -> bool:
    """Whether only this voter came or went during the request; the last voter stays."""
    if api == ADD:
        return any(
            voter not in before and after == before | {voter} for before, after in pairwise(sets)
        )
    return any(
        after and voter not in after and before == after | {voter}
        for before, after in pairwise(sets)
    )


def _described(
    message: Message, standing: Standing, evidence: Evidence, *, settled: bool
) -> str | None:
    """Judge DescribeQuorum; ``settled``: the voters never changed, so all majorities are of one
    set."""
    stood, counted = standing.positions(message), standing.voters(message)
    if message.response.get("error_code") != errors.NONE:
        return None
    for topic in message.response["topics"]:
        for part in topic["partitions"]:
            code, says = part["error_code"], (part["leader_epoch"], part["leader_id"])
            if code == errors.NOT_LEADER_OR_FOLLOWER:
                if all(at.state == LEADER for at in stood):
                    return f"as if it did not lead; it was {told(stood)}."
                continue
            if code != errors.NONE:
                continue
            led = [(at.epoch, at.leader) for at in stood if at.state == LEADER]
            if says not in led:
                return f"that node {says[1]} leads epoch {says[0]}; it was {told(stood)}."
            wrong = _voters(part, [voters for voters, _ in counted])
            if wrong is not None:
                return wrong
            ends = [each["log_end_offset"] for each in part["current_voters"]]
            most = max((end for _, end in standing.tips(message)), default=-1)
            if max([part["high_watermark"], *ends], default=-1) > most >= 0:
                return (
                    f"with high watermark {part['high_watermark']} and voters' ends {ends}; its "
                    f"own log ended at {most}."
                )
            if settled and not _reached(part, message, evidence):
                return (
                    f"with high watermark {part['high_watermark']}, which no majority of the "
                    f"voters' ends {ends} has reached."
                )
    return None


def _reached(part: dict[str, Any], message: Message, evidence: Evidence) -> bool:
    """Whether a majority of the voters has, or once had, all records below the high watermark.

    As in Kafka, which only warns, a Fetch that arrives late lowers the known log end of its
    sender. The high watermark never goes back.
    """
    mark, epoch = part["high_watermark"], part["leader_epoch"]
    ends = {each["replica_id"]: each["log_end_offset"] for each in part["current_voters"]}
    there = {voter for voter, end in ends.items() if end >= mark}

    def are_enough() -> bool:
        return len(there & ends.keys()) > len(ends) // 2

    if mark < 0 or are_enough():
        return True
    for fetch in evidence.of("Fetch"):
        request = fetch.request
        if (
            request is not None
            and (fetch.replier, request.current_leader_epoch) == (message.replier, epoch)
            and fetch.sent <= message.time
            and request.fetch_offset >= mark
        ):
            there.add(fetch.asker)
    return are_enough()


def _voters(part: dict[str, Any], sets: list[VoterSet]) -> str | None:
    """The voters are those in force; a directory that the set leaves open may be filled in."""
    says = {
        v["replica_id"]: bytes(v["replica_directory_id"]).hex()
        for v in part["current_voters"]
        if "replica_directory_id" in v
    }
    ids = {v["replica_id"] for v in part["current_voters"]}
    for voters in sets:
        directories = dict(voters)
        if ids == directories.keys() and all(
            directories[i] in (NO_DIRECTORY, told_, "") or told_ == NO_DIRECTORY
            for i, told_ in says.items()
        ):
            return None
    return f"with voters {says or sorted(ids)}; they were {sorted(sets[-1]) if sets else []}."
