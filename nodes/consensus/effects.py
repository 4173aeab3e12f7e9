"""Events into and effects out of a node: plain data, nothing happens here.

A shell (``nodes.server`` or ``simulation``) turns the world into events, calls
``step(event, now)`` and carries out the effects. **Persist before you speak**: a shell
carries out all durable effects of a step (:data:`DURABLE`), in order, before it sends any
message of the same step; a crash in between loses the messages, never the promise.

Times are integer microseconds of the node's monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nodes.consensus.endpoint import Endpoint
from nodes.consensus.kraft.messages import (
    FetchSnapshotResponse,
    QuorumResponse,
    Request,
    Response,
)

# --- events -----------------------------------------------------------------------------


@dataclass(slots=True)
class Tick:
    """The deadline the node asked for has passed (being early is harmless)."""


@dataclass(slots=True)
class RequestReceived:
    """A quorum RPC arrived; ``token`` is what the shell needs to answer it."""

    token: int
    message: Request


@dataclass(slots=True)
class ResponseReceived:
    """The answer to an earlier :class:`Send`; ``message`` None means the transport failed."""

    source: int
    correlation: int
    message: Response | None


@dataclass(slots=True)
class ApiRequest:
    """A client request; ``api`` is the schema name without suffix (``"CreateTopics"``).

    ``body`` is the decoded message: a dict with snake_case keys. ``listener`` is the name of
    the listener it came in by, ``client`` the host it came from.
    """

    token: int
    api: str
    version: int
    body: dict[str, Any]
    listener: str = "CONTROLLER"
    client: str = ""


@dataclass(slots=True)
class ApiResponseReceived:
    """The answer to an earlier :class:`SendApi`; ``body`` None means the transport failed.

    ``sent`` False: not a byte went out, so the request was certainly not carried out.
    """

    source: int
    correlation: int
    body: dict[str, Any] | None
    sent: bool = True


@dataclass(slots=True)
class Shutdown:
    """Stop gracefully: a leader resigns first and says so (EndQuorumEpoch)."""


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
    """1 writes version 1 of the file: the directory of the vote, and no voters."""


@dataclass(slots=True)
class AppendSnapshot:
    """Write ``data`` at ``position`` of the unfinished snapshot ``(end_offset, epoch)``.

    The first piece (position 0) begins the file anew. Not durable before FinishSnapshot.
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
    """Empty the log and let it begin at the end of the finished snapshot; durable.

    Older snapshots go. A crash before this is complete is repaired at the next start.
    """

    end_offset: int
    epoch: int


@dataclass(slots=True)
class CleanLog:
    """Forget the log below ``start_offset``, the end of a snapshot that stays.

    Segments wholly below it and snapshots that end before it are removed.
    """

    start_offset: int


@dataclass(slots=True)
class Send:
    """Send a quorum RPC; answers come back as :class:`ResponseReceived`.

    ``destination`` is a node id, or -2, -3, ... for a bootstrap server whose id is not known.
    """

    destination: int
    correlation: int
    message: Request
    endpoint: Endpoint | None = None


@dataclass(slots=True)
class Reply:
    """Answer the quorum RPC that arrived with ``token``."""

    token: int
    message: QuorumResponse


@dataclass(slots=True)
class SnapshotReply:
    """Answer a FetchSnapshot with a piece of a snapshot file.

    The shell puts up to ``max_bytes`` bytes of the file ``(message.snapshot_end,
    message.snapshot_epoch)`` from ``message.position`` on into ``message.data``.
    """

    token: int
    message: FetchSnapshotResponse
    max_bytes: int


@dataclass(slots=True)
class SendApi:
    """Send a request other than a quorum RPC to a node: ApiResponseReceived follows.

    It goes out at the highest version both sides know; ``body`` is the decoded message. The
    transport fails when no answer has come within ``timeout_ms``, 0 meaning the node's
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
    """Hang up on the request that arrived with ``token``: its handler failed."""

    token: int


@dataclass(slots=True)
class Trace:
    """Tell what happened; the fields are those of ``histories.trace.TraceEvent``."""

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

    ``broker_epoch`` is that of a broker that was registered, else -1: what the shell leaves on
    the disk is what the next process start is told as ``previous_broker_epoch``.
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

DURABLE = (
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
"""Effects a shell completes before it sends anything of the same step."""


class FatalError(Exception):
    """An illegal state was reached; the node must stop at once and say why."""


class ContradictionError(Exception):
    """A message contradicts what this node knows. It is refused and traced, and changes nothing."""
