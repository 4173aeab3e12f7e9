"""The active controller's state of each broker between two heartbeats.

None of it is in the log: a new controller starts with nothing, and gives every registered broker a
fresh session clock (KAFKA-18138). That takes no work per broker: the time of the claim replaces a
missing contact time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

MILLISECOND: Final = 1000
SESSION_TIMEOUT_MS: Final = 9000
"""Default of ``broker.session.timeout.ms``."""
UNKNOWN_OFFSET: Final = -1


class Registered(Protocol):
    """The fields of a broker's registration that a session needs."""

    @property
    def broker_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def fenced(self) -> bool: ...

    @property
    def in_controlled_shutdown(self) -> bool: ...


@dataclass(slots=True)
class _Heard:
    epoch: int
    contact: int
    registered_at: int
    metadata_offset: int = UNKNOWN_OFFSET
    shutdown_offset: int = UNKNOWN_OFFSET


class Sessions:
    """Contact times, metadata offsets and controlled shutdowns, by broker id and epoch.

    Times are microseconds of the monotonic clock. Entries of another broker epoch of the same id
    never count.
    """

    def __init__(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        self.timeout = timeout_ms * MILLISECOND
        self._claimed_at = 0
        self._claim_offset = UNKNOWN_OFFSET
        self._heard: dict[int, _Heard] = {}

    def claim(self, now: int, offset: int) -> None:
        """Start again: every session begins ``now``; ``offset`` is the last one in the log."""
        self._claimed_at = now
        self._claim_offset = offset
        self._heard.clear()

    def _state(self, broker_id: int, epoch: int) -> _Heard | None:
        heard = self._heard.get(broker_id)
        return heard if heard is not None and heard.epoch == epoch else None

    def _entry(self, broker_id: int, epoch: int) -> _Heard:
        heard = self._state(broker_id, epoch)
        if heard is None:
            heard = self._heard[broker_id] = _Heard(epoch, self._claimed_at, epoch)
        return heard

    def touch(self, broker_id: int, epoch: int, now: int) -> None:
        """Note contact with the broker; ``epoch`` must be its present one."""
        entry = self._entry(broker_id, epoch)
        entry.contact = max(entry.contact, now)

    def register(self, broker_id: int, epoch: int, now: int, offset: int) -> None:
        """Note a registration, and contact ``now``; ``offset`` is that of its record.

        A new epoch starts without any state; the same process again keeps its state.
        """
        if self._state(broker_id, epoch) is None:
            self._heard[broker_id] = _Heard(epoch, now, offset)
        entry = self._heard[broker_id]
        entry.registered_at = offset
        entry.contact = max(entry.contact, now)

    def registration_offset(self, broker_id: int, epoch: int) -> int:
        """Return the offset that a broker must have applied to have seen its registration.

        If a predecessor wrote the registration, its batch begins at ``epoch``. That suffices, as
        batches are applied as a whole.
        """
        heard = self._state(broker_id, epoch)
        return epoch if heard is None else heard.registered_at

    def forget(self, broker_id: int) -> None:
        """Drop the state of a broker that is no longer registered."""
        self._heard.pop(broker_id, None)

    def expiry(self, broker_id: int, epoch: int) -> int:
        """Return when the broker's session ends without further contact."""
        heard = self._state(broker_id, epoch)
        return (self._claimed_at if heard is None else heard.contact) + self.timeout

    def is_valid(self, broker_id: int, epoch: int, now: int) -> bool:
        """Return whether the broker's session is alive."""
        return now < self.expiry(broker_id, epoch)

    def stalest(self, brokers: Iterable[Registered], now: int) -> int | None:
        """Return the unfenced broker whose session ended first, None if none has."""
        expired = [
            (self.expiry(broker.broker_id, broker.epoch), broker.broker_id)
            for broker in brokers
            if not broker.fenced and not self.is_valid(broker.broker_id, broker.epoch, now)
        ]
        return min(expired)[1] if expired else None

    def note_metadata_offset(self, broker_id: int, epoch: int, offset: int) -> None:
        """Record the offset up to which the broker has applied the metadata.

        A late heartbeat never lowers it.
        """
        entry = self._entry(broker_id, epoch)
        entry.metadata_offset = max(entry.metadata_offset, offset)

    def metadata_offset(self, broker_id: int, epoch: int) -> int:
        """Return how far the broker had applied the metadata, -1 if it never reported."""
        heard = self._state(broker_id, epoch)
        return UNKNOWN_OFFSET if heard is None else heard.metadata_offset

    def lowest_active_offset(self, brokers: Iterable[Registered]) -> int | None:
        """Return the least metadata offset of the active brokers, None if there is none.

        *Active* is unfenced and not in controlled shutdown.
        """
        return min(
            (
                self.metadata_offset(broker.broker_id, broker.epoch)
                for broker in brokers
                if not broker.fenced and not broker.in_controlled_shutdown
            ),
            default=None,
        )

    def start_controlled_shutdown(self, broker_id: int, epoch: int, offset: int) -> None:
        """Record the offset at which the controlled shutdown began; only the first one counts.

        An offset that moved with every heartbeat would never be reached (KAFKA-14292).
        """
        entry = self._entry(broker_id, epoch)
        if entry.shutdown_offset == UNKNOWN_OFFSET:
            entry.shutdown_offset = offset

    def controlled_shutdown_offset(self, broker_id: int, epoch: int) -> int:
        """Return the offset at which the controlled shutdown began.

        For one that a predecessor began, the offset of the claim is an upper bound.
        """
        heard = self._state(broker_id, epoch)
        if heard is None or heard.shutdown_offset == UNKNOWN_OFFSET:
            return self._claim_offset
        return heard.shutdown_offset
