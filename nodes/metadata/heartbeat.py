"""BrokerHeartbeat (63): the states of a broker (KIP-631), and their transitions.

A broker starts fenced. It is unfenced once it requests that and has applied the metadata up to its
own registration; earlier it might act on an older one. A broker that requests a shutdown first
loses its leaderships. It may stop once every active broker has applied that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from kraftwreck.nodes.metadata.brokers import (
    begin_shutdown,
    change_record,
    checked_broker,
    fence,
    unfence,
)
from kraftwreck.nodes.metadata.eligibility import DIRECTORIES, metadata_version
from kraftwreck.nodes.metadata.image_values import Broker
from kraftwreck.nodes.metadata.operation import Body, Context, Outcome, Record
from kraftwreck.nodes.metadata.partition_change import changes_for_removed_directories
from kraftwreck.nodes.protocol.errors import NONE


class State(Enum):
    """The controller's state of a broker."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


@dataclass(slots=True, frozen=True)
class Facts:
    """Other inputs of the next state.

    ``caught_up``: the broker has applied its registration; ``leads``: it leads partitions;
    ``known``: every active broker has applied the start of its controlled shutdown.
    """

    caught_up: bool = False
    leads: bool = False
    known: bool = False


def next_state(current: State, want_fence: bool, want_shut_down: bool, facts: Facts) -> State:
    """Return the state after a heartbeat."""
    match current:
        case State.FENCED:
            if want_shut_down:
                return State.SHUTDOWN_NOW
            return State.UNFENCED if not want_fence and facts.caught_up else State.FENCED
        case State.UNFENCED:
            if want_fence:
                return State.SHUTDOWN_NOW if want_shut_down else State.FENCED
            if want_shut_down:
                return State.CONTROLLED_SHUTDOWN if facts.leads else State.SHUTDOWN_NOW
            return State.UNFENCED
        case State.CONTROLLED_SHUTDOWN:
            if facts.leads or not facts.known:
                return State.CONTROLLED_SHUTDOWN
            return State.SHUTDOWN_NOW
        case State.SHUTDOWN_NOW:
            return State.SHUTDOWN_NOW


def state_of(broker: Broker) -> State:
    """Return the state that a registration represents."""
    if broker.fenced:
        return State.FENCED
    return State.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else State.UNFENCED


def _facts(context: Context, broker: Broker, offset: int) -> Facts:
    lowest = context.sessions.lowest_active_offset(context.image.brokers.values())
    began = context.sessions.controlled_shutdown_offset(broker.broker_id, broker.epoch)
    return Facts(
        caught_up=offset >= context.sessions.registration_offset(broker.broker_id, broker.epoch),
        leads=bool(context.image.led_by(broker.broker_id)),
        known=lowest is None or began <= lowest,
    )


def _transition(context: Context, broker: Broker, target: State) -> list[Record]:
    match target:
        case State.FENCED | State.SHUTDOWN_NOW:
            return fence(context, broker)
        case State.UNFENCED:
            return unfence(context, broker)
        case State.CONTROLLED_SHUTDOWN:
            return begin_shutdown(context, broker)


def _lost_directories(context: Context, broker: Broker, offline: list[bytes]) -> list[Record]:
    """Return the records that take directories that went offline out of a registration."""
    lost = {bytes(directory) for directory in offline} & set(broker.log_dirs)
    if not lost or metadata_version(context.image) < DIRECTORIES:
        return []
    online = [directory for directory in broker.log_dirs if directory not in lost]
    records = changes_for_removed_directories(context, broker.broker_id, online)
    if online:  # a registration cannot have no directory left: such a broker stops by itself
        records.append(change_record(context, broker, log_dirs=online))
    return records


def broker_heartbeat(context: Context, version: int, body: Body) -> Outcome:
    """Answer a heartbeat and make the one change that results.

    The contact itself is recorded when the request arrives, not here.
    """
    broker_id, epoch = body["broker_id"], body["broker_epoch"]
    broker = checked_broker(context, broker_id, epoch)
    sessions, offset = context.sessions, body["current_metadata_offset"]
    sessions.note_metadata_offset(broker_id, epoch, offset)
    facts = _facts(context, broker, offset)
    current = state_of(broker)
    target = next_state(current, body["want_fence"], body["want_shut_down"], facts)
    records: list[Record] = []
    if target is not current:
        records = _transition(context, broker, target)
    if not records:
        # One change at a time, each computed from the state before it.
        records = _lost_directories(context, broker, body["offline_log_dirs"])

    def appended(last_offset: int) -> None:
        if target is State.CONTROLLED_SHUTDOWN and current is not target:
            sessions.start_controlled_shutdown(broker_id, epoch, last_offset)

    answer: Body = {
        "throttle_time_ms": 0,
        "error_code": NONE,
        "is_caught_up": facts.caught_up,
        "is_fenced": target in (State.FENCED, State.SHUTDOWN_NOW),
        "should_shut_down": target is State.SHUTDOWN_NOW,
    }
    return Outcome(records, answer, atomic=False, appended=appended)
