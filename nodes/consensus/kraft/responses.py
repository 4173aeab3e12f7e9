"""Handlers of quorum RPC responses: first what is common to all, then each kind."""

from __future__ import annotations

from kraftwreck.nodes.consensus.containment import contained
from kraftwreck.nodes.consensus.effects import ContradictionError
from kraftwreck.nodes.consensus.kraft import membership, snapshots
from kraftwreck.nodes.consensus.kraft.messages import (
    ApiVersionsResponse,
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    QuorumResponse,
    Response,
    VoterChangeResponse,
    VoteResponse,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.states import (
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Unattached,
)
from kraftwreck.nodes.log.batch import (
    BatchError,
    BatchHeader,
    decode_batch,
    parse_header,
    split_batches,
    verify_crc,
)
from kraftwreck.nodes.log.scan import epoch_defect
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.records import KRAFT_VOTERS, decode_control

_LEARN = {errors.FENCED_LEADER_EPOCH, errors.NOT_LEADER_OR_FOLLOWER}


def handle_response(
    replica: Replica, source: int, correlation: int, message: Response | None
) -> None:
    """Handle the response to request ``correlation`` (None: the transport failed).

    ``containment`` defines which ones are rejected.
    """
    if not replica.links.close(source, correlation):
        return
    what = f"{type(message).__name__} of node {source}"
    if contained(replica, what, lambda: _handle(replica, source, message)) is not None:
        replica.links.refused(source, replica.now)


def _handle(replica: Replica, source: int, message: Response | None) -> None:
    if message is None:
        replica.links.failed(source, replica.now)
        membership.api_versions_answered(replica, source, None)
        return
    if isinstance(message, ApiVersionsResponse):
        replica.links.succeeded(source)
        membership.api_versions_answered(replica, source, message)
        return
    if isinstance(message, VoterChangeResponse):
        _voter_change(replica, source, message)
        return
    if message.error != errors.NONE:
        _top_level_error(replica, source, message)
        return
    if _common(replica, source, message):
        return
    if isinstance(message, FetchResponse):
        _fetch(replica, source, message)
    elif isinstance(message, FetchSnapshotResponse):
        _fetch_snapshot(replica, source, message)
    elif isinstance(message, VoteResponse):
        _vote(replica, source, message)
    elif isinstance(message, BeginQuorumEpochResponse):
        replica.links.succeeded(source)
    elif isinstance(message, EndQuorumEpochResponse):
        _end_quorum_epoch(replica, source)


def _top_level_error(replica: Replica, source: int, message: Response) -> None:
    old_peer = message.error == errors.UNSUPPORTED_VERSION and isinstance(message, VoteResponse)
    if old_peer and isinstance(replica.state, Prospective):
        replica.become_candidate()
        return
    if message.error == errors.CLUSTER_AUTHORIZATION_FAILED:
        raise ContradictionError(f"node {source} refuses this node: cluster authorization failed")
    replica.links.refused(source, replica.now)


def _common(replica: Replica, source: int, message: QuorumResponse) -> bool:
    """Learn leader and epoch; True if the response is then fully handled."""
    error = message.partition_error
    if error == errors.INVALID_REQUEST:
        answer = type(message).__name__
        raise ContradictionError(f"node {source} found our request invalid: {answer}")
    if message.leader_epoch < replica.epoch or error == errors.UNKNOWN_LEADER_EPOCH:
        replica.links.refused(source, replica.now)
        return True
    if message.leader_epoch > replica.epoch or error in _LEARN:
        before = (replica.epoch, replica.leader_id)
        replica.learn(message.leader_id, message.leader_epoch, message.leader_endpoint)
        if (replica.epoch, replica.leader_id) == before:
            # Nothing new: without a pause two nodes could send each other requests in a tight loop.
            replica.links.refused(source, replica.now)
        return True
    # An unattached node may know its leader from its last process, but not the leader's address.
    follows = replica.leader_id >= 0 and not isinstance(replica.state, Unattached)
    if message.leader_id >= 0 and not follows:
        replica.learn(message.leader_id, message.leader_epoch, message.leader_endpoint)
    if error == errors.INVALID_VOTER_KEY:
        replica.links.refused(source, replica.now)
        return True
    if error == errors.SNAPSHOT_NOT_FOUND and isinstance(message, FetchSnapshotResponse):
        return False
    if error != errors.NONE:
        replica.links.refused(source, replica.now)
        return True
    return False


def _voter_change(replica: Replica, source: int, message: VoterChangeResponse) -> None:
    """Handle the response to UpdateRaftVoter, or to a request to join the voters."""
    state = replica.state
    if message.error == errors.NONE:
        replica.links.succeeded(source)
        if isinstance(state, Follower) and state.leader_id == source:
            state.has_updated = True
        return
    replica.links.refused(source, replica.now)
    if message.leader_epoch > replica.epoch:
        replica.learn(message.leader_id, message.leader_epoch, message.leader_endpoint)


def _fetch_snapshot(replica: Replica, source: int, message: FetchSnapshotResponse) -> None:
    if message.partition_error == errors.SNAPSHOT_NOT_FOUND:
        # A leader with a damaged file sends this node to it again and again.
        replica.links.refused(source, replica.now)
    else:
        replica.links.succeeded(source)
    if isinstance(replica.state, Follower):
        snapshots.received(replica, replica.state, source, message)


def _vote(replica: Replica, source: int, message: VoteResponse) -> None:
    replica.links.succeeded(source)
    state = replica.state
    if not isinstance(state, Prospective | Candidate) or source not in replica.voters:
        return
    (state.granted if message.vote_granted else state.rejected).add(source)
    replica.maybe_advance_election()


def _end_quorum_epoch(replica: Replica, source: int) -> None:
    replica.links.succeeded(source)
    if isinstance(replica.state, Resigned):
        replica.state.unacknowledged.discard(source)


def _fetch(replica: Replica, source: int, message: FetchResponse) -> None:
    replica.links.succeeded(source)
    state = replica.state
    if not isinstance(state, Follower) or state.leader_id != source:
        return
    if message.diverging_epoch >= 0 and message.diverging_end >= 0:
        replica.truncate(
            _truncation_offset(replica, message.diverging_epoch, message.diverging_end)
        )
    elif message.snapshot_end >= 0 and message.snapshot_epoch >= 0:
        snapshots.start_download(replica, state, message.snapshot_end, message.snapshot_epoch)
    else:
        batches = _read_batches(replica, message.records)
        if 0 <= message.high_watermark < replica.high_watermark:
            raise ContradictionError(
                f"the leader's high watermark is {message.high_watermark}, "
                f"this node knows {replica.high_watermark}"
            )
        replica.append_as_follower(batches)
        replica.follow_high_watermark(message.high_watermark)
    state.answered(replica.fetch_deadline())


def _truncation_offset(replica: Replica, epoch: int, end: int) -> int:
    """Return where to cut, given the leader's end of ``epoch`` (KIP-101, KIP-595).

    Raises ContradictionError when the leader contradicts committed records.
    """
    if end < replica.high_watermark:
        raise ContradictionError(
            f"the leader's log diverges at {end}, below the high watermark {replica.high_watermark}"
        )
    log = replica.log
    if epoch == 0:
        cut = min(end, log.end_offset)
    else:
        own_end, own_epoch = log.end_offset_for_epoch(epoch)
        cut = min(own_end, end) if own_epoch == epoch else own_end
    return max(cut, replica.high_watermark)


def _read_batches(replica: Replica, records: bytes) -> list[tuple[bytes, BatchHeader]]:
    """Return the batches to append.

    Raises ContradictionError for batches that cannot follow this log or cannot be read: this node
    and later starts of it could not use a log that holds them.
    """
    try:
        return _usable_batches(replica, records)
    except (BatchError, ProtocolError) as error:
        raise ContradictionError(f"the leader sends bad records: {error}") from error


def _usable_batches(replica: Replica, records: bytes) -> list[tuple[bytes, BatchHeader]]:
    """Return the whole, undamaged batches up to this node's epoch; the rest is dropped."""
    usable: list[tuple[bytes, BatchHeader]] = []
    end, epoch = replica.log.end_offset, replica.log.last_epoch
    for batch in split_batches(records):
        header = parse_header(batch)
        if header.epoch > replica.epoch or not verify_crc(batch):
            break
        usable.append((bytes(batch), header))
        _check_batch(batch, header, end, epoch)
        end, epoch = header.last_offset + 1, header.epoch
    return usable


def _check_batch(batch: bytes, header: BatchHeader, end: int, epoch: int) -> None:
    """Raise BatchError or ProtocolError unless the batch can follow a log that ends there."""
    if header.base_offset != end:
        raise BatchError(f"a batch begins at {header.base_offset}, the log ends at {end}")
    if header.count != header.last_offset - end + 1:
        raise BatchError(f"{header.count} records from {end} to {header.last_offset}")
    if (defect := epoch_defect(header, epoch)) is not None:
        raise BatchError(defect)
    if header.is_control:
        for _, key, value in decode_batch(batch)[1]:
            kind, fields = decode_control(key, value)
            if kind == KRAFT_VOTERS and not fields["voters"]:
                raise BatchError(f"no voter is left at {end}")
