"""Judges the reasons that brokers give when they refuse requests about records: D16.

A refusal names a state that the broker was in. It does not lead, or in another epoch. Its ISR is
too small. The offset is outside of its log, or the sequence number does not follow the last one. A
request that was refused for another reason would have succeeded.
"""

from __future__ import annotations

from typing import Any, Final

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import (
    DeleteRecordsReceived,
    EpochEndsReceived,
    FetchReceived,
    ListOffsetsReceived,
    ProduceReceived,
)
from kraftwreck.nodes.replication.headers import Batch, PartitionKey
from kraftwreck.nodes.replication.partition import CONSUMER, Partition
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.systems.kraft.sequence_numbers import following, last_of
from kraftwreck.systems.kraft.simulated.answer_evidence import AnswerEvidence
from kraftwreck.systems.kraft.simulated.binding import record_traffic
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage
from kraftwreck.systems.kraft.simulated.per_second import PerSecond
from kraftwreck.systems.kraft.simulated.record_logs import (
    RecordLog,
    disk_of_records,
    name_of,
    replicas_on,
)
from kraftwreck.systems.kraft.simulated.record_watch import counted, least_in_sync
from kraftwreck.systems.kraft.simulated.step_logs import first_unless_right

MOST_REFUSED: Final = 20
"""Refused fetches of a follower within a second: it waits for a second after most errors, and
learns the leader's offsets after the others."""
ALL: Final = -1
"""acks=all."""


