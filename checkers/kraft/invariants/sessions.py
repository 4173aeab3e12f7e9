"""Sessions of brokers: C16 SessionFencing (KIP-631, KAFKA-18138).

The active controller fences a silent broker within its session timeout and some periods. The time
counts from the last contact or from the controller's claim, whichever was later. Heartbeats with
another broker epoch are none: they come from a process that was replaced. Only an active controller
that stayed alive is judged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kraftwreck.checkers.kraft.invariants.broker_rules import HOLE
from kraftwreck.checkers.kraft.invariants.controller import Controller
from kraftwreck.checkers.kraft.invariants.evidence import Evidence
from kraftwreck.checkers.kraft.invariants.report import Report
from kraftwreck.checkers.kraft.limits import (
    LINGER_MS,
    MS,
    POSSIBLE_NS,
    REGISTERED,
    REGISTERED_NS,
    SESSION,
    SESSION_LEFT,
    SESSION_MS,
    SESSION_SLACK_NS,
    SIMULATED_SESSION_SLACK_NS,
)
from kraftwreck.checkers.kraft.rule import judges
from kraftwreck.checkers.recorded.clocks import slowest
from kraftwreck.checkers.suspicion import in_virtual_time
from kraftwreck.histories.message import Message
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.protocol import errors

STOPPING = "pending-controlled-shutdown"
"""The state that a broker reports as soon as its shutdown is requested."""

_KEEP_SESSIONS = (errors.NONE, errors.REQUEST_TIMED_OUT)
"""The error codes of requests that may have begun a session."""


class _Reign(NamedTuple):
    """An active controller: from its claim to its last committed write, in ns. Its later decisions
    may have been lost."""

    node: str
    begun: int
    last: int
    event: TraceEvent


@judges("C16")
def check(evidence: Evidence, report: Report) -> None:
    """Judge C16."""
    if not evidence.captured:
        return
    contacts = _contacts(evidence)
    if not contacts:
        report.unseen("C16", "no broker sent a heartbeat")
        return
    virtual = in_virtual_time(evidence.run.test)
    bound = _longest_ns(evidence) + (SIMULATED_SESSION_SLACK_NS if virtual else SESSION_SLACK_NS)
    unfenced = _unfenced(evidence)
    report.unseen("C16", "no broker was unfenced in the part of the log that is left")
    if unfenced is None:
        report.unseen("C16", "the commit time of some registrations is unknown")
        return
    _early(evidence, report)
    known = list(reigns(evidence))
    for broker_id, messages in sorted(contacts.items()):
        for epoch, begin, end in unfenced.get(broker_id, ()):
            report.held("C16")
            times = sorted(_heard(messages, epoch))
            _judge(evidence, report, (broker_id, epoch), times, (begin, end), known, bound)


@judges("C18")
def check_ids(evidence: Evidence, report: Report) -> None:
    """C18: a broker id is free once its owner was silent for longer than a session.

    A controller that takes over gives every broker a whole session. A paused node processes its
    backlog only after it resumes.
    """
    if not evidence.captured or evidence.pauses or not Controller.of(evidence).is_whole(report):
        return
    contacts = _contacts(evidence)
    claims = [at for at, _ in evidence.dated(evidence.trace.claims)]
    for message in evidence.of("BrokerRegistration"):
        if _code(message) != errors.DUPLICATE_BROKER_REGISTRATION:
            continue
        broker_id = message.request["broker_id"]
        heard = [m.time for m in contacts[broker_id] if _code(m) in _KEEP_SESSIONS]
        since = message.sent - _longest_ns(evidence) - REGISTERED_NS
        if not any(since <= at <= message.time for at in claims + heard):
            report.broken(
                "C18",
                f"{evidence.name(message.replier)} answers BrokerRegistration: broker {broker_id} "
                "is refused as registered already, although the registered incarnation was silent "
                "for longer than a session.",
                limit=REGISTERED,
            )


def _contacts(evidence: Evidence) -> dict[int, list[Message]]:
    """Return the heartbeats and registrations by broker id."""
    found: dict[int, list[Message]] = {}
    for api in ("BrokerHeartbeat", "BrokerRegistration"):
        for message in evidence.of(api):
            if message.request is not None:
                found.setdefault(message.request["broker_id"], []).append(message)
    return found


def _heard(messages: Iterable[Message], epoch: int) -> Iterator[int]:
    """Yield when (ns) requests with a broker epoch, or registrations, may have arrived.

    They are noted when they are answered, and the answer may have waited for a commit, so any time
    between sending and answer is possible. A registration is contact whatever epoch it leads to.
    """
    for message in messages:
        if message.request.get("broker_epoch", epoch) == epoch:
            yield from range(message.begun, message.time, POSSIBLE_NS)
            yield message.time


def _code(message: Message) -> int | None:
    """Return the error code of an answered request, None without request or answer."""
    return message.response["error_code"] if message.request and message.response else None


def _longest_ns(evidence: Evidence) -> int:
    """Return how long (ns) a session may last by the slowest clock: silent brokers are looked for
    eight times in a session, and found one after the other."""
    return int(session_ns(evidence) * slowest(evidence.run.test)) * 5 // 4


def session_ns(evidence: Evidence) -> int:
    """Return the session time-out of the run's brokers."""
    return evidence.setting("session_timeout_ms", SESSION_MS) * MS


