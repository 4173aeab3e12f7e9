"""Fetch and ListOffsets of a follower, which scripted leaders answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.protocol.errors import CORRUPT_MESSAGE, NONE
from kraftwreck.nodes.replication.effects import AskOffsets, FetchFrom
from kraftwreck.nodes.replication.events import FetchedPart, FetchPart
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.server.replica_fetches import ReplicaFetches
from kraftwreck.systems.kraft.sockets.asking import LISTENER, SELF, TIMEOUT_MS, Asking
from kraftwreck.systems.kraft.sockets.scripted_peer import Body, Handled, ScriptedPeer

Key = tuple[bytes, int]

LEADERS: Final = (1, 2)
NAMES: Final = {bytes([number]) * 16: f"topic-{number}" for number in (1, 2, 3)}
GONE: Final = bytes([9]) * 16
"""A topic that this broker knows no longer."""
PARTITIONS: Final = [(topic_id, number) for topic_id in (*NAMES, GONE) for number in (0, 1)]
ERRORS: Final = (NONE, NONE, NONE, 1, 3, 6, 56, 74, 76)
MAX_WAIT_MS: Final = 500
BY_ID: Final = 13
REPLICA_STATE: Final = 15
LEADER_EPOCH: Final = 4
"""The first version of ListOffsets with the epoch of the leader."""
EARLIEST_AND_LATEST: Final = (-2, -1)
STAMP_MS: Final = 1_700_000_000_000
_FETCHED: Final = (
    "partition",
    "current_leader_epoch",
    "fetch_offset",
    "last_fetched_epoch",
    "log_start_offset",
    "partition_max_bytes",
)
_ASKED: Final = ("partition_index", "current_leader_epoch", "timestamp")
_CRC: Final = 21
"""The checksum of a batch covers its bytes from here on."""


class _Topics:
    def id_of(self, name: str) -> bytes | None:
        return next((topic_id for topic_id, known in NAMES.items() if known == name), None)

    def name_of(self, topic_id: bytes) -> str | None:
        return NAMES.get(topic_id)


class AskingLeaders:
    """Follows partitions of two leaders at a time."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._dice = asking.dice
        self._full = set[Key]()
        self._fetches = ReplicaFetches(
            SELF,
            LISTENER,
            _Topics(),
            TIMEOUT_MS,
            asking.events.append,
            asking.network.call_soon,
            self._full,
        )
        self._plans: dict[int, dict[Key, tuple[Body, FetchedPart]]] = {}
        """The answer of a leader for each partition, and what is to be taken from it."""
        self._leaders = {
            number: ScriptedPeer(
                asking.network, (f"10.0.0.{number}", 9092), partial(self._answer, number)
            )
            for number in LEADERS
        }

    async def play(self) -> None:
        """Send all requests."""
        await asyncio.gather(
            *(
                self._asking.repeat(peer, partial(self._ask, number, peer))
                for number, peer in self._leaders.items()
            )
        )

    async def close(self) -> None:
        """Close all connections, and note what the peers did not understand."""
        self._fetches.close()
        for peer in self._leaders.values():
            self._asking.wrong += peer.wrong

    async def _ask(self, leader: int, peer: ScriptedPeer) -> None:
        ask = self._fetch if self._dice.random() < 0.6 else self._ask_offsets
        await ask(leader, peer)

    def _answer(self, leader: int, handled: Handled) -> Body:
        return self._fetched(leader) if handled.api == "Fetch" else self._offsets(handled.body)

    # --- Fetch ------------------------------------------------------------------------------

    async def _fetch(self, leader: int, peer: ScriptedPeer) -> None:
        dice, number = self._dice, self._asking.number()
        parts = tuple(
            FetchPart(
                key,
                offset=dice.randrange(1 << 40),
                max_bytes=dice.randrange(1 << 20),
                leader_epoch=dice.randrange(9),
                last_fetched_epoch=dice.randrange(-1, 9),
                log_start=dice.randrange(100),
            )
            for key in dice.sample(PARTITIONS, dice.randint(1, 4))
        )
        endpoint = None if dice.random() < 0.1 else Endpoint(*peer.address)
        effect = FetchFrom(
            leader, number, MAX_WAIT_MS, parts, endpoint, broker_epoch=dice.randrange(1 << 40)
        )
        self._plans[leader] = {part.key: self._planned(part) for part in parts}
        unwritten = dice.random() < 0.1
        if unwritten:
            self._full.add(parts[-1].key)
        before = len(peer.handled)
        self._fetches.send(effect)
        self._full.clear()
        limit_s = (MAX_WAIT_MS + TIMEOUT_MS) / 1000
        event = await self._asking.event(number, limit_s, "a follower's Fetch")
        if event is None:
            return
        arrived = peer.handled[before:]
        if arrived and (unwritten or endpoint is None):
            self._asking.wrong.append("a follower fetches behind batches that are not written")
        for each in arrived:
            self._asking.wrong += _other_fetch(each, effect)
        expected = None
        if arrived and arrived[-1].answer is not None:
            expected = self._taken(leader, arrived[-1].version, arrived[-1].answer)
        if event.parts != expected:
            self._asking.wrong.append(f"a follower takes {event.parts} where {expected} was sent")

    def _planned(self, part: FetchPart) -> tuple[Body, FetchedPart]:
        """Return a leader's answer for a partition, and what is to be taken from it."""
        dice = self._dice
        error, watermark, start = dice.choice(ERRORS), dice.randrange(1 << 40), dice.randrange(100)
        diverging = (dice.randrange(9), dice.randrange(1 << 30)) if dice.random() < 0.2 else None
        records, batches = self._records(part.offset) if not error and not diverging else (b"", [])
        taken_error = error
        if batches and dice.random() < 0.2:  # One bit is wrong.
            at = dice.randrange(_CRC, batches[0].size)
            records = records[:at] + bytes([records[at] ^ 1]) + records[at + 1 :]
            taken_error, batches = CORRUPT_MESSAGE, []
        elif batches and dice.random() < 0.4:  # A leader cuts its answer anywhere.
            records = records[: -dice.randrange(1, batches.pop().size)]
        body: Body = {
            "partition_index": part.key[1],
            "error_code": error,
            "high_watermark": watermark,
            "log_start_offset": start,
            "aborted_transactions": None,
            "records": records or dice.choice((None, b"")),
        }
        if diverging is not None:
            body["diverging_epoch"] = {"epoch": diverging[0], "end_offset": diverging[1]}
        return body, FetchedPart(part.key, taken_error, watermark, start, tuple(batches), diverging)

    def _records(self, offset: int) -> tuple[bytes, list[Batch]]:
        """Return a few batches, and their headers."""
        dice, data, batches = self._dice, b"", list[Batch]()
        for _ in range(dice.randrange(4)):
            records = [(None, b"x" * dice.choice((1, 100, 9_000)))] * dice.randint(1, 3)
            count, epoch = len(records), dice.randrange(9)
            batch = encode_batch(offset, epoch, STAMP_MS, records, control=False)
            crc = int.from_bytes(batch[_CRC - 4 : _CRC], "big")
            batches.append(
                Batch(offset, count - 1, epoch, -1, -1, -1, STAMP_MS, count, len(batch), crc, 0)
            )
            offset += count
            data += batch
        return data, batches

    def _fetched(self, leader: int) -> Body:
        """Return a leader's answer about some of the partitions."""
        plans = list(self._plans[leader].items())
        topics: dict[bytes, list[Body]] = {}
        for (topic_id, _), (part, _) in plans[: self._dice.randint(0, len(plans))]:
            topics.setdefault(topic_id, []).append(part)
        responses = [
            {"topic_id": topic_id, "topic": NAMES.get(topic_id, "gone"), "partitions": parts}
            for topic_id, parts in topics.items()
        ]
        error = self._dice.choice((NONE, NONE, NONE, 70))
        return {"error_code": error, "session_id": 0, "responses": responses}

    def _taken(self, leader: int, version: int, answer: Body) -> tuple[FetchedPart, ...] | None:
        """Return what a follower is to take from a leader's answer."""
        if answer["error_code"] != NONE:
            return None
        return tuple(
            self._plans[leader][topic["topic_id"], part["partition_index"]][1]
            for topic in answer["responses"]
            if version >= BY_ID or topic["topic_id"] in NAMES
            for part in topic["partitions"]
        )

    # --- ListOffsets ------------------------------------------------------------------------

    async def _ask_offsets(self, leader: int, peer: ScriptedPeer) -> None:
        dice, number = self._dice, self._asking.number()
        keys = dice.sample(PARTITIONS, dice.randint(1, 6))
        parts = tuple((key, dice.randrange(9)) for key in keys)
        before = len(peer.handled)
        self._fetches.send(AskOffsets(leader, number, parts, Endpoint(*peer.address)))
        limit_s = 2 * TIMEOUT_MS / 1000
        event = await self._asking.event(number, limit_s, "a follower's ListOffsets")
        if event is None:
            return
        arrived = peer.handled[before:]
        for each, timestamp in zip(arrived, EARLIEST_AND_LATEST, strict=False):
            self._asking.wrong += _other_question(each, parts, timestamp)
        expected: dict[Key, tuple[int, ...]] | None = None
        answers = [each.answer for each in arrived if each.answer is not None]
        if len(arrived) == len(answers) == 2:
            starts, ends = (dict(_found(each)) for each in answers)
            expected = {
                key: _ended(starts[key][0] or error, starts[key][1], end)
                for key, (error, end) in ends.items()
                if key in starts
            }
        taken = None if event.parts is None else {key: _ended(*rest) for key, *rest in event.parts}
        if len(arrived) > 2 or taken != expected:
            self._asking.wrong.append(f"a follower takes {taken} where {expected} was sent")

    def _offsets(self, body: Body) -> Body:
        """Return a leader's answer about some of the partitions."""
        dice = self._dice
        topics = [
            {
                "name": topic["name"],
                "partitions": [
                    {
                        "partition_index": part["partition_index"],
                        "error_code": dice.choice(ERRORS),
                        "offset": dice.randrange(1 << 40),
                    }
                    for part in topic["partitions"]
                    if dice.random() < 0.9
                ],
            }
            for topic in body["topics"]
        ]
        dice.shuffle(topics)
        return {"throttle_time_ms": 0, "topics": topics}


