"""Brokers' requests and their effects, by captured messages: C1 (sessions), C7, C11 (blocks of
producer ids), I24 (when brokers are unfenced)."""

from __future__ import annotations

from itertools import pairwise

from kraftwreck.checkers.kraft.controller_model.exchanges import Commits
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.invariants.sessions import session_ns
from kraftwreck.checkers.kraft.recorded.arrived import all_arrived
from kraftwreck.checkers.kraft.rule import judges
from kraftwreck.histories.message import Message


@judges("C1", "C7", "C11", "I24")
def check(evidence: Evidence, report: Report) -> None:
    """Judge the answers to brokers."""
    if not evidence.captured:
        return
    controller = Controller.of(evidence)
    _twins(evidence, report, controller)
    _unfenced(evidence, report, controller)
    _blocks(evidence, report)
    _unclean(evidence, report, controller)


def _unclean(evidence: Evidence, report: Report, controller: Controller) -> None:
    """C7: a broker after an unclean stop may have lost its log, so it is not eligible to lead."""
    for message in evidence.of("BrokerRegistration"):
        if not _succeeded(message):
            continue
        body, answer = message.request, message.response
        broker_id, epoch = body["broker_id"], answer["broker_epoch"]
        known = controller.brokers.kept.get((broker_id, epoch))
        if known is not None and body["previous_broker_epoch"] != known[0]:
            report.broken(
                "C7",
                f"Broker {broker_id} registers (epoch {epoch}) after an unclean stop (it names "
                f"epoch {body['previous_broker_epoch']}, the last one is {known[0]}), but stays "
                f"eligible to lead {known[1]}.",
            )


def _twins(evidence: Evidence, report: Report, controller: Controller) -> None:
    """C1: a broker id stays with its incarnation until the session of that incarnation has ended.

    A session begins with each answered heartbeat, also that of a fenced broker, and again with the
    claim of another controller. On hosts only the clock of one controller is exact, so there it
    must have answered both the heartbeat and the registration.
    """
    if not controller.whole:
        return  # It may have been unregistered meanwhile.
    commits = Commits.of(evidence)
    session = session_ns(evidence)
    found = [] if evidence.own_inputs else evidence.trace.claims
    claims = [(event.node, at) for at, event in evidence.dated(found)]
    beats: dict[int, list[Message]] = {}
    for message in evidence.of("BrokerHeartbeat"):
        if _succeeded(message):
            beats.setdefault(message.request["broker_id"], []).append(message)
    for message in filter(_succeeded, evidence.of("BrokerRegistration")):
        broker_id, epoch = message.request["broker_id"], message.response["broker_epoch"]
        node, exchange = evidence.name(message.replier), commits.exchange(message)
        registered = controller.history.brokers.get(broker_id)
        if registered is None or exchange is None:
            continue
        for beat in beats.get(broker_id, ()):
            since, before = beat.sent, beat.request["broker_epoch"]
            over = evidence.after(node, since, session) <= message.time
            if before >= epoch or beat.time > message.sent or over:
                continue
            taken_over = any(who == node and at > beat.time for who, at in claims)
            known = commits.exchange(beat)
            if known is None or not (beat.replier == message.replier or taken_over):
                continue
            if None in list(registered.among(known.low, exchange.high)):
                continue  # An unregistered broker no longer has a session.
            report.broken(
                "C1",
                f"{node} registers broker {broker_id} again (epoch {epoch}) "
                f"{(message.time - since) / 1e9:.2f} s after a heartbeat of epoch {before}, whose "
                f"session lasts {session / 1e9:g} s.",
            )
            break


def _succeeded(message: Message) -> bool:
    """Whether a request of a broker was answered without an error."""
    return bool(message.request and message.response) and message.response["error_code"] == 0


def _unfenced(evidence: Evidence, report: Report, controller: Controller) -> None:
    """I24: a broker is unfenced once it has reported that it applied its own registration.

    The controller that appends the record has got the heartbeat before, by its own clock.
    """
    if not all_arrived(evidence.run):
        return
    commits = Commits.of(evidence)
    reported: dict[tuple[int, int], int] = {}
    for message in evidence.of("BrokerHeartbeat"):
        body = message.request
        if body is not None and body["current_metadata_offset"] >= body["broker_epoch"]:
            key = body["broker_id"], body["broker_epoch"]
            at = message.begun
            reported[key] = min(at, reported.get(key, at))
    for broker_id, versions in controller.history.brokers.items():
        for end, before, after in versions.changes():
            if before is None or after is None or before.epoch != after.epoch:
                continue
            if before.fenced and not after.fenced:
                report.held("I24")
                at = reported.get((broker_id, after.epoch), 1 << 62)
                if at > commits.written(end) + commits.blur:
                    report.broken(
                        "I24",
                        f"Broker {broker_id} (epoch {after.epoch}) is unfenced below offset {end} "
                        "without a heartbeat that it has applied its registration.",
                    )


def _blocks(evidence: Evidence, report: Report) -> None:
    """C11: no two blocks of producer ids overlap."""
    blocks: list[tuple[int, int]] = []
    for message in evidence.of("AllocateProducerIds"):
        if _succeeded(message):
            begin = message.response["producer_id_start"]
            blocks.append((begin, begin + message.response["producer_id_len"]))
    blocks.sort()
    report.held("C11", len(blocks))
    for (begin, end), (following, _) in pairwise(blocks):
        if following < end:
            report.broken(
                "C11",
                f"Producer ids from {following} on were assigned twice: in the blocks that begin "
                f"at {begin} and at {following}.",
            )
