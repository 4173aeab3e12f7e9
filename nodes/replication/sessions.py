"""Fetch sessions (KIP-227): a requester names its partitions once, then only what changes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from kraftwreck.nodes.draw import draw
from kraftwreck.nodes.protocol.errors import (
    FETCH_SESSION_ID_NOT_FOUND,
    INVALID_FETCH_SESSION_EPOCH,
    NONE,
)
from kraftwreck.nodes.replication.effects import ReadPart
from kraftwreck.nodes.replication.events import FetchPart, FetchReceived
from kraftwreck.nodes.replication.headers import PartitionKey

SLOTS: Final = 1000
"""Sessions kept (``max.incremental.fetch.session.cache.slots``); the least used one goes first."""
_LAST_EPOCH: Final = 2**31 - 1
_NOTHING_SENT: Final = (-1, -1)


class Session:
    """The partitions of one session, and the offsets that its last answers carried."""

    __slots__ = ("epoch", "parts", "sent", "session_id")

    def __init__(self, session_id: int, parts: tuple[FetchPart, ...]) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.parts = {part.key: part for part in parts}
        self.sent: dict[PartitionKey, tuple[int, int]] = {}

    def news(self, parts: tuple[ReadPart, ...], *, full: bool) -> tuple[ReadPart, ...]:
        """Return the parts that the requester does not know yet, all if ``full``.

        The first partition with records is read last the next time: an answer has room for few.
        """
        told = []
        for part in parts:
            offsets = (part.high_watermark, part.log_start)
            urgent = part.error != NONE or part.records or part.diverging
            if full or urgent or self.sent.get(part.key, _NOTHING_SENT) != offsets:
                told.append(part)
            self.sent[part.key] = offsets if part.error == NONE else _NOTHING_SENT
        first = next((part.key for part in parts if part.records), None)
        if first in self.parts:
            self.parts[first] = self.parts.pop(first)
        return tuple(told)


class Sessions:
    """The sessions of a broker process. ``seed`` differs between processes: an id of an earlier
    one is not taken for one of this."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._made = 0
        self._by_id: OrderedDict[int, Session] = OrderedDict()

    def get(self, session_id: int) -> Session | None:
        """Return a session, None if there is none of this id."""
        return self._by_id.get(session_id)

    def resolve(self, event: FetchReceived) -> tuple[int, Session | None, tuple[FetchPart, ...]]:
        """Return (error, session, partitions to read) of a request."""
        if event.session_epoch <= 0:
            self._by_id.pop(event.session_id, None)
            session = self._new(event.parts) if event.session_epoch == 0 else None
            return NONE, session, event.parts
        session = self._by_id.get(event.session_id)
        if session is None:
            return FETCH_SESSION_ID_NOT_FOUND, None, ()
        if event.session_epoch != session.epoch:
            return INVALID_FETCH_SESSION_EPOCH, None, ()
        self._by_id.move_to_end(event.session_id)
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        for key in event.forgotten:
            session.parts.pop(key, None)
            session.sent.pop(key, None)
        for part in event.parts:
            session.parts[part.key] = part
        return NONE, session, tuple(session.parts.values())

    def _new(self, parts: tuple[FetchPart, ...]) -> Session:
        session_id = 0
        while session_id == 0 or session_id in self._by_id:
            self._made += 1
            session_id = draw(self._seed, "fetch session", self._made) % _LAST_EPOCH
        if len(self._by_id) >= SLOTS:
            self._by_id.popitem(last=False)
        session = self._by_id[session_id] = Session(session_id, parts)
        return session
