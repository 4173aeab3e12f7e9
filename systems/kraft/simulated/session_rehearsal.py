"""Sends fetches that nobody has sent to copies of fetch sessions (D5, D7, D16).

A session (KIP-227) leaves a partition out of an answer as long as there is nothing to say of it. An
error, a history that diverges, and the end of an error must be said, although the offsets are those
that were said before. A consumer seldom reads records that are lost later. So these fetches are
invented once for each session, for the first partition that it leaves out. The other way around, an
answer that has nothing to say of a partition must leave it out.

No run has as many sessions as a broker keeps, none lasts until its epochs begin again, and few
consumers close theirs. So a table of sessions is filled once in a run: the session that was used
least recently must go, and no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import FetchPart, FetchReceived
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.requests import Fetching
from kraftwreck.nodes.replication.sessions import SLOTS, Session, Sessions
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import disk_of_records, name_of

LAST_EPOCH: Final = 2**31 - 1
"""The epoch of a session before its epochs begin again with 1."""
NOTHING: Final = (-1, -1)
"""The offsets of a partition whose last answer was an error."""
CLOSING: Final = -1
"""The epoch of a request that ends its session."""


class SessionRehearsal:
    """Judges the fetch sessions of the brokers of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._seen: set[tuple[int, int, int]] = set()
        """By host, its life and session: those that were judged."""
        self._fills = True
        self._sent: dict[tuple[int, int, int], dict[PartitionKey, tuple[int, int]]] = {}
        """By host, its life and session: the offsets in the last answer with a partition."""
        record_traffic(world).on_answer.append(self._answered)

    def _answered(self, host: Host, message: RecordMessage, effect: Any, body: Any) -> None:
        event = message.call.event if message.call is not None else None
        if not isinstance(event, FetchReceived) or event.session_epoch < 0:
            return
        if effect.error == errors.NONE:
            self._judge_repeats(host, event, effect)
        if event.session_epoch == 0:
            return
        if self._fills and event.parts:
            self._fills = False
            for wrong in judge_table(event.parts):
                self._failures.add("D16", self._world.now, f"{host.name} {wrong}")
        place, node = (host.id, host.life, event.session_id), host.node
        if place in self._seen or effect.error != errors.NONE or not isinstance(node, Node):
            return
        if node.broker is None or node.broker.data is None:
            return
        core = node.broker.data.core
        session = core.sessions.get(event.session_id)
        told = {part.key for part in effect.parts}
        for key in session.parts if session is not None else ():
            partition = core.partitions.get(key)
            if key in told or partition is None or partition.log is None or not partition.leading:
                continue
            assert session is not None
            self._seen.add(place)
            for rule, wrong in judge(session, partition):
                self._failures.add(
                    rule,
                    self._world.now,
                    f"{host.name} would leave {name_of(key)} out of a session {wrong}",
                )
            return

    def _judge_repeats(self, host: Host, event: FetchReceived, reply: out.ReplyFetch) -> None:
        """D16: an answer of a session leaves out what has not changed.

        After an append that a full disk refuses the answer has a lower high watermark than the
        session has noted.
        """
        full = disk_of_records(host).logs.full
        place, begins = (host.id, host.life, reply.session_id), event.session_epoch == 0
        sent = self._sent.setdefault(place, {})
        for key in event.forgotten:
            sent.pop(key, None)
        for part in reply.parts:
            key, offsets = part.key, (part.high_watermark, part.log_start)
            urgent = part.error != errors.NONE or part.records or part.diverging
            if not begins and not urgent and sent.get(key) == offsets:
                self._failures.add(
                    "D16",
                    self._world.now,
                    f"{host.name} repeats {name_of(key)} in a session although nothing is new",
                )
            sent[key] = offsets if part.error == errors.NONE and key not in full else NOTHING


def judge_table(parts: tuple[FetchPart, ...]) -> Iterator[str]:
    """Yield what is wrong with a table of sessions for ``parts`` that is filled, and used."""
    table = Sessions(1)
    used, unused = _begun(table, parts), _begun(table, parts)
    others = [_begun(table, parts) for _ in range(SLOTS - 2)]
    error = _next(table, used, 1)
    newest = _begun(table, parts)
    there = [each for each in (used, *others, newest) if table.get(each) is not None]
    if error != errors.NONE or len(there) < SLOTS or table.get(unused) is not None:
        yield (
            f"would have {len(there)} of {SLOTS} sessions after one more has begun, and"
            f" {'' if table.get(unused) is not None else 'not '}that which was used before all"
            " others"
        )
    last = table.get(newest)
    if last is not None:
        last.epoch = LAST_EPOCH
        refused = [each for each in (LAST_EPOCH, 1) if _next(table, newest, each) != errors.NONE]
        if refused:
            yield f"would refuse epoch {refused[0]} of a session that has reached {LAST_EPOCH}"
    for epoch, name in ((CLOSING, "ended"), (0, "begun again")):
        closed = others[epoch]
        table.resolve(FetchReceived(-1, parts, session_id=closed, session_epoch=epoch))
        if table.get(closed) is not None:
            yield f"would keep a session that its consumer has {name}"


def _begun(table: Sessions, parts: tuple[FetchPart, ...]) -> int:
    """Begin a session, and return its id."""
    _, session, _ = table.resolve(FetchReceived(-1, parts, session_epoch=0))
    assert session is not None
    return session.session_id


def _next(table: Sessions, session_id: int, epoch: int) -> int:
    """Return the error of a session's request without partitions."""
    error, _, _ = table.resolve(FetchReceived(-1, (), session_id=session_id, session_epoch=epoch))
    return error


def judge(session: Session, partition: Partition) -> Iterator[tuple[str, str]]:
    """Yield the rules that a leader breaks, and how, as it answers fetches in a copy of
    ``session``."""
    log, epoch, key = partition.log, partition.assignment.leader_epoch, partition.key
    assert log is not None
    copy = Session(session.session_id, ())
    copy.epoch, copy.sent = session.epoch, dict(session.sent)
    known = [each for each, _ in log.epochs.entries][-1:]
    for last_epoch in known:
        beyond = FetchPart(key, log.end + 1, 1, epoch, last_epoch)
        if _answer(copy, partition, beyond) is None:
            yield "D7", f"whose history diverges from that of a fetch at {beyond.offset}"
    copy.sent = dict(session.sent)
    unknown = FetchPart(key, log.end, 1, epoch + 1)
    if _answer(copy, partition, unknown) is None:
        yield "D5", f"although its leader epoch is not {unknown.leader_epoch}"
    elif _answer(copy, partition, FetchPart(key, log.end, 1, epoch)) is None:
        yield "D5", "although its last answer was an error"


def _answer(session: Session, partition: Partition, asked: FetchPart) -> out.ReadPart | None:
    """Return what the answer to a fetch says of its partition, None if it is left out."""
    effects: list[out.Effect] = []
    replicas: dict[PartitionKey, Partition] = {asked.key: partition}
    event = FetchReceived(-1, (asked,), session_id=session.session_id, session_epoch=session.epoch)
    Fetching(event, session, (asked,), replicas, effects, 0).attempt(late=True)
    (reply,) = effects
    assert isinstance(reply, out.ReplyFetch)
    return next((part for part in reply.parts if part.key == asked.key), None)
