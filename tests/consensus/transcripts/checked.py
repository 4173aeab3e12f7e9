"""The invariants of the consensus core, asserted after every step of a transcript.

Sources: Raft, figure 3; KRAFT's durable state (KIP-595): what a node has promised is on its disk.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from kraftwreck.nodes.consensus.effects import Effect, Reply, Send, WriteQuorumState
from kraftwreck.nodes.consensus.kraft.messages import FetchRequest, VoteRequest, VoteResponse
from kraftwreck.nodes.consensus.kraft.replica import Replica
from tests.consensus.disks import Disk


class Invariants:
    """The facts seen so far, against which each later step is checked."""

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}
        self._saved: dict[tuple[int, int], WriteQuorumState] = {}
        self._batches: dict[tuple[int, int], bytes] = {}
        self._committed: dict[int, tuple[bytes, int]] = {}
        self._high: dict[int, tuple[Replica, int]] = {}

    def persisted(self, replica: Replica, disk: Disk, effects: Sequence[Effect]) -> None:
        """Check that nothing leaves the node before the disk has what it rests on."""
        saved = disk.quorum_state
        assert saved is not None, f"{replica.node_id} has no quorum-state"
        assert saved.epoch == replica.epoch, f"{replica.node_id} has not written its epoch"
        for effect in effects:
            sent = effect.message if isinstance(effect, Send | Reply) else None
            if isinstance(sent, FetchRequest) and replica.config.can_become_voter:
                ended = f"{replica.node_id} acknowledges {sent.fetch_offset}, not flushed"
                assert sent.fetch_offset <= disk.flushed_end, ended
            if isinstance(sent, VoteRequest) and not sent.pre_vote and sent.epoch == saved.epoch:
                assert saved.voted_id == replica.node_id, "a candidate's own vote is not on disk"
        votes = [t for t in effects if getattr(t, "kind", "") == "grant"]
        for grant in votes:
            detail = getattr(grant, "detail", {})
            if not detail["pre"]:
                granted = (saved.epoch, saved.voted_id) == (detail["epoch"], detail["candidate"])
                assert granted, f"the vote of {replica.node_id} is not on disk"
        answers = [e.message for e in effects if isinstance(e, Reply)]
        granting = [a for a in answers if isinstance(a, VoteResponse) and a.vote_granted]
        assert len(granting) <= len(votes), f"{replica.node_id} grants a vote without a trace"

    def step(
        self,
        replicas: Mapping[int, Replica],
        disks: Mapping[int, Disk],
        disk_numbers: Mapping[int, int],
        loaded: Mapping[int, Sequence[bytes]],
    ) -> None:
        """Check all nodes after a step of one."""
        for i, replica in replicas.items():
            self._check_saved((i, disk_numbers[i]), disks[i])
            self._check_log(replica, disks[i])
            self._check_high_watermark(replica)
        for replica in replicas.values():
            self._check_leader(replica)
        states = sorted(loaded.values(), key=len)
        for shorter, longer in itertools.pairwise(states):
            assert list(longer[: len(shorter)]) == list(shorter), (
                "listeners have seen two histories"
            )

    def _check_saved(self, key: tuple[int, int], disk: Disk) -> None:
        """Epochs only grow; a vote is never changed nor forgotten within an epoch."""
        now, before = disk.quorum_state, self._saved.get(key)
        assert now is not None
        self._saved[key] = now
        if before is None or now.epoch > before.epoch:
            return
        assert now.epoch == before.epoch, f"the epoch of {key[0]} goes back"
        if before.voted_id >= 0 and now.leader_id != key[0]:
            assert now.voted_id == before.voted_id, f"{key[0]} forgets or changes its vote"
        if before.leader_id == key[0]:
            assert now.leader_id == key[0], f"{key[0]} forgets that it led epoch {now.epoch}"

    def _check_log(self, replica: Replica, disk: Disk) -> None:
        """Memory and disk hold the same; offset and epoch identify a batch for ever."""
        log, own = replica.log, b"".join(disk.batches)
        assert log.read(log.start_offset, 1 << 62) == own, f"the disk of {replica.node_id} differs"
        for batch, header in log.batches_between(log.start_offset, log.end_offset):
            key = (header.base_offset, header.epoch)
            assert self._batches.setdefault(key, batch) == batch, f"two batches at {key}"

    def _check_high_watermark(self, replica: Replica) -> None:
        """It is in the log, grows until the node leads, and covers the same records everywhere."""
        high, i = replica.high_watermark, replica.node_id
        assert high <= replica.log.end_offset, f"the high watermark of {i} is beyond its log"
        seen, before = self._high.get(i, (replica, -1))
        if seen is replica and not (replica.is_leader and high == -1):
            assert high >= before, f"the high watermark of {i} goes back"
        self._high[i] = (replica, high)
        for batch, header in replica.log.batches_between(replica.log.start_offset, high):
            first, _ = self._committed.setdefault(header.base_offset, (batch, replica.epoch))
            assert first == batch, f"{i} has other committed records at {header.base_offset}"

    def _check_leader(self, replica: Replica) -> None:
        """An epoch has one leader; its log holds all that was committed before."""
        if not replica.is_leader:
            return
        first = self._leaders.setdefault(replica.epoch, replica.node_id)
        assert first == replica.node_id, f"{first} and {replica.node_id} lead epoch {replica.epoch}"
        start = replica.log.start_offset
        held = {
            header.base_offset: batch
            for batch, header in replica.log.batches_between(start, replica.log.end_offset)
        }
        for base, (batch, epoch) in self._committed.items():
            if base >= start and epoch <= replica.epoch:
                assert held.get(base) == batch, f"leader {replica.node_id} lacks record {base}"