def _other_fetch(handled: Handled, effect: FetchFrom) -> Iterator[str]:
    """Yield how a request that has arrived differs from the one that was meant."""
    body, version = handled.body, handled.version
    by_id = version >= BY_ID
    if version >= REPLICA_STATE:
        replica = body["replica_state"]["replica_id"], body["replica_state"]["replica_epoch"]
        meant_replica = SELF, effect.broker_epoch
    else:
        replica, meant_replica = (body["replica_id"], -1), (SELF, -1)
    parts = [
        (topic["topic_id" if by_id else "topic"], *(part[name] for name in _FETCHED))
        for topic in body["topics"]
        for part in topic["partitions"]
    ]
    meant_parts = [
        (
            part.key[0] if by_id else NAMES.get(part.key[0], ""),
            part.key[1],
            part.leader_epoch,
            part.offset,
            part.last_fetched_epoch,
            part.log_start,
            part.max_bytes,
        )
        for part in effect.parts
    ]
    sent = handled.api, replica, body["max_wait_ms"], body["session_epoch"], sorted(parts)
    meant = "Fetch", meant_replica, effect.max_wait_ms, -1, sorted(meant_parts)
    if sent != meant:
        yield f"a follower sends {sent} for {meant}"


def _other_question(
    handled: Handled, parts: Iterable[tuple[Key, int]], timestamp: int
) -> Iterator[str]:
    """Yield how a ListOffsets that has arrived differs from the one that was meant."""
    has_epoch = handled.version >= LEADER_EPOCH
    asked = [
        (topic["name"], *(part[name] for name in _ASKED))
        for topic in handled.body["topics"]
        for part in topic["partitions"]
    ]
    meant = [
        (NAMES[topic_id], number, epoch if has_epoch else -1, timestamp)
        for (topic_id, number), epoch in parts
        if topic_id in NAMES
    ]
    sent = handled.api, handled.body["replica_id"], sorted(asked)
    if sent != ("ListOffsets", SELF, sorted(meant)):
        yield f"a follower sends {sent} for {meant}"


def _found(answer: Body) -> Iterator[tuple[Key, tuple[int, int]]]:
    """Yield the error and the offset of each partition in an answer to ListOffsets."""
    ids = {name: topic_id for topic_id, name in NAMES.items()}
    for topic in answer["topics"]:
        for part in topic["partitions"]:
            yield (
                (ids[topic["name"]], part["partition_index"]),
                (part["error_code"], part["offset"]),
            )


def _ended(error: int, start: int, end: int) -> tuple[int, ...]:
    """Return what is to be compared: offsets beside an error mean nothing."""
    return (error,) if error else (error, start, end)
