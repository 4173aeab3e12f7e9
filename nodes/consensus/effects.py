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

from nodes.consensus.kraft.messages import Request, Response

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

    ``body`` is the decoded message: a dict with snake_case keys.
    """

    token: int
    api: str
    version: int
    body: dict[str, Any]


@dataclass(slots=True)
class Shutdown:
    """Stop gracefully: a leader resigns first and says so (EndQuorumEpoch)."""


Event = Tick | RequestReceived | ResponseReceived | ApiRequest | Shutdown

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


@dataclass(slots=True)
class Send:
    """Send a quorum RPC to a voter; answers come back as :class:`ResponseReceived`."""

    destination: int
    correlation: int
    message: Request


@dataclass(slots=True)
class Reply:
    """Answer the quorum RPC that arrived with ``token``."""

    token: int
    message: Response


@dataclass(slots=True)
class ApiReply:
    """Answer the client request that arrived with ``token``."""

    token: int
    body: dict[str, Any]


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
    """The graceful shutdown is complete; the shell may exit with status 0."""


Effect = (
    AppendLog
    | TruncateLog
    | FlushLog
    | WriteQuorumState
    | Send
    | Reply
    | ApiReply
    | Trace
    | Stopped
)

DURABLE = (AppendLog, TruncateLog, FlushLog, WriteQuorumState)
"""Effects a shell completes before it sends anything of the same step."""


class FatalError(Exception):
    """An illegal state was reached; the node must stop at once and say why."""
