"""How processes end, and why some do not even begin."""

from __future__ import annotations

from typing import Any

from nodes.consensus.effects import Trace
from nodes.log.quorum_state import QuorumStateError
from nodes.log.recovery import LogCorruptError
from simulation.host import Host


def last_words(host: Host, kind: str, detail: dict[str, Any]) -> Trace:
    """Return what a process that ends tells of itself: its position is the last one told.

    One that ends before it has told anything does not know where it stands: what it was told
    of the process before is no state of its own.
    """
    last = host.last_trace
    if last is None:
        return Trace(kind, "unattached", 0, -1, -1, 0, -1, detail)
    if not host.trace_seq:
        return Trace(kind, "unattached", last.epoch, -1, last.voted, last.leo, -1, detail)
    position = (last.state, last.epoch, last.leader, last.voted, last.leo, last.hw)
    return Trace(kind, *position, detail)


def refuses(host: Host, error: Exception) -> bool:
    """Whether ``error`` keeps a process from starting because of a fault of the hardware.

    A damaged disk is refused as corrupt; one in trouble fails the first reads and writes.
    """
    if isinstance(error, LogCorruptError | QuorumStateError):
        return host.disk.damaged
    return failed(host, error)


def failed(host: Host, error: Exception) -> bool:
    """Whether ``error`` is that of a disk in trouble."""
    return isinstance(error, OSError) and host.disk.trouble is not None
