"""The disk that a node must have according to its recorded effects.

The input log does not contain the disk content of a process start. This module derives it from the
content at the previous start and the effects since. A crash leaves several possible contents, and
the recorded start identifies the actual one:

* the last step may have been carried out in part;
* batches that were not flushed may be gone (power failure, write-loss mode);
* cleaning removes whole segments, so the log may begin anywhere from its old start to the offset
  that it was cleaned up to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kraftwreck.nodes.consensus.effects import (
    DURABLE,
    AppendLog,
    AppendSnapshot,
    CleanLog,
    DropSnapshot,
    FinishSnapshot,
    FlushLog,
    InstallSnapshot,
    TruncateLog,
)
from kraftwreck.nodes.consensus.recovered import Recovered, SnapshotFile
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.snapshots import BOOTSTRAP
from kraftwreck.nodes.server.plain import from_plain, to_plain

Identity = tuple[int, int]


def digest_bytes(parts: Iterable[bytes]) -> str:
    """Return 16 hex digits for the bytes of ``parts``, one after the other."""
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        state.update(part)
    return state.hexdigest()


def recovered_to_plain(recovered: Recovered) -> dict[str, Any]:
    """Return JSON values that identify ``recovered``.

    They contain the whole bootstrap snapshot: it is small, and no effect has made it.
    """
    batches = recovered.batches
    plain: dict[str, Any] = {
        "quorum_state": to_plain(recovered.quorum_state),
        "log_start": recovered.start_offset,
        "log_end": _end(batches, recovered.start_offset),
        "log": digest_bytes(batches),
        "snapshots": [[s.end_offset, s.epoch, s.size, s.timestamp] for s in recovered.snapshots],
        "latest": digest_bytes([recovered.latest]),
    }
    if recovered.snapshots and recovered.snapshots[-1].id == BOOTSTRAP:
        plain["bootstrap"] = to_plain(recovered.latest)
    return plain


class RecordedDisk:
    """Begins with the log ``batches`` and the contents of the complete ``snapshots``."""

    def __init__(
        self, batches: Sequence[bytes] = (), snapshots: Mapping[Identity, bytes] | None = None
    ) -> None:
        self._batches = list(batches)
        self._snapshots = dict(snapshots or {})
        latest_end = max((end for end, _ in self._snapshots), default=0)
        self._start = parse_header(batches[0]).base_offset if batches else latest_end
        self._cleaned = self._start
        self._flushed = self._end
        self._floor = 0
        self._parts: dict[Identity, bytearray] = {}
        self._last: Sequence[NodeEffect] = ()

    @property
    def batches(self) -> Sequence[bytes]:
        """The log, including batches that cleaning may have removed."""
        return self._batches

    def carry_out(self, effects: Sequence[NodeEffect]) -> None:
        """Record the effects of a step; those of the step before were certainly carried out."""
        for effect in self._last:
            self._one(effect)
        self._forget_below_floor()
        self._last = effects

    def recovered_as(self, line: Mapping[str, Any]) -> Recovered | None:
        """Return the disk content at a process start, None if this disk cannot match ``line``.

        ``line`` is the result of :func:`recovered_to_plain`. The disk has this content from now on.
        """
        effects, self._last = self._last, ()
        pending = [effect for effect in effects if type(effect) in DURABLE]
        identities: list[Identity] = [(end, epoch) for end, epoch, _, _ in line["snapshots"]]
        if BOOTSTRAP in identities and "bootstrap" in line:
            self._snapshots.setdefault(BOOTSTRAP, from_plain(line["bootstrap"]))
        while not self._may_be(line, identities):
            if not pending:
                return None
            self._one(pending.pop(0))
        return self._become(line, identities)

    # --- inside -------------------------------------------------------------------------

    @property
    def _end(self) -> int:
        return _end(self._batches, self._start)

    def _one(self, effect: NodeEffect) -> None:
        if isinstance(effect, AppendLog):
            self._batches.append(effect.batch)
        elif isinstance(effect, TruncateLog):
            while self._batches and _last_offset(self._batches[-1]) >= effect.end_offset:
                self._batches.pop()
            self._flushed = self._end
        elif isinstance(effect, FlushLog):
            self._flushed = self._end
        elif isinstance(effect, AppendSnapshot):
            part = self._parts.setdefault((effect.end_offset, effect.epoch), bytearray())
            del part[effect.position :]
            part += effect.data
        elif isinstance(effect, FinishSnapshot):
            identity = effect.end_offset, effect.epoch
            self._snapshots[identity] = bytes(self._parts.pop(identity, b""))
        elif isinstance(effect, DropSnapshot):
            self._parts.pop((effect.end_offset, effect.epoch), None)
        elif isinstance(effect, InstallSnapshot):
            self._restart_at(effect.end_offset)
            self._floor = effect.end_offset
        elif isinstance(effect, CleanLog):
            self._cleaned = max(self._cleaned, effect.start_offset)
            self._floor = effect.start_offset

    def _restart_at(self, offset: int) -> None:
        self._batches = []
        self._start = self._cleaned = self._flushed = offset

    def _forget_below_floor(self) -> None:
        self._snapshots = {i: c for i, c in self._snapshots.items() if i[0] >= self._floor}
        kept = next(
            (n for n, b in enumerate(self._batches) if _last_offset(b) >= self._start),
            len(self._batches),
        )
        del self._batches[:kept]

    def _may_be(self, line: Mapping[str, Any], identities: Sequence[Identity]) -> bool:
        known = set(self._snapshots)
        if not set(identities) <= known:
            return False
        latest = max(known, key=_age, default=BOOTSTRAP)
        content = self._snapshots[identities[-1]] if identities else b""
        if line["latest"] != digest_bytes([content]):
            return False
        start, end = line["log_start"], line["log_end"]
        # Those must be there, others may: they were about to be removed.
        floor = max(self._floor, start)
        if not {i for i in known if i[0] >= floor} <= set(identities):
            return False
        if self._start <= start <= self._cleaned and self._flushed <= end <= self._end:
            batches = self._between(start, end)
            if _end(batches, start) == end and digest_bytes(batches) == line["log"]:
                return True
        # A log that ends before its latest snapshot is emptied at the start.
        flushed = self._between(self._start, self._flushed)
        last_epoch = parse_header(flushed[-1]).epoch if flushed else 0
        return (
            start == end == latest[0]
            and _age(latest) > (last_epoch, _end(flushed, self._start))
            and line["log"] == digest_bytes([])
        )

    def _become(self, line: Mapping[str, Any], identities: Sequence[Identity]) -> Recovered:
        start, end = line["log_start"], line["log_end"]
        self._batches = self._between(start, end)
        self._start = self._cleaned = start
        self._flushed = end
        self._floor = 0
        self._parts = {}
        self._snapshots = {identity: self._snapshots[identity] for identity in identities}
        return Recovered(
            quorum_state=from_plain(line["quorum_state"]),
            batches=tuple(self._batches),
            start_offset=start,
            snapshots=tuple(SnapshotFile(*values) for values in line["snapshots"]),
            latest=self._snapshots[identities[-1]] if identities else b"",
        )

    def _between(self, start: int, end: int) -> list[bytes]:
        return [
            batch
            for batch in self._batches
            if parse_header(batch).base_offset >= start and _last_offset(batch) < end
        ]


def _age(identity: Identity) -> tuple[int, int]:
    end_offset, epoch = identity
    return epoch, end_offset


def _last_offset(batch: bytes) -> int:
    return parse_header(batch).last_offset


def _end(batches: Sequence[bytes], start: int) -> int:
    return _last_offset(batches[-1]) + 1 if batches else start
