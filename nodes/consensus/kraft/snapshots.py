"""Snapshots as the replica handles them: made here, served, fetched, and old ones removed.

Invariants:
* a snapshot ``(end, epoch)`` is made of committed records only, at a batch boundary, and its
  id is that of this log (I19, I20): :func:`begin`;
* the log never begins after the end of the latest snapshot, so nothing is ever missing
  between the two (I21): :func:`clean`;
* a leader is never given a snapshot to load (I22): only a follower downloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftwreck.nodes.consensus.effects import (
    AppendSnapshot,
    CleanLog,
    ContradictionError,
    DropSnapshot,
    FatalError,
    FinishSnapshot,
    Reply,
    SnapshotReply,
)
from kraftwreck.nodes.consensus.kraft.fetches import MAX_BYTES
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from kraftwreck.nodes.consensus.kraft.states import Download, Follower
from kraftwreck.nodes.consensus.recovered import SnapshotFile
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.snapshots import SnapshotCorruptError, header_batch, snapshot_name, verify
from kraftwreck.nodes.protocol import errors

if TYPE_CHECKING:
    from kraftwreck.nodes.consensus.kraft.replica import Replica
    from kraftwreck.nodes.consensus.kraft.replication import Replication

MS = 1000
BOOTSTRAP = (0, 0)


# --- generated here -----------------------------------------------------------------------------


def begin(replica: Replication, end_offset: int, epoch: int) -> bytes | None:
    """Return the header batch of a new snapshot ``(end_offset, epoch)``.

    None if there is one at least as new. None also while this node, a new leader, does not know its
    high watermark; a snapshot that is due by time waits for that. Raises FatalError for an id that
    is not in this log: beyond the high watermark, inside a batch, or of another epoch.
    """
    if replica.snapshots and replica.snapshots[-1].id >= (end_offset, epoch):
        return None
    if replica.high_watermark < 0:
        return None
    batch = replica.log.batch_ending_at(end_offset)
    if end_offset > replica.high_watermark or batch is None:
        raise FatalError(
            f"no snapshot can end at {end_offset}: the high watermark is "
            f"{replica.high_watermark}, or no batch ends there"
        )
    header = parse_header(batch)
    if header.epoch != epoch:
        raise FatalError(f"offset {end_offset - 1} has epoch {header.epoch}, not {epoch}")
    voters, level = replica.history.at(end_offset)
    dynamic = level >= 1
    return header_batch(
        epoch,
        replica.wall_ms,
        header.max_timestamp,
        level if dynamic else None,
        voters.record()["voters"] if dynamic else None,
    )


def piece(replica: Replication, end_offset: int, epoch: int, position: int, data: bytes) -> None:
    """Write a piece of a snapshot in progress."""
    replica.effects.append(AppendSnapshot(end_offset, epoch, position, data))


def finish(
    replica: Replication, end_offset: int, epoch: int, size: int, timestamp: int, digest: str
) -> None:
    """Complete a snapshot: it may now be served, and the log cleaned up to it."""
    if replica.snapshots and replica.snapshots[-1].id >= (end_offset, epoch):
        replica.effects.append(DropSnapshot(end_offset, epoch))
        return
    replica.effects.append(FinishSnapshot(end_offset, epoch))
    replica.snapshots.append(SnapshotFile(end_offset, epoch, size, timestamp))
    detail = {"end": end_offset, "epoch": epoch, "by": "created", "digest": digest}
    replica.trace("snapshot", detail)


# --- clean-up -----------------------------------------------------------------------------------


def clean(replica: Replication) -> None:
    """Remove the oldest snapshots and the log below the remaining ones, as retention allows.

    A snapshot that is being fetched stays, with the log after it. Otherwise a follower would never
    catch up if snapshots were replaced faster than they are sent.
    """
    config = replica.config
    silent_since = replica.now - config.fetch_timeout_ms * MS
    replica.served = {s: at for s, at in replica.served.items() if at > silent_since}
    files = replica.snapshots
    start = -1
    total = replica.log.size + sum(file.size for file in files)
    oldest = replica.wall_ms - config.retention_ms
    while len(files) >= 2 and (total > config.retention_bytes or files[0].timestamp < oldest):
        if files[0].id in replica.served:
            break
        total -= files[0].size
        del files[0]
        start = files[0].end_offset
        if start > replica.log.start_offset:
            before = replica.log.size
            replica.log.clean(files[0].id)
            total -= before - replica.log.size
    if start >= 0:
        replica.history.clean(replica.log.start_offset)
        replica.effects.append(CleanLog(start))
        replica.trace("clean", {"start": start})


# --- served -------------------------------------------------------------------------------------


def serve(
    replica: Replica, request: FetchSnapshotRequest
) -> tuple[FetchSnapshotResponse, int | None]:
    """Return the answer to FetchSnapshot, and how many bytes the shell may add (None: none)."""

    def reply(partition_error: int, error: int = errors.NONE) -> FetchSnapshotResponse:
        return FetchSnapshotResponse(
            error,
            partition_error,
            replica.leader_id,
            replica.epoch,
            request.snapshot_end,
            request.snapshot_epoch,
            leader_endpoint=replica.leader_endpoint,
        )

    cluster_id = request.cluster_id
    if cluster_id is not None and cluster_id != replica.config.cluster_id:
        return reply(0, errors.INCONSISTENT_CLUSTER_ID), None
    if request.current_leader_epoch < replica.epoch:
        return reply(errors.FENCED_LEADER_EPOCH), None
    if request.current_leader_epoch > replica.epoch:
        return reply(errors.UNKNOWN_LEADER_EPOCH), None
    leader = replica.state
    if not isinstance(leader, Leader):
        return reply(errors.NOT_LEADER_OR_FOLLOWER), None
    if replica.shutting_down:
        return reply(errors.BROKER_NOT_AVAILABLE), None
    wanted = (request.snapshot_end, request.snapshot_epoch)
    size = next((s.size for s in replica.snapshots if s.id == wanted), None)
    if size is None or wanted == BOOTSTRAP:
        return reply(errors.SNAPSHOT_NOT_FOUND), None
    if not 0 <= request.position < size:
        return reply(errors.POSITION_OUT_OF_RANGE), None
    leader.heard_from(request.replica_id, request.directory, replica.now)
    replica.served[wanted] = replica.now
    response = reply(errors.NONE)
    response.size = size
    response.position = request.position
    return response, max(1, min(request.max_bytes, MAX_BYTES))


def send_reply(replica: Replica, token: int, request: FetchSnapshotRequest) -> None:
    """Answer FetchSnapshot."""
    response, allowed = serve(replica, request)
    if allowed is None:
        replica.effects.append(Reply(token, response))
    else:
        replica.effects.append(SnapshotReply(token, response, allowed))


# --- fetched ------------------------------------------------------------------------------------


def start_download(replica: Replica, follower: Follower, end_offset: int, epoch: int) -> None:
    """Begin to fetch the leader's snapshot, unless it is here already."""
    if any(s.id == (end_offset, epoch) for s in replica.snapshots):
        return
    if end_offset < replica.high_watermark:
        raise ContradictionError(
            f"the leader offers snapshot {end_offset}, below the high watermark "
            f"{replica.high_watermark}"
        )
    follower.download = Download(end_offset, epoch)
    replica.trace("download", {"end": end_offset, "epoch": epoch})


