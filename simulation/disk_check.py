"""Compares the state that a start read from the files with the operations before.

After a kill the files must hold everything that was written. After a loss of power, or an fsync
that failed and dropped its pages, the log must hold at least what was flushed; all other operations
are durable when they end. An operation that was under way when the process died may have been
carried out, or not, or in the steps that ``nodes.log`` allows. A log is cut from its end, cleaned
from its start, and emptied below a finished snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping

from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    CleanLog,
    FinishSnapshot,
    InstallSnapshot,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.log.quorum_state import kept_of
from kraftwreck.simulation.disk_index import (
    DiskIndex,
    Durable,
    SnapshotId,
    age,
    batch_epoch,
    batch_range,
)


def disagreements(
    index: DiskIndex,
    pending: Durable | None,
    lossy: bool,
    found: Recovered,
    snapshots: Mapping[SnapshotId, bytes],
) -> list[str]:
    """Return the faults in ``found``, one line each; empty if the state is allowed.

    ``pending`` is the operation that was under way when the process died, ``lossy`` whether
    unflushed contents were lost since the last start; ``snapshots`` are the contents of the files
    found.
    """
    wrong = _log_wrong(index, pending, lossy, found)
    texts = [] if wrong is None else [wrong]
    texts += _snapshots_wrong(index, pending, found, snapshots)
    states = [index.quorum_state]
    if isinstance(pending, WriteQuorumState):
        states.append(pending)
    if kept_of(found.quorum_state) not in [kept_of(state) for state in states]:
        texts.append(f"quorum-state says {found.quorum_state}, written was {states[-1]}")
    return texts


def _log_wrong(
    index: DiskIndex, pending: Durable | None, lossy: bool, found: Recovered
) -> str | None:
    written, ends = index.log, index.ends
    needed = index.flushed if lossy else len(written)
    if isinstance(pending, TruncateLog):
        needed = min(needed, index.batches_below(pending.end_offset))
    elif isinstance(pending, AppendLog):
        base, end = batch_range(pending.batch)
        if base == index.end_offset:
            written, ends = [*written, pending.batch], [*ends, end]
    elif isinstance(pending, InstallSnapshot):
        needed = 0
    start, batches = found.start_offset, list(found.batches)
    must = not lossy and pending is None and _begins_anew(index, index.latest, written, ends)
    if must or not batches:
        latest = max(snapshots_of(found), key=age, default=None)
        if latest is not None and start == latest[0] and not batches:
            allowed = isinstance(pending, InstallSnapshot) or any(
                _begins_anew(index, latest, written[:count], ends[:count])
                for count in range(needed, len(written) + 1)
            )
            if allowed:
                return None
        if must:
            return f"the log begins at {start}, but not as after snapshot {index.latest}"
    last = index.start_after(pending.start_offset) if isinstance(pending, CleanLog) else index.start
    if not index.start <= start <= last or (start != index.start and start not in index.segments):
        return f"the log begins at {start}; it began at {index.start}"
    first = index.batches_below(start) if start > index.start else 0
    if batches != written[first : first + len(batches)]:
        place = next(
            (
                n
                for n, (ours, theirs) in enumerate(zip(written[first:], batches, strict=False))
                if ours != theirs
            ),
            len(written) - first,
        )
        at = batch_range(batches[place])[0]
        return f"the batch at offset {at} is not the one that was written"
    if first + len(batches) < needed:
        end = batch_range(batches[-1])[1] if batches else start
        what = "flushed" if lossy else "written"
        return f"the log ends at {end}, and was {what} up to {ends[needed - 1]}"
    return None


def _begins_anew(
    index: DiskIndex, latest: SnapshotId | None, batches: list[bytes], ends: list[int]
) -> bool:
    """Return whether a start must empty a log of ``batches`` to begin at ``latest``."""
    if latest is None:
        return False
    if batches:
        end, epoch = ends[-1], batch_epoch(batches[-1])
    else:
        end = index.start
        epoch = max((epoch for at, epoch in index.snapshots if at == end), default=0)
    return age(latest) > (epoch, end) or latest[0] > end


def snapshots_of(found: Recovered) -> list[SnapshotId]:
    """Return the ids of the snapshots found."""
    return [file.id for file in found.snapshots]


def _snapshots_wrong(
    index: DiskIndex,
    pending: Durable | None,
    found: Recovered,
    snapshots: Mapping[SnapshotId, bytes],
) -> list[str]:
    allowed = dict(index.snapshots)
    floor = found.start_offset
    if isinstance(pending, FinishSnapshot):
        name = pending.end_offset, pending.epoch
        if name in index.parts:
            allowed[name] = bytes(index.parts[name])
    elif isinstance(pending, CleanLog):
        floor = max(floor, pending.start_offset)
    elif isinstance(pending, InstallSnapshot):
        floor = max(floor, pending.end_offset)
    texts = []
    for name in index.snapshots:
        if name[0] >= floor and name not in snapshots:
            texts.append(f"snapshot {name} is gone")
    for name, content in snapshots.items():
        if name not in allowed:
            texts.append(f"there is a snapshot {name}, which was removed or never finished")
        elif content != allowed[name]:
            texts.append(f"snapshot {name} does not hold what was written")
    names = snapshots_of(found)
    if sorted(names) != sorted(snapshots):
        texts.append(f"the snapshots {sorted(snapshots)} were found as {names}")
    elif names and found.latest != snapshots[names[-1]]:
        texts.append(f"snapshot {names[-1]} was read with other content")
    return texts