class RecordRefusals:
    """Judges the errors in answers of brokers by ``evidence``, as they leave."""

    def __init__(self, evidence: AnswerEvidence) -> None:
        self._world, self._failures = evidence.world, evidence.failures
        self._watch, self._steps = evidence.watch, evidence.steps
        self._positions = evidence.positions
        self._epochs: dict[tuple[int, int, int], int] = {}
        """By host, its life and fetch session: the last epoch that was answered."""
        self._refused = PerSecond()
        """Refused fetches by follower, leader and partition."""
        record_traffic(self._world).on_answer.append(self.answered)

    def _is_settled(self, host: Host, key: PartitionKey) -> bool:
        """Whether the last step left the role in a partition alone: an answer of that step may have
        been given before or after."""
        before, now = self._positions.before(host, key), self._positions.now(host, key)
        if before is None or now is None:
            return before is now
        return before.leads == now.leads

    def _commits_nothing(self, host: Host, key: PartitionKey) -> bool:
        """Whether the last step left the high watermark alone."""
        before, now = self._positions.before(host, key), self._positions.now(host, key)
        if before is None or now is None:
            return before is now
        return before.hw == now.hw

    def _counts_as_before(self, host: Host, key: PartitionKey) -> bool:
        """Whether the last step left the number of counted replicas alone. A fetch may add one."""
        before, now = self._positions.before(host, key), self._positions.now(host, key)
        if before is None or now is None:
            return before is now
        return before.counted == now.counted

    def answered(self, host: Host, message: RecordMessage, effect: Any, body: Any) -> None:
        """Judge an answer before it leaves: ``effect`` is the core's."""
        event = message.call.event if message.call is not None else None
        if isinstance(event, ProduceReceived) and isinstance(effect, out.ReplyProduce):
            self._produced(host, event, effect)
        elif isinstance(event, FetchReceived) and isinstance(effect, out.ReplyFetch):
            self._fetched(host, event, effect)
            if event.replica_id != CONSUMER and not message.is_copy:
                self._count(host, event, effect)
        elif isinstance(event, ListOffsetsReceived) and isinstance(effect, out.ReplyListOffsets):
            named = {key: epoch for key, _, epoch in event.parts}
            follower = event.replica_id != CONSUMER
            for told in effect.parts:
                self._judge(host, told.key, told.error, named.get(told.key, -1), follower)
        elif isinstance(event, EpochEndsReceived) and isinstance(effect, out.ReplyEpochEnds):
            named = {key: epoch for key, epoch, _ in event.parts}
            for key, error, _, _ in effect.parts:
                self._judge(host, key, error, named.get(key, -1), follower=False)
        elif isinstance(event, DeleteRecordsReceived) and isinstance(
            effect, out.ReplyDeleteRecords
        ):
            self._deleted(host, event, effect)

    def _fail(self, host: Host, key: PartitionKey, error: int, reason: str) -> None:
        if reason:
            self._failures.add(
                "D16",
                self._world.now,
                f"{host.name} refuses a request for {name_of(key)} with error {error}, but"
                f" {reason}",
            )

    def _log(self, host: Host, key: PartitionKey) -> RecordLog | None:
        """Return the log on the disk, None unless it has what the core says."""
        full = disk_of_records(host).logs.full
        return None if key in full else self._watch.logs.of(host.id, key)

    def _produced(self, host: Host, event: ProduceReceived, effect: out.ReplyProduce) -> None:
        """Judge requests with one batch: others may have been refused before they were answered."""
        if len(event.batches) != 1 or len(effect.parts) != 1:
            return
        told, (key, batch) = effect.parts[0], event.batches[0]
        partition = replicas_on(host).get(key)
        if not self._is_settled(host, key):
            return
        deposed = partition is not None and partition.log is not None and not partition.leading
        if told.error in (errors.NONE, errors.REQUEST_TIMED_OUT) and deposed:
            reason = (
                "acknowledges" if told.error == errors.NONE else "keeps waiting for replicas of"
            )
            self._failures.add(
                "D16",
                self._world.now,
                f"{host.name} {reason} a batch of {name_of(key)}, which it does not lead",
            )
        elif told.error == errors.REQUEST_TIMED_OUT:
            self._in_time(host, effect.token, key, told.error, event.timeout_ms)
        elif told.error == errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND and not self._counts_as_before(
            host, key
        ):
            return
        elif told.error != errors.NONE:
            log = self._log(host, key)
            logs = (None,) if log is None else self._steps.states(host, key, log)
            reason = first_unless_right(
                wrongly_refused(partition, each, batch, event.acks, told.error) for each in logs
            )
            self._fail(host, key, told.error, reason)

    def _in_time(self, host: Host, token: int, key: PartitionKey, error: int, wait_ms: int) -> None:
        """An answer that time has run out comes when it has, by the clock of the broker."""
        request = host.tokens.get(token)
        if isinstance(request, ClientCall):
            waited = host.clock.elapsed(request.sent, self._world.now)
            late = waited >= wait_ms * 1000
            self._fail(host, key, error, "" if late else f"only {waited} of {wait_ms * 1000} µs")

    def _judge(
        self, host: Host, key: PartitionKey, error: int, leader_epoch: int, follower: bool
    ) -> None:
        partition = replicas_on(host).get(key)
        if error == errors.OFFSET_NOT_AVAILABLE and not self._commits_nothing(host, key):
            return
        if error != errors.NONE and self._is_settled(host, key):
            reason = wrongly_answered(partition, error, leader_epoch, follower=follower)
            self._fail(host, key, error, reason)

    def _fetched(self, host: Host, event: FetchReceived, effect: out.ReplyFetch) -> None:
        if effect.error != errors.NONE:
            return
        if effect.session_id and event.session_epoch > 0:
            self._continued(host, event, effect)
        asked = {part.key: part for part in event.parts}
        follower = event.replica_id != CONSUMER
        if asked and not follower and event.min_bytes > 0:
            self._waited(host, event, effect)
        for told in effect.parts:
            part, log = asked.get(told.key), self._log(host, told.key)
            partition = replicas_on(host).get(told.key)
            if part is None or told.error == errors.NONE:
                continue
            self._judge(host, told.key, told.error, part.leader_epoch, follower)
            if told.error != errors.OFFSET_OUT_OF_RANGE or partition is None or log is None:
                continue
            if part.last_fetched_epoch <= partition.assignment.leader_epoch:
                states = self._steps.states(host, told.key, log)
                reason = first_unless_right(_inside(each, part.offset) for each in states)
                self._fail(host, told.key, told.error, reason)

    def _count(self, host: Host, event: FetchReceived, effect: out.ReplyFetch) -> None:
        """L8: a follower whose fetch is refused waits before it asks again, and one whose log
        diverges cuts it. Copies that the network makes arrive late, many at a time."""
        for told in effect.parts:
            if told.error == errors.NONE and told.diverging is None:
                continue
            count = self._refused.count((event.replica_id, host.id, told.key), self._world.now)
            if count == MOST_REFUSED:
                self._failures.add(
                    "L8",
                    self._world.now,
                    f"broker {event.replica_id} fetches {name_of(told.key)} from {host.name}"
                    f" {count} times within a second, and is refused (error {told.error}, diverging"
                    f" {told.diverging})",
                )

    def _waited(self, host: Host, event: FetchReceived, effect: out.ReplyFetch) -> None:
        """A consumer's long poll without news ends when its time is over."""
        if any(part.error or part.diverging or part.records for part in effect.parts):
            return
        request = host.tokens.get(effect.token)
        if isinstance(request, ClientCall):
            waited = host.clock.elapsed(request.sent, self._world.now)
            if waited < event.max_wait_ms * 1000:
                self._failures.add(
                    "D16",
                    self._world.now,
                    f"{host.name} answers a fetch of {event.max_wait_ms} ms without records after"
                    f" {waited} µs",
                )

    def _continued(self, host: Host, event: FetchReceived, effect: out.ReplyFetch) -> None:
        """The requests of a session are answered once each (KIP-227): a second one with the same
        epoch may be an old one that was delayed."""
        place = host.id, host.life, effect.session_id
        known = self._epochs.get(place, 0)
        self._epochs[place] = max(known, event.session_epoch)
        if event.session_epoch <= known:
            self._failures.add(
                "D16",
                self._world.now,
                f"{host.name} answers request {event.session_epoch} of a fetch session after"
                f" request {known}",
            )

    def _deleted(
        self, host: Host, event: DeleteRecordsReceived, effect: out.ReplyDeleteRecords
    ) -> None:
        if len(event.parts) != 1 or len(effect.parts) != 1:
            return
        (key, offset), (_, error, _) = event.parts[0], effect.parts[0]
        partition = replicas_on(host).get(key)
        if error == errors.OFFSET_OUT_OF_RANGE and partition is not None:
            inside = -1 <= offset <= partition.hw and self._commits_nothing(host, key)
            reason = f"its high watermark is {partition.hw}" if inside else ""
            self._fail(host, key, error, reason)
        elif error == errors.REQUEST_TIMED_OUT:
            self._in_time(host, effect.token, key, error, event.timeout_ms)
        else:
            self._judge(host, key, error, -1, follower=False)


