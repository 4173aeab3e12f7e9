"""Process exit traces, and start-up failures caused by disk faults."""

from __future__ import annotations

from typing import Any

from kraftwreck.nodes.consensus.effects import Trace
from kraftwreck.simulation.host import Host


def last_words(host: Host, kind: str, detail: dict[str, Any]) -> Trace:
    """Return the final trace event of a process, with the position that it last reported.

    A process that ends before its first report has no position: that of the process before
    does not count.
    """
    last = host.last_trace
    if last is None:
        return Trace(kind, "unattached", 0, -1, -1, 0, -1, detail)
    if not host.trace_seq:
        return Trace(kind, "unattached", last.epoch, -1, last.voted, last.leo, -1, detail)
    position = (last.state, last.epoch, last.leader, last.voted, last.leo, last.hw)
    return Trace(kind, *position, detail)


def refuses(host: Host, error: Exception) -> bool:
    """Whether ``error`` keeps a process from starting because of a hardware fault.

    A process refuses a damaged disk as corrupt. On a failing disk the first reads and writes fail.
    """
    return host.disk.refuses(error) or failed(host, error)


def failed(host: Host, error: Exception) -> bool:
    """Whether ``error`` is that of a failing disk."""
    return isinstance(error, OSError) and host.disk.trouble is not None
