"""Snapshots: made here, sent in pieces, received and installed.

A snapshot covers committed records only. Once it is complete, the log begins at its end, so a
follower that needs older records receives the snapshot. The leader sends it from memory; the state
machine, of about the same size, is in memory as well.
"""

from __future__ import annotations

from kraftwreck.nodes.consensus.effects import (
    AppendSnapshot,
    CleanLog,
    ContradictionError,
    DropSnapshot,
    FatalError,
    FinishSnapshot,
    InstallSnapshot,
)
from kraftwreck.nodes.consensus.raft.messages import InstallSnapshotRequest
from kraftwreck.nodes.consensus.raft.replica import RaftReplica
from kraftwreck.nodes.consensus.raft.states import Download, Follower, Progress
from kraftwreck.nodes.consensus.recovered import Snapshot
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.snapshots import SnapshotCorruptError, header_batch, snapshot_name, verify

# --- made here ----------------------------------------------------------------------------


def begin(replica: RaftReplica) -> tuple[int, int, bytes] | None:
    """Return ``(end offset, term, head)`` of a snapshot of all that is committed.

    ``head`` is its first batch. None if nothing was committed since the last snapshot.
    """
    end = replica.commit_offset
    batch = replica.log.batch_ending_at(end)
    if batch is None:
        return None
    header = parse_header(batch)
    return end, header.epoch, header_batch(header.epoch, replica.wall_ms, header.max_timestamp)


def piece(replica: RaftReplica, snapshot: Snapshot, position: int, data: bytes) -> None:
    """Write a piece of a snapshot in progress."""
    replica.effects.append(AppendSnapshot(snapshot.end_offset, snapshot.epoch, position, data))


def finish(replica: RaftReplica, snapshot: Snapshot) -> None:
    """Complete a snapshot, and let the log begin at its end."""
    end, term = snapshot.end_offset, snapshot.epoch
    if end > replica.commit_offset:
        raise FatalError(f"snapshot {end} ends above the committed {replica.commit_offset}")
    replica.effects.append(FinishSnapshot(end, term))
    replica.snapshot = snapshot
    replica.trace("snapshot", {"end": end, "epoch": term, "by": "created", "digest": ""})
    replica.log.clean((end, term))
    replica.effects.append(CleanLog(end))
    replica.trace("clean", {"start": end})


# --- sent ---------------------------------------------------------------------------------


def next_piece(replica: RaftReplica, progress: Progress) -> InstallSnapshotRequest:
    """Return the request with the next piece for a follower that needs records below the log."""
    snapshot = progress.transfer
    if snapshot is None:
        # A transfer keeps its snapshot until it is complete, even if there is a newer one.
        snapshot = progress.transfer = replica.snapshot
        progress.position = 0
    if snapshot is None:
        raise FatalError("the log begins after a snapshot that is not here")
    start, size = progress.position, len(snapshot.content)
    return InstallSnapshotRequest(
        replica.config.cluster_id,
        replica.term,
        replica.node_id,
        snapshot.end_offset,
        snapshot.epoch,
        size,
        start,
        snapshot.content[start : start + replica.config.snapshot_piece_bytes],
    )


def acknowledged(progress: Progress, position: int) -> None:
    """Continue a transfer at ``position``, the next one that the follower needs."""
    snapshot = progress.transfer
    if snapshot is None:
        return
    if not 0 <= position <= len(snapshot.content):
        raise ContradictionError(f"position {position} of a snapshot of {len(snapshot.content)}")
    progress.position = position
    if position == len(snapshot.content):
        progress.transfer = None
        progress.match_offset = max(progress.match_offset, snapshot.end_offset)
        progress.next_offset = max(progress.next_offset, progress.match_offset)


# --- received -----------------------------------------------------------------------------


def check(request: InstallSnapshotRequest) -> None:
    """Raise :class:`ContradictionError` unless the piece can be one of a snapshot."""
    last = request.position + len(request.data)
    if request.position < 0 or not request.data or last > request.size:
        raise ContradictionError(f"bytes {request.position} to {last} of {request.size}")
    if request.end_offset <= 0 or not 0 < request.end_term <= request.term:
        raise ContradictionError(f"snapshot {request.end_offset} of term {request.end_term}")


def receive(replica: RaftReplica, follower: Follower, request: InstallSnapshotRequest) -> int:
    """Take one piece; return the position of the next one, or the size if none is needed."""
    end, term = request.end_offset, request.end_term
    if end <= replica.commit_offset:
        _drop(replica, follower)
        return request.size
    if replica.log.epoch_before(end) == term:
        # The same last record: by log matching everything before it is the same, too.
        _drop(replica, follower)
        replica.set_commit(end)
        return request.size
    download = follower.download
    if download is None or (download.end_offset, download.end_term) != (end, term):
        if request.position != 0:
            return 0
        _drop(replica, follower)
        download = follower.download = Download(end, term)
    if request.position != len(download.content):
        return len(download.content)
    replica.effects.append(AppendSnapshot(end, term, request.position, bytes(request.data)))
    download.content += request.data
    if len(download.content) < request.size:
        return len(download.content)
    return _complete(replica, follower, download)


def _complete(replica: RaftReplica, follower: Follower, download: Download) -> int:
    content = bytes(download.content)
    end, term = download.end_offset, download.end_term
    try:
        verify(content, snapshot_name(end, term))
    except SnapshotCorruptError as error:
        replica.trace("discard", {"reason": str(error)})
        _drop(replica, follower)
        return 0
    follower.download = None
    replica.effects.append(FinishSnapshot(end, term))
    replica.effects.append(InstallSnapshot(end, term))
    replica.restart_at(Snapshot(end, term, content))
    return len(content)


def _drop(replica: RaftReplica, follower: Follower) -> None:
    download, follower.download = follower.download, None
    if download is not None:
        replica.effects.append(DropSnapshot(download.end_offset, download.end_term))