def _inside(log: RecordLog, offset: int) -> str:
    """Return where ``log`` begins and ends if ``offset`` is not out of its range, else ""."""
    inside = log.start <= offset <= log.end
    return f"its log goes from {log.start} to {log.end}" if inside else ""


def wrongly_refused(
    partition: Partition | None, log: RecordLog | None, batch: Batch, acks: int, error: int
) -> str:
    """Return why ``error`` is no true answer to a Produce of ``batch`` alone; "" if it may be true.

    ``log`` is the log on the broker's disk, None if it is not known.
    """
    if error == errors.UNKNOWN_TOPIC_OR_PARTITION:
        return "it has the partition" if partition is not None else ""
    if partition is None:
        return ""
    if error == errors.NOT_LEADER_OR_FOLLOWER:
        return _leads(partition)
    if error == errors.NOT_ENOUGH_REPLICAS:
        size, least = len(partition.in_sync.isr), least_in_sync(partition)
        return f"{size} of {least} replicas are in sync" if size >= least or acks != ALL else ""
    if error == errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
        size, least = len(counted(partition)), least_in_sync(partition)
        return f"{size} of {least} replicas are in sync" if size >= least else ""
    if error == errors.MESSAGE_TOO_LARGE:
        most = partition.settings.max_batch_bytes
        return f"it has {batch.size} of {most} bytes" if batch.size <= most else ""
    if log is not None and partition.leading:
        return _out_of_sequence(log, batch, error)
    return ""


def _out_of_sequence(log: RecordLog, batch: Batch, error: int) -> str:
    """Judge the errors of idempotent producers by the last batch of this one in the log."""
    if error not in (errors.OUT_OF_ORDER_SEQUENCE_NUMBER, errors.INVALID_PRODUCER_EPOCH):
        return ""
    own = [each for each in log.batches if each.producer_id == batch.producer_id]
    if not own:
        # What was deleted is remembered for a while.
        return "" if log.start else "the log has no batch of the producer"
    last = own[-1]
    told = f"its last batch has epoch {last.producer_epoch} and ends with {last_of(last)}"
    if error == errors.INVALID_PRODUCER_EPOCH:
        return told if batch.producer_epoch >= last.producer_epoch else ""
    if batch.producer_epoch < last.producer_epoch:
        return told
    newer = batch.producer_epoch > last.producer_epoch
    if not newer and batch.base_sequence == last.base_sequence and batch.count == last.count:
        return f"{told}: this is the same batch"
    wanted = 0 if newer else following(last_of(last))
    return told if batch.base_sequence == wanted else ""


def wrongly_answered(
    partition: Partition | None, error: int, leader_epoch: int, *, follower: bool
) -> str:
    """Return why ``error`` is no true answer to a request that names ``leader_epoch`` (-1: none)
    for one partition; "" if it may be true."""
    if error == errors.UNKNOWN_TOPIC_OR_PARTITION:
        return "it has the partition" if partition is not None else ""
    if partition is None:
        return ""
    own = partition.assignment.leader_epoch
    if error == errors.FENCED_LEADER_EPOCH:
        return f"its epoch is {own}" if not 0 <= leader_epoch < own else ""
    if follower:
        return ""
    if error == errors.UNKNOWN_LEADER_EPOCH:
        return f"its epoch is {own}" if leader_epoch <= own else ""
    if error == errors.NOT_LEADER_OR_FOLLOWER:
        return _leads(partition)
    if error == errors.OFFSET_NOT_AVAILABLE:
        begun = partition.leading and partition.hw >= partition.epoch_start
        return f"its high watermark is {partition.hw}" if begun else ""
    return ""


def _leads(partition: Partition) -> str:
    leads = partition.leading and partition.log is not None
    return f"it leads epoch {partition.assignment.leader_epoch}" if leads else ""