def _unfenced(evidence: Evidence) -> dict[int, list[tuple[int, int, int]]] | None:
    """Return by id in which epoch and when (ns) each broker was registered and not fenced: from the
    commit of one record until the controller appended the other. The commit of that one depends on
    other nodes."""
    chain = evidence.trace.chain
    spans: dict[int, list[tuple[int, int, int]]] = {}
    since: dict[int, tuple[int, int]] = {}
    for state in Controller.of(evidence).brokers.states:
        if state == HOLE:
            since.clear()  # Their states are unknown until the log continues.
            continue
        offset, broker_id, epoch, is_unfenced = state
        entry = chain.committed.get(offset)
        at = None if entry is None else evidence.moment(entry.event)
        if entry is None or at is None:
            return None
        if is_unfenced:
            since.setdefault(broker_id, (epoch, at))
        elif broker_id in since:
            written = evidence.moment(chain.appended(entry))
            until = at if written is None else min(at, written)
            spans.setdefault(broker_id, []).append((*since.pop(broker_id), until))
    for broker_id, begun in since.items():
        spans.setdefault(broker_id, []).append((*begun, 1 << 62))
    return spans


def reigns(evidence: Evidence) -> list[_Reign]:
    """Return the active controllers that were never paused."""
    found = []
    written = _last_written(evidence)
    for begun, claim in evidence.dated(evidence.trace.claims):
        last = written.get(claim.epoch)
        ended = evidence.moment(last)
        own = last is not None and last.node == claim.node
        if own and ended is not None and not evidence.pauses.get(claim.node):
            found.append(_Reign(claim.node, begun, ended, claim))
    return found


def _last_written(evidence: Evidence) -> dict[int, TraceEvent]:
    """Return for each epoch the node and time of the last committed batch of that epoch."""
    chain = evidence.trace.chain
    last: dict[int, tuple[int, TraceEvent]] = {}
    for base, entry in chain.committed.items():
        event, epoch = chain.appended(entry), entry.id[1]
        if event is not None and base >= last.get(epoch, (-1,))[0]:
            last[epoch] = base, event
    return {epoch: event for epoch, (_, event) in last.items()}


def _judge(
    evidence: Evidence,
    report: Report,
    broker: tuple[int, int],
    times: list[int],
    span: tuple[int, int],
    reigns: list[_Reign],
    bound: int,
) -> None:
    begin, end = span
    for reign in reigns:
        # The silence that this controller had to end: from its claim or the last contact on.
        since = max(reign.begun, begin)
        while True:
            place = bisect_right(times, since + bound)
            heard = times[place - 1] if place else -1
            if heard <= since:
                break
            since = heard
        deadline = since + bound
        if deadline < min(end, reign.last):
            report.broken(
                "C16",
                f"{reign.node}, active controller, got no request of broker {broker[0]} (epoch "
                f"{broker[1]}) for more than {bound / 1e9:.1f} s and did not fence it.",
                [reign.event],
                limit=SESSION,
            )
            return


