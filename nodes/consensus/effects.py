"""Events into and effects out of a node: plain data without behaviour.

A shell (``nodes.server`` or ``simulation``) turns network, disk and clock into events, calls
``step(event, now)`` and carries out the effects. **Persist before you speak**: a shell carries out
all durable effects of a step (:data:`DURABLE`), in order, before it sends a message of the same
step. A crash in between loses messages, but never breaks a promise.

Times are integer microseconds of the node's monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.nodes.consensus.endpoint import Endpoint

Message = Any
"""An RPC, request or response: a dataclass of the core that sends it (``kraft.messages``,
``raft.messages``). Shells only pass it to the core's own codec."""

# --- events -----------------------------------------------------------------------------


@dataclass(slots=True)
class Tick:
    """The deadline that the node set has passed; an early tick is harmless."""


@dataclass(slots=True)
class RequestReceived:
    """A quorum RPC arrived; ``token`` identifies it in the answer."""

    token: int
    message: Message


@dataclass(slots=True)
class ResponseReceived:
    """The response to an earlier :class:`Send`; ``message`` None means the transport failed."""

    source: int
    correlation: int
    message: Message | None


@dataclass(slots=True)
class ApiRequest:
    """A client request; ``api`` is the schema name without suffix (``"CreateTopics"``).

    ``body`` is the decoded message: a dict with snake_case keys. ``listener`` names the listener
    that received it, ``client`` is the client's host.
    """

    token: int
    api: str
    version: int
    body: dict[str, Any]
    listener: str = "CONTROLLER"
    client: str = ""


@dataclass(slots=True)
class ApiResponseReceived:
    """The response to an earlier :class:`SendApi`; ``body`` None means the transport failed.

    ``sent`` False: no byte was sent, so the request was certainly not carried out.
    """

    source: int
    correlation: int
    body: dict[str, Any] | None
    sent: bool = True


@dataclass(slots=True)
class Shutdown:
    """Stop gracefully: a leader resigns first and announces it (EndQuorumEpoch)."""


Event = Tick | RequestReceived | ResponseReceived | ApiRequest | ApiResponseReceived | Shutdown

# --- effects ----------------------------------------------------------------------------


@dataclass(slots=True)
class AppendLog:
    """Append one encoded record batch at the log end."""

    batch: bytes


@dataclass(slots=True)
class TruncateLog:
    """Cut the log so that its end offset is ``end_offset`` (a batch boundary); fsync."""

    end_offset: int


@dataclass(slots=True)
class FlushLog:
    """fsync everything appended so far."""


@dataclass(slots=True)
class WriteQuorumState:
    """Replace quorum-state durably: write, fsync, rename, fsync the directory."""

    epoch: int
    leader_id: int
    voted_id: int
    voted_directory: bytes
    voters: tuple[int, ...]
    kraft_version: int = 0
    """1 writes version 1 of the file: with the directory of the vote, without voters."""


@dataclass(slots=True)
class AppendSnapshot:
    """Write ``data`` at ``position`` of the unfinished snapshot ``(end_offset, epoch)``.

    The first piece (position 0) replaces an unfinished file. Not durable before FinishSnapshot.
    """

    end_offset: int
    epoch: int
    position: int
    data: bytes = field(repr=False)


@dataclass(slots=True)
class FinishSnapshot:
    """Complete an unfinished snapshot: fsync, read-only, rename, fsync the directory."""

    end_offset: int
    epoch: int


@dataclass(slots=True)
class DropSnapshot:
    """Remove an unfinished snapshot."""

    end_offset: int
    epoch: int


@dataclass(slots=True)
class InstallSnapshot:
    """Empty the log so that it starts at the end of the finished snapshot; durable.

    Older snapshots are removed. The next start completes this after a crash.
    """

    end_offset: int
    epoch: int


@dataclass(slots=True)
class CleanLog:
    """Drop the log below ``start_offset``, the end of a snapshot that is kept.

    Segments wholly below it and snapshots that end before it are removed.
    """

    start_offset: int


@dataclass(slots=True)
class Send:
    """Send a quorum RPC; the response comes back as :class:`ResponseReceived`.

    ``destination`` is a node id, or -2, -3, ... for a bootstrap server whose id is not known.
    """

    destination: int
    correlation: int
    message: Message
    endpoint: Endpoint | None = None


@dataclass(slots=True)
class Reply:
    """Answer the quorum RPC that arrived with ``token``."""

    token: int
    message: Message


@dataclass(slots=True)
class SnapshotReply:
    """Answer a request for a piece of a snapshot file (KRaft's FetchSnapshot).

    The shell puts up to ``max_bytes`` bytes of the file ``(message.snapshot_end,
    message.snapshot_epoch)`` from ``message.position`` on into ``message.data``.
    """

    token: int
    message: Message
    max_bytes: int


@dataclass(slots=True)
class SendApi:
    """Send a request other than a quorum RPC to a node: ApiResponseReceived follows.

    It is sent at the highest version that both sides support; ``body`` is the decoded message. The
    transport fails without a response within ``timeout_ms``; 0 means the node's
    ``request_timeout_ms``.
    """

    destination: int
    correlation: int
    endpoint: Endpoint
    api: str
    body: dict[str, Any]
    timeout_ms: int = 0


@dataclass(slots=True)
class ApiReply:
    """Answer the client request that arrived with ``token``."""

    token: int
    body: dict[str, Any]


@dataclass(slots=True)
class Abandon:
    """Close the connection of the request ``token``: its handler failed."""

    token: int


@dataclass(slots=True)
class Trace:
    """Record a trace event; the fields are those of ``histories.trace.TraceEvent``."""

    kind: str
    state: str
    epoch: int
    leader: int
    voted: int
    leo: int
    hw: int
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Stopped:
    """The graceful shutdown is complete; the shell may exit with status 0.

    ``broker_epoch`` is that of a registered broker, else -1. The shell stores it on disk, and the
    next process start receives it as ``previous_broker_epoch``.
    """

    broker_epoch: int = -1


Effect = (
    AppendLog
    | TruncateLog
    | FlushLog
    | WriteQuorumState
    | AppendSnapshot
    | FinishSnapshot
    | DropSnapshot
    | InstallSnapshot
    | CleanLog
    | Send
    | SendApi
    | Reply
    | SnapshotReply
    | ApiReply
    | Abandon
    | Trace
    | Stopped
)

DURABLE: Final = frozenset[type](
    (
        AppendLog,
        TruncateLog,
        FlushLog,
        WriteQuorumState,
        AppendSnapshot,
        FinishSnapshot,
        DropSnapshot,
        InstallSnapshot,
        CleanLog,
    )
)
"""Effects that a shell completes before it sends any message of the same step."""

WAITING: Final = DURABLE - {AppendLog, AppendSnapshot}
"""Those that may wait for the disk; the others reach the page cache."""


class FatalError(Exception):
    """The node reached an illegal state; it must stop at once and report why."""


class ContradictionError(Exception):
    """A message contradicts this node's state. The node rejects and traces it, without effect."""