def request_piece(replica: Replica, download: Download) -> FetchSnapshotRequest:
    """Return the request for the next piece of a download."""
    config = replica.config
    return FetchSnapshotRequest(
        config.cluster_id,
        config.node_id,
        config.directory_id,
        config.fetch_snapshot_max_bytes,
        replica.epoch,
        download.end_offset,
        download.epoch,
        len(download.content),
    )


def received(
    replica: Replica, follower: Follower, source: int, response: FetchSnapshotResponse
) -> None:
    """Take a piece of the snapshot; after the last one the log starts at its end."""
    download = follower.download
    if download is None or source != follower.leader_id:
        return
    if response.partition_error == errors.SNAPSHOT_NOT_FOUND or response.snapshot_end < 0:
        _drop(replica, follower)
    elif (response.snapshot_end, response.snapshot_epoch) != (download.end_offset, download.epoch):
        raise ContradictionError(f"leader {source} sends a snapshot that was not requested")
    elif response.position != len(download.content):
        raise ContradictionError(
            f"leader {source} sends byte {response.position} of a snapshot, "
            f"{len(download.content)} was asked for"
        )
    elif not response.data:
        _discard(replica, follower, source, "an empty piece")
    else:
        replica.effects.append(
            AppendSnapshot(
                download.end_offset, download.epoch, response.position, bytes(response.data)
            )
        )
        download.content += response.data
        if len(download.content) >= response.size:
            _complete(replica, follower, source, download)
    follower.answered(replica.fetch_deadline())


def _complete(replica: Replica, follower: Follower, source: int, download: Download) -> None:
    content = bytes(download.content)
    name = snapshot_name(download.end_offset, download.epoch)
    try:
        verify(content, name)
    except SnapshotCorruptError as error:
        _discard(replica, follower, source, str(error))
        return
    follower.download = None
    replica.install(download.end_offset, download.epoch, content)


def _discard(replica: Replica, follower: Follower, source: int, reason: str) -> None:
    """Give up a download that was damaged in transit or at the leader: never install it.

    Fetch it again, but not at once, as the leader may have nothing better for a long time.
    """
    replica.trace("discard", {"reason": reason})
    replica.links.refused(source, replica.now)
    _drop(replica, follower)


def _drop(replica: Replica, follower: Follower) -> None:
    download, follower.download = follower.download, None
    if download is not None:
        replica.effects.append(DropSnapshot(download.end_offset, download.epoch))