# --- too early ----------------------------------------------------------------------------


def _early(evidence: Evidence, report: Report) -> None:
    """Check that no broker is fenced for silence too early.

    A session begins with the claim of the controller and with each contact of the broker. Brokers
    that may have sent want_fence, or are in controlled shutdown, are exempt. Only in the simulator
    it is known when a request was sent, and which node answered it.
    """
    if not in_virtual_time(evidence.run.test):
        return
    chain = evidence.trace.chain
    span = session_ns(evidence) * 3 // 4
    delay = append_ns(evidence)
    claims: dict[int, TraceEvent] = {claim.epoch: claim for claim in evidence.trace.claims}
    contacts, stopping = _contacts(evidence), _stopping(evidence)
    for offset, broker_id, epoch in Controller.of(evidence).brokers.fenced:
        entry = chain.committed.get(offset)
        if entry is None:
            continue
        written, claim = chain.appended(entry), claims.get(entry.id[1])
        at, begun = evidence.moment(written), evidence.moment(claim)
        if written is None or claim is None or at is None or begun is None:
            continue
        if written.node != claim.node:
            continue
        if stopping.get(epoch, at) < at:
            continue  # It reports its stop at once, before any answer.
        said = [m for m in contacts.get(broker_id, ()) if m.sent <= at]
        if any(_wishes(message) for message in said if at <= message.time + 2 * span):
            continue  # However late it arrived: it may have been under way for long.
        report.held("C16")
        own = evidence.trace.tracks[claim.node].id
        stopped = evidence.pauses.get(claim.node, [])
        decided = decided_at(stopped, at, delay)
        heard = [
            message.sent
            for message in said
            if message.replier == own
            and message.time <= decided
            and message.api == "BrokerHeartbeat"
            and message.request["broker_epoch"] == epoch
            and _code(message) == errors.NONE
        ]
        since = max([decided_at(stopped, begun, delay), *heard])
        if evidence.after(claim.node, since, span) > at:
            report.broken(
                "C16",
                f"{claim.node} fences broker {broker_id} (epoch {epoch}) at offset {offset}, "
                f"{(at - begun) / 1e9:.2f} s after its claim and {(at - since) / 1e9:.2f} s after "
                f"the last contact; a session lasts {session_ns(evidence) / 1e9:g} s.",
                [claim, written],
                limit=SESSION_LEFT,
            )


def _stopping(evidence: Evidence) -> dict[int, int]:
    """Return by broker epoch when (ns) brokers reported that they shut down."""
    told = (event for event in evidence.run.events if event.kind == "broker")
    stops = evidence.dated(event for event in told if event.detail["state"] == STOPPING)
    return {event.detail["broker_epoch"]: at for at, event in stops}


def decided_at(stopped: list[tuple[int, int]], told: int, delay: int) -> int:
    """Return the earliest time (ns) of a decision that was reported at ``told``.

    That is ``delay`` before the report. If the process was ``stopped`` meanwhile, it is ``delay``
    before the stop.
    """
    moment = told - delay
    for begin, end in sorted(stopped, reverse=True):
        if begin <= told and end >= moment:
            moment = min(moment, begin - delay)
    return moment


def append_ns(evidence: Evidence) -> int:
    """Return how long before its append the controller may have decided on a record."""
    knobs = evidence.run.test.get("knobs")
    disk = int(knobs["fsync_max"]) * int(knobs["slow_factor"]) if isinstance(knobs, dict) else 0
    return evidence.setting("linger_ms", LINGER_MS) * MS + 4 * disk * 1000 + MS * 100


def _wishes(message: Message) -> bool:
    """Whether a request may be another reason to fence a broker."""
    if message.api != "BrokerHeartbeat":
        return True
    return bool(message.request.get("want_fence") or message.request.get("want_shut_down"))
