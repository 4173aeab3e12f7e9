"""The invariants of Raft, checked on a whole :class:`~network.Group` after every step."""

from __future__ import annotations

from kraftwreck.systems.raft.invariants import Invariants, Seen
from tests.consensus.raft.network import Group


class Watch(Invariants):
    """Checks the member that has just made a step, and what was sent since the last one."""

    def __init__(self) -> None:
        super().__init__()
        self._sent = 0

    def __call__(self, group: Group, i: int) -> None:
        self.step(_seen(group, i))
        for packet in group.sent[self._sent :]:
            self.sends(_seen(group, packet.source), packet.message)
        self._sent = len(group.sent)


def _seen(group: Group, i: int) -> Seen:
    saved, disk = group.disks[i].quorum_state, group.disks[i]
    return Seen(
        id=i,
        life=group.lives[i],
        core=group.core(i),
        saved=(saved.epoch, saved.voted_id) if saved else (0, -1),
        flushed_end=disk.flushed_end,
        applied=getattr(group.machine(i), "applied", []),
    )
