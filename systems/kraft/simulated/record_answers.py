"""Watches the answers of brokers about records: D2, D4, D5, D10, D13 and D14, live.

A batch is known by its checksum, since every value that clients send is unique.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from kraftwreck.nodes.log.batch import BatchError, parse_header, split_batches
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import (
    EpochEndsReceived,
    FetchReceived,
    ListOffsetsReceived,
    ProduceReceived,
)
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.partition import CONSUMER, LATEST, Partition
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.record_logs import disk_of_records, name_of
from kraftwreck.systems.kraft.simulated.record_watch import RecordWatch, counted, least_in_sync
from kraftwreck.systems.kraft.simulated.replica_positions import ReplicaPositions

NOT_APPENDED: Final = frozenset(
    {
        errors.NOT_ENOUGH_REPLICAS,
        errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
        errors.INVALID_PRODUCER_EPOCH,
        errors.MESSAGE_TOO_LARGE,
        errors.CORRUPT_MESSAGE,
        errors.INVALID_RECORD,
    }
)
"""Errors which guarantee that the batch was not appended by this request."""

Sent = tuple[PartitionKey, int, int, int]
"""Partition, checksum, producer id, and first sequence number of a batch."""


class RecordAnswers:
    """Judges each answer to a client before it leaves.

    ``watch`` knows the committed logs, ``positions`` the leader epochs before a step.
    """

    def __init__(
        self, world: World, failures: Failures, watch: RecordWatch, positions: ReplicaPositions
    ) -> None:
        self._world = world
        self._failures = failures
        self._watch = watch
        self._positions = positions
        self._arrived: Counter[Sent] = Counter()
        self._refused: Counter[Sent] = Counter()
        self._acked: dict[Sent, int] = {}
        self._offsets: dict[tuple[PartitionKey, int], Sent] = {}
        self._watermarks: dict[tuple[PartitionKey, int], int] = {}
        self._latest: dict[tuple[PartitionKey, int], int] = {}
        watch.on_committed.append(self._committed)
        traffic = record_traffic(world)
        traffic.on_request.append(self.read)
        traffic.on_answer.append(self.answered)

    def _fail(self, rule: str, explanation: str) -> None:
        self._failures.add(rule, self._world.now, explanation)

    def read(self, host: Host, message: RecordMessage) -> None:
        """Note the batches of a client's request when a broker reads it."""
        event = message.call.event if message.call is not None else None
        if isinstance(event, ProduceReceived):
            self._arrived.update(_sent(key, batch) for key, batch in event.batches)

    def answered(self, host: Host, message: RecordMessage, effect: Any, body: Any) -> None:
        """Judge an answer: ``effect`` is the core's, ``body`` is what leaves."""
        event = message.call.event if message.call is not None else None
        node: Any = host.node
        partitions = node.broker.data.core.partitions
        self._judge_epochs(host, event, effect, partitions)
        if isinstance(effect, out.ReplyProduce) and isinstance(event, ProduceReceived):
            self._produced(host, event, body, partitions)
        elif isinstance(effect, out.ReplyFetch) and isinstance(event, FetchReceived):
            if event.replica_id == CONSUMER:
                self._fetched(host, effect, body, partitions)
        elif (
            isinstance(effect, out.ReplyListOffsets)
            and isinstance(event, ListOffsetsReceived)
            and event.replica_id == CONSUMER
        ):
            self._listed(host, event, effect, body)

    def _judge_epochs(
        self, host: Host, event: Any, effect: Any, partitions: dict[PartitionKey, Partition]
    ) -> None:
        """D10: who names a leader epoch gets an answer of that leader or an error (KIP-320).

        The step that answers may take newer metadata afterwards.
        """
        if isinstance(event, FetchReceived) and isinstance(effect, out.ReplyFetch):
            asked = {part.key: part.leader_epoch for part in event.parts}
            answers = [(part.key, part.error) for part in effect.parts]
        elif isinstance(event, ListOffsetsReceived) and isinstance(effect, out.ReplyListOffsets):
            asked = {key: epoch for key, _, epoch in event.parts}
            answers = [(part.key, part.error) for part in effect.parts]
        elif isinstance(event, EpochEndsReceived) and isinstance(effect, out.ReplyEpochEnds):
            asked = {key: epoch for key, epoch, _ in event.parts}
            answers = [(key, error) for key, error, _, _ in effect.parts]
        else:
            return
        for key, error in answers:
            named, partition = asked.get(key, -1), partitions.get(key)
            if error != errors.NONE or named < 0 or partition is None:
                continue
            present = partition.assignment.leader_epoch
            before = self._positions.before(host, key)
            if named != present and (before is None or named != before.epoch):
                self._fail(
                    "D10",
                    f"{host.name} answers a request for epoch {named} of {name_of(key)} in"
                    f" epoch {present}",
                )

    # --- Produce ----------------------------------------------------------------------------

    def _produced(
        self,
        host: Host,
        event: ProduceReceived,
        body: Any,
        partitions: dict[PartitionKey, Partition],
    ) -> None:
        parts = [part for topic in body["responses"] for part in topic["partition_responses"]]
        answers = {part["index"]: part for part in parts}
        for key, batch in event.batches:
            part, sent = answers[key[1]], _sent(key, batch)
            code, offset = part["error_code"], part["base_offset"]
            if code != errors.NONE:
                if offset != -1:
                    self._fail("D2", f"{host.name} gives offset {offset} with the error {code}")
                if code in NOT_APPENDED:
                    self._refused[sent] += 1
            elif event.acks == -1 and (partition := partitions.get(key)) is not None:
                self._acknowledged(host, partition, sent, batch, offset)

    def _acknowledged(
        self, host: Host, partition: Partition, sent: Sent, batch: Batch, offset: int
    ) -> None:
        key = partition.key
        where = f"{host.name} acknowledges offset {offset} of {name_of(key)}"
        size = len(counted(partition))
        if partition.leading and size < least_in_sync(partition):
            self._fail("D14", f"{where} with {size} replicas in sync")
        if partition.leading and partition.hw < offset + batch.count:
            self._fail("D1", f"{where}, above its high watermark {partition.hw}")
        elif key not in self._watch.lost and not self._is_committed(host, partition, batch, offset):
            self._fail("D1", f"{where}, where no leader has committed this batch")
        known = self._acked.setdefault(sent, offset)
        other = self._offsets.setdefault((key, offset), sent)
        if key not in self._watch.lost:
            if known != offset:
                self._fail("D2", f"{where} for the batch that it acknowledged at {known}")
            if other != sent:
                self._fail("D2", f"{where} for two batches")

    def _is_committed(self, host: Host, partition: Partition, batch: Batch, offset: int) -> bool:
        """Whether a leader has committed ``batch`` at ``offset``, or records there were deleted.

        A leader without room for later batches of the same step is judged after the next one; so
        far only its disk says what it has committed.
        """
        if partition.log is not None and offset < partition.log.start:
            return True
        if partition.leading and partition.key in disk_of_records(host).logs.full:
            log = self._watch.logs.of(host.id, partition.key)
            stored = None if log is None else log.at(offset)
            return stored is not None and stored.crc == batch.crc
        found = self._watch.committed_at(partition.key, offset)
        return found is not None and found[3] == batch.crc

    def _committed(self, key: PartitionKey, batch: Batch) -> None:
        """D4: a committed batch was sent, and its producer was not told that it is nowhere."""
        sent = _sent(key, batch)
        if sent not in self._arrived:
            self._fail("D4", f"a batch at {batch.base_offset} of {name_of(key)} was never sent")
        elif self._refused[sent] >= self._arrived[sent]:
            self._fail("D4", f"a batch at {batch.base_offset} of {name_of(key)} was refused before")

    # --- Fetch ------------------------------------------------------------------------------

    def _fetched(
        self,
        host: Host,
        effect: out.ReplyFetch,
        body: Any,
        partitions: dict[PartitionKey, Partition],
    ) -> None:
        """D5: nothing at or above the high watermark, which never decreases in a leader epoch."""
        given = [part for topic in body["responses"] for part in topic["partitions"]]
        for told in effect.parts:
            partition = partitions.get(told.key)
            if told.error != errors.NONE or partition is None or not partition.leading:
                continue
            watermark = told.high_watermark
            where = f"{host.name} lets a consumer read {name_of(told.key)}"
            if watermark > partition.hw:
                self._fail("D5", f"{where} up to {watermark}, above {partition.hw}")
            place = told.key, partition.assignment.leader_epoch
            known = self._watermarks.get(place, 0)
            if watermark < known:
                self._fail("D5", f"{where} up to {watermark}, after {known}")
            self._watermarks[place] = max(known, watermark)
        for part in given:
            end = _end(part["records"])
            if end > part["high_watermark"]:
                self._fail(
                    "D5",
                    f"{host.name} lets a consumer read partition {part['partition_index']} up to"
                    f" {end}, above the high watermark {part['high_watermark']}",
                )

    # --- ListOffsets ------------------------------------------------------------------------

    def _listed(
        self, host: Host, event: ListOffsetsReceived, effect: out.ReplyListOffsets, body: Any
    ) -> None:
        """D13: the latest offset does not decrease, in a leader epoch or from one to the next."""
        asked = {key: timestamp for key, timestamp, _ in event.parts}
        for told in effect.parts:
            if told.error != errors.NONE or asked.get(told.key) != LATEST:
                continue
            key, epoch, offset = told.key, told.leader_epoch, told.offset
            if key not in self._watch.lost:
                top = max(
                    (at for (k, e), at in self._latest.items() if k == key and e <= epoch),
                    default=0,
                )
                # A new leader may know the end only once it has committed what it began with.
                top = max(top, self._watch.committed_before(key, epoch))
                if offset < top:
                    self._fail(
                        "D13",
                        f"{host.name} says that {name_of(key)} ends at {offset} (epoch {epoch}),"
                        f" after {top}",
                    )
            self._latest[key, epoch] = max(offset, self._latest.get((key, epoch), 0))
        for topic in body["topics"]:
            for part in topic["partitions"]:
                if part["error_code"] != errors.NONE and part["offset"] != -1:
                    self._fail("D13", f"{host.name} gives offset {part['offset']} with an error")


def _sent(key: PartitionKey, batch: Batch) -> Sent:
    return key, batch.crc, batch.producer_id, batch.base_sequence


def _end(records: bytes | None) -> int:
    """Return the offset after the last whole batch of ``records``, -1 without one."""
    end = -1
    try:
        for batch in split_batches(records or b""):
            end = parse_header(batch).last_offset + 1
    except BatchError:
        return end
    return end
