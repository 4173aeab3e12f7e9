"""A producer: batches with acks=all, retried as real producers retry them.

An idempotent producer repeats a batch until it is certain of it. Another one repeats it only after
errors which guarantee that it was not appended. No producer has two batches in flight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import Final, NamedTuple

from kraftwreck.harness.client import Answer, Call, Pause
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import kafka_call
from kraftwreck.systems.kraft.workloads.controller import error_name
from kraftwreck.systems.kraft.workloads.log_client import (
    ASK_MS,
    BACKOFF_MS,
    INIT_PRODUCER_ID,
    NEW_PRODUCER,
    LogClient,
    ask,
    find_leader,
    place_of,
)
from kraftwreck.systems.kraft.workloads.record_batches import batch_of

PRODUCE: Final = 9
ATTEMPTS: Final = 12
TIMEOUT_MS: Final = 1_500
"""How long a broker may wait for replicas; the client waits a little longer."""
BUMP_PERCENT: Final = 3
"""How often a producer raises its epoch before a batch, as after one that it has given up."""
LATE_PERCENT: Final = 3
"""How often an earlier batch of an idempotent producer arrives again."""
IN_FLIGHT: Final = 5
"""The batches that a producer may have in flight."""
UNHEARD_PERCENT: Final = 6
"""How often an idempotent producer does not get an answer, and repeats the batch."""

NOT_APPENDED: Final = frozenset(
    {
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.LEADER_NOT_AVAILABLE,
        errors.NOT_ENOUGH_REPLICAS,
        errors.MESSAGE_TOO_LARGE,
        errors.CORRUPT_MESSAGE,
        errors.INVALID_RECORD,
        errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
        errors.INVALID_PRODUCER_EPOCH,
    }
)
"""Errors which guarantee that this attempt appended nothing."""

FINAL: Final = frozenset(
    {
        errors.MESSAGE_TOO_LARGE,
        errors.CORRUPT_MESSAGE,
        errors.INVALID_RECORD,
        errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
        errors.INVALID_PRODUCER_EPOCH,
    }
)
"""Errors after which no producer tries again."""


class Sent(NamedTuple):
    """The outcome of a batch: its base offset; or None and an error, ``open`` if some attempt may
    have appended it."""

    offset: int | None
    error: str = ""
    open: bool = False
    node: str | None = None


Sending = Generator[Call | Pause, Answer, Sent]


def producer_id(client: LogClient) -> Generator[Call | Pause, Answer, bool]:
    """Let the producer have an id; return whether it has one."""
    for _ in range(ATTEMPTS):
        if client.producer is not None:
            return True
        answer = yield from ask(client.broker(), "InitProducerId", INIT_PRODUCER_ID, NEW_PRODUCER)
        if answer.status == "ok" and answer.response["error_code"] == errors.NONE:
            found = answer.response
            client.begin(found["producer_id"], found["producer_epoch"])
        else:
            yield Pause(BACKOFF_MS)
    return client.producer is not None


def send(client: LogClient, key: int, values: Sequence[int], *, idempotent: bool) -> Sending:
    """Append ``values`` to ``key`` as one batch."""
    state = client.state
    if draw_below(100, state.seed, "bump", state.thread, state.calls) < BUMP_PERCENT:
        client.next_epoch()
    if idempotent and not (yield from producer_id(client)):
        return Sent(None, "no producer id")
    numbered = None
    if idempotent and draw_below(100, state.seed, "late", state.thread, state.calls) < LATE_PERCENT:
        yield from _repeat(client, key)
    if idempotent:
        numbered = client.numbers(key)
    batch = batch_of(values, numbered)
    sent = yield from _deliver(client, key, batch, idempotent=idempotent)
    if idempotent and sent.offset is not None:
        client.used(key, len(values))
        client.batches.setdefault(key, deque(maxlen=IN_FLIGHT)).append(batch)
    elif idempotent and (sent.open or sent.error == _LOST_SEQUENCE):
        client.new_producer()
    return sent


_LOST_SEQUENCE: Final = error_name(errors.OUT_OF_ORDER_SEQUENCE_NUMBER)


def _repeat(client: LogClient, key: int) -> Generator[Call | Pause, Answer, None]:
    """Send one of the last batches again, as a retry that was under way for long; its answer is
    ignored."""
    batches = client.batches.get(key)
    leader = client.leaders.get(key)
    if batches and leader is not None and leader.node is not None:
        state = client.state
        place = draw_below(len(batches), state.seed, "which", state.thread, state.calls)
        yield produce_call(leader.node, key, batches[place])


def _deliver(client: LogClient, key: int, batch: bytes, *, idempotent: bool) -> Sending:
    """Send ``batch`` until its outcome is certain, or there were enough attempts."""
    error, opened, node = "no leader", False, None
    for attempt in range(ATTEMPTS):
        if attempt:
            yield Pause(BACKOFF_MS << min(attempt - 1, 3))
        leader = yield from find_leader(client, key)
        if leader is None:
            continue
        node = leader.node
        answer = yield produce_call(str(node), key, batch)
        if answer.status == "refused":
            client.forget(key)
            continue
        if answer.status == "lost":
            client.forget(key)
            error, opened = f"lost: {answer.error}", True
        else:
            part = answer.response["responses"][0]["partition_responses"][0]
            code = part["error_code"]
            if code == errors.NONE:
                if idempotent and client.draw(100, "unheard") < UNHEARD_PERCENT:
                    opened = True
                    continue
                return Sent(part["base_offset"], node=node)
            error = error_name(code)
            opened = opened or code not in NOT_APPENDED
            if code in FINAL:
                break
            client.forget(key)
        if opened and not idempotent:
            break
    return Sent(None, error, opened, node)


def produce_call(node: str, key: int, batch: bytes, acks: int = -1) -> Call:
    """Return a Produce of one batch."""
    topic, partition = place_of(key)
    body = {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": TIMEOUT_MS,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}],
    }
    return kafka_call(node, "Produce", PRODUCE, body, TIMEOUT_MS + ASK_MS)
