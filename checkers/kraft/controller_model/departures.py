"""Controlled shutdowns: brokers may stop when, and only when, Kafka lets them (KIP-631).

The controller allows a broker to shut down once two conditions hold. The broker leads no
partition, and every active broker (unfenced, not shutting down itself) has reported in heartbeats
that it has applied the metadata up to the start of that shutdown. From then on the controller must
not refuse. A broker that has not begun a shutdown and asks to be fenced and to shut down may do so
at once, whatever it leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kraftwreck.checkers.kraft.controller_model.exchanges import Exchange
from kraftwreck.checkers.kraft.controller_model.metadata_model import Broker
from kraftwreck.checkers.kraft.controller_model.state import NEVER, State, StateHistory
from kraftwreck.nodes.protocol import errors

if TYPE_CHECKING:
    from kraftwreck.checkers.kraft.invariants.evidence import Evidence  # whose package imports this

FAR = 1 << 62


class _Beat(NamedTuple):
    """A heartbeat: when it was sent (-1: not known) and answered (FAR: never, or not with
    success), and up to where the broker said that it had applied the metadata."""

    sent: int
    answered: int
    offset: int


class _Claim(NamedTuple):
    """When (ns) a node claimed to be the active controller, and the end of its log then."""

    time: int
    end: int


class Departures:
    """Judges whether brokers may shut down when they should. ``session`` is in ns; two events of
    one instant may seem up to ``blur`` apart."""

    def __init__(self, evidence: Evidence, history: StateHistory, session: int, blur: int) -> None:
        self._evidence = evidence
        self._history = history
        self._session = session
        self._blur = blur
        self._last: dict[tuple[int, int, int], int] = {}
        self._beats: dict[tuple[int, int, int], list[_Beat]] = {}
        for message in evidence.of("BrokerHeartbeat"):
            body, answer = message.request, message.response
            if isinstance(body, dict):
                well = isinstance(answer, dict) and answer["error_code"] == errors.NONE
                answered = message.time if well else FAR
                key = message.replier, body["broker_id"], body["broker_epoch"]
                beat = _Beat(message.sent, answered, body["current_metadata_offset"])
                self._beats.setdefault(key, []).append(beat)

    def heartbeat(self, exchange: Exchange) -> str | None:
        """Return what is wrong with the answer to a heartbeat."""
        body, answer, message = exchange.request, exchange.answer, exchange.message
        beat = body["broker_id"], body["broker_epoch"], message.replier
        before, self._last[beat] = self._last.get(beat, -1), message.sent
        if not answer["should_shut_down"]:
            return self._kept(exchange) if body["want_shut_down"] else None
        # A broker that was active is judged only if its session cannot have ended meanwhile, also
        # by a controller's clock that runs fast. All sessions begin when a controller takes over.
        claims = [claim.time for claim in self._claims(message.replier)]
        before = max([before, *(time for time in claims if time <= message.sent)])
        after, name = self._evidence.after, self._evidence.name(message.replier)
        alive = before >= 0 and message.sent < after(name, before, self._session * 3 // 5)
        in_time = message.time < after(name, message.sent, self._session // 5)
        return self._gone(exchange) if alive and in_time else None

    def _gone(self, exchange: Exchange) -> str | None:
        """A broker allowed to shut down leads no partition, and every active broker has caught up
        with its shutdown record."""
        history, broker_id = self._history, exchange.request["broker_id"]
        before = None
        for state in history.states(*exchange.span):  # The latest comes first.
            broker = state.broker(broker_id)
            if broker is None or broker.fenced:
                continue
            if exchange.request["want_fence"] and not broker.stopping:
                return None
            before = before or state
        now = State(history, exchange.low).broker(broker_id)
        if before is None or now is None or now.fenced:
            return None
        for (topic_id, number), versions in history.partitions.items():
            partition = versions.at(before.end)
            if partition is not None and partition.leader == broker_id:
                leads = f"leads {topic_id.hex()}-{number}"
                return f"broker {broker_id} may shut down, although it {leads}"
        began = self._began(broker_id, exchange.request["broker_epoch"], before.end)
        if began is None:
            return None
        base = history.before(began).end
        for other, epoch in self._active(exchange, broker_id, always=True):
            told = max(self._told(exchange, other, epoch, exchange.message.time), default=-1)
            if told < base:
                return (
                    f"broker {broker_id} may shut down, although the active broker {other} has"
                    f" applied at most offset {told} and the shutdown record ends at {began}"
                )
        return None

    def _kept(self, exchange: Exchange) -> str | None:
        """A broker that leads nothing must be allowed to shut down once all active brokers have
        caught up."""
        history, message = self._history, exchange.message
        broker_id, epoch = exchange.request["broker_id"], exchange.request["broker_epoch"]
        states = list(history.states(*exchange.span))
        for state in states:
            broker = state.broker(broker_id)
            if broker is None or broker.epoch != epoch or broker.fenced or not broker.stopping:
                return None
        began = self._began(broker_id, epoch, exchange.low)
        claims = [c for c in self._claims(message.replier) if c.time <= message.time + self._blur]
        if began is None or not claims:
            return None
        claim = max(claims)
        enough = max(began, claim.end)
        for other, its_epoch in self._active(exchange, broker_id, always=False):
            told = self._told(exchange, other, its_epoch, message.sent, claim.time)
            if max(told, default=-1) < enough:
                return None
        for versions in history.partitions.values():
            for partition in versions.among(*exchange.span):
                if partition is not None and partition.leader == broker_id:
                    return None
        return (
            f"broker {broker_id} may not shut down, although it leads no partition and all active"
            f" brokers have applied its shutdown record, which ends at {began}"
        )

    def _claims(self, node: int) -> list[_Claim]:
        evidence, name = self._evidence, self._evidence.name(node)
        claims = evidence.dated(evidence.trace.claims)
        return [_Claim(at, event.leo) for at, event in claims if event.node == name]

    def _began(self, broker_id: int, epoch: int, end: int) -> int | None:
        """Return the end of the batch that began the shutdown in force in the state ``end``.

        A broker that was fenced meanwhile, and unfenced by a late heartbeat, still shuts down: it
        may neither lead nor join an ISR, and all that know the beginning know that.
        """
        began = None
        for at, before, after in self._history.brokers.get(broker_id, NEVER).since(-1, end):
            stopping = _is_stopping(after, epoch)
            if not stopping:
                began = None
            elif not _is_stopping(before, epoch):
                began = at
        return began

    def _active(self, exchange: Exchange, but: int, *, always: bool) -> Iterable[tuple[int, int]]:
        """Yield (id, epoch) of the other brokers that were active during the exchange: in all its
        states with ``always``, else in any."""
        active = [
            {(each, broker.epoch) for each, broker in state.brokers().items() if broker.active}
            for state in self._history.states(*exchange.span)
        ]
        found = set.intersection(*active) if always else set.union(*active)
        return sorted(each for each in found if each[0] != but)

    def _told(
        self, exchange: Exchange, broker_id: int, epoch: int, until: int, since: int | None = None
    ) -> Iterable[int]:
        """Yield the offsets that this broker may have reported to the answering node by ``until``.

        With ``since``, yield only those that it certainly reported between the two times.
        """
        for beat in self._beats.get((exchange.message.replier, broker_id, epoch), ()):
            if since is None:
                if beat.sent <= until + self._blur:
                    yield beat.offset
            elif beat.sent > since + self._blur and beat.answered < until - self._blur:
                yield beat.offset


def _is_stopping(broker: Broker | None, epoch: int) -> bool:
    return broker is not None and broker.epoch == epoch and broker.stopping
