"""Sends fetches that nobody has sent to copies of fetch sessions (D5, D7).

A session (KIP-227) leaves a partition out of an answer as long as there is nothing to say of it. An
error, a history that diverges, and the end of an error must be said, although the offsets are those
that were said before. A consumer seldom reads records that are lost later. So these fetches are
invented once for each session, for the first partition that it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import FetchPart, FetchReceived
from kraftwreck.nodes.replication.headers import PartitionKey
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.nodes.replication.requests import Fetching
from kraftwreck.nodes.replication.sessions import Session
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import name_of


class SessionRehearsal:
    """Judges the fetch sessions of the brokers of ``world``."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._seen: set[tuple[int, int, int]] = set()
        """By host, its life and session: those that were judged."""
        record_traffic(world).on_answer.append(self._answered)

    def _answered(self, host: Host, message: RecordMessage, effect: Any, body: Any) -> None:
        event = message.call.event if message.call is not None else None
        if not isinstance(event, FetchReceived) or event.session_epoch <= 0:
            return
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
