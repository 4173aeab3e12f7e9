"""Requests and configs that nobody has sent, and how leaders would react (D11, D16, D17).

A leader refuses a batch that is too large for its topic, or that a client may not write, and
appends none of it. A request to delete records that it has deleted succeeds. A new config is in
force at once: a flush begins if records may no longer wait for one. Clients of the simulator send
no such batches, and set few configs. So a copy of the leader is asked, with a log of its own that
ends where the leader's does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kraftwreck.nodes.log.batch import CONTROL
from kraftwreck.nodes.protocol.errors import (
    INVALID_RECORD,
    INVALID_TXN_STATE,
    MESSAGE_TOO_LARGE,
    NONE,
)
from kraftwreck.nodes.replication.effects import FlushLog
from kraftwreck.nodes.replication.events import LogOpened
from kraftwreck.nodes.replication.flushing import Durability
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.replication.log_view import LogView
from kraftwreck.nodes.replication.partition import Partition
from kraftwreck.systems.kraft.simulated.assignment_rehearsal import copy_of

TRANSACTIONAL: Final = 0x10
LEADER: Final = 1
"""acks=1: the size of the ISR does not count."""


def wrong_reactions(partition: Partition) -> Iterator[tuple[str, str]]:
    """Yield the wrong reactions of a leader, with the rule that they break."""
    log = partition.log
    assert log is not None
    most = partition.settings.max_batch_bytes
    for batch, right, name in (
        (_batch(most), NONE, f"of {most} bytes"),
        (_batch(most + 1), MESSAGE_TOO_LARGE, f"of {most + 1} bytes"),
        (_batch(1, attributes=CONTROL), INVALID_RECORD, "with control records"),
        (_batch(1, attributes=TRANSACTIONAL), INVALID_TXN_STATE, "of a transaction"),
        (replace(_batch(1), count=2), INVALID_RECORD, "that lacks an offset"),
    ):
        copy = _copy(partition, log)
        done, grown = copy.append(batch, LEADER), copy.log
        assert grown is not None
        end = log.end if right != NONE else log.end + 1
        if (done.error, grown.end) != (right, end):
            yield (
                "D16",
                f"would answer {done.error} to a batch {name}, not {right}, and its log would end"
                f" at {grown.end}, not at {end}; max.message.bytes={most}",
            )
    if log.start > 0:
        copy = _copy(partition, log)
        error, _ = copy.delete_records(log.start - 1)
        if error != NONE:
            yield "D16", f"would answer {error} to a deletion of records that it has deleted"
    yield from _of_flushes(partition, log)


def _of_flushes(partition: Partition, log: LogView) -> Iterator[tuple[str, str]]:
    durability = partition.durability
    if log.end <= durability.end or durability.asked is not None:
        return
    now = partition.with_.now
    if durability.oldest is None or durability.rests_until > now:
        return
    for config, settings in (
        ("flush.messages=1", replace(partition.settings, flush_messages=1)),
        ("flush.ms=0", replace(partition.settings, flush_ms=0)),
    ):
        copy = _copy(partition, log)
        copy.configured(settings)
        if not any(isinstance(effect, FlushLog) for effect in copy.with_.effects):
            yield (
                "D17",
                f"would not flush its log from {durability.end} to {log.end} once {config} is set",
            )


def _batch(size: int, attributes: int = 0) -> Batch:
    """Return the header of a batch of one record, by no producer."""
    return Batch(-1, 0, -1, -1, -1, -1, 0, 1, size, 0, attributes)


def _copy(partition: Partition, log: LogView) -> Partition:
    """Return a leader in the same state, with an empty log from the start to the end of ``log``."""
    copy, known = copy_of(partition), partition.durability
    opened = LogOpened(
        partition.key, log.start, log.end, tuple(log.epochs.entries), (), partition.hw
    )
    copy.log, copy.durability = LogView(opened), Durability(known.end)
    copy.durability.oldest, copy.durability.rests_until = known.oldest, known.rests_until
    return copy
