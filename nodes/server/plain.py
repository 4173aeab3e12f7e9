"""Events and node settings as JSON values, and back, exactly.

JSON has neither bytes nor tuples nor numbers as keys: bytes become ``{"$b": base64}``, tuples
``{"$t": [...]}``, and a dataclass ``{"$": its name, field: value, ...}``. Keys of decoded messages
are identifiers, so they never begin with ``$``. Events of the data plane become
``{"$l": [name, value, ...]}``, and a batch of records its header, ``{"$h": [...]}``, which is all
that the node has of it.
"""

from __future__ import annotations

import base64
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, get_args

from kraftwreck.nodes.consensus import effects
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft import messages
from kraftwreck.nodes.replication import events
from kraftwreck.nodes.replication.headers import Batch
from kraftwreck.nodes.server import raft_wire

_RECORDS: Final[tuple[type, ...]] = (
    *get_args(events.FromShell),
    events.FetchPart,
    events.FetchedPart,
)
"""Events of the data plane: frequent, so their fields are listed without names."""
_CLASSES: Final[dict[str, type]] = {
    cls.__name__: cls
    for cls in (
        effects.Tick,
        effects.RequestReceived,
        effects.ResponseReceived,
        effects.ApiRequest,
        effects.ApiResponseReceived,
        Endpoint,
        effects.Shutdown,
        effects.WriteQuorumState,
        messages.VoteRequest,
        messages.VoteResponse,
        messages.BeginQuorumEpochRequest,
        messages.BeginQuorumEpochResponse,
        messages.EndQuorumEpochRequest,
        messages.EndQuorumEpochResponse,
        messages.FetchRequest,
        messages.FetchResponse,
        messages.FetchSnapshotRequest,
        messages.FetchSnapshotResponse,
        messages.AddRaftVoterRequest,
        messages.RemoveRaftVoterRequest,
        messages.UpdateRaftVoterRequest,
        messages.VoterChangeResponse,
        messages.ApiVersionsRequest,
        messages.ApiVersionsResponse,
        *raft_wire.MESSAGES,
        *_RECORDS,
    )
}
_LISTED: Final = frozenset(cls.__name__ for cls in _RECORDS)
_FIELDS: Final = {name: tuple(each.name for each in fields(cls)) for name, cls in _CLASSES.items()}
_HEADER: Final = tuple(field.name for field in fields(Batch) if field.name != "handle")
_header_of: Final = attrgetter(*_HEADER)


def to_plain(value: Any) -> Any:
    """Return ``value`` in a form that json.dumps accepts. Raises TypeError for other types."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$b": base64.b64encode(value).decode("ascii")}
    if isinstance(value, list):
        return [to_plain(inner) for inner in value]
    if isinstance(value, tuple):
        return {"$t": [to_plain(inner) for inner in value]}
    if isinstance(value, dict):
        return {key: to_plain(inner) for key, inner in value.items()}
    if isinstance(value, Batch):
        return {"$h": _header_of(value)}
    kind = type(value).__name__
    if kind in _LISTED:
        return {"$l": [kind, *(to_plain(getattr(value, name)) for name in _FIELDS[kind])]}
    if kind in _CLASSES:
        plain: dict[str, Any] = {"$": kind}
        for name in _FIELDS[kind]:
            plain[name] = to_plain(getattr(value, name))
        return plain
    raise TypeError(f"cannot write a {type(value).__name__} to the input log")


def from_plain(value: Any) -> Any:
    """Return the argument of :func:`to_plain`. Raises ValueError for anything else."""
    if isinstance(value, list):
        return [from_plain(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$b" in value:
        return base64.b64decode(value["$b"], validate=True)
    if "$t" in value:
        return tuple(from_plain(inner) for inner in value["$t"])
    if "$h" in value:
        return Batch(*value["$h"])
    if "$l" in value:
        kind, *values = value["$l"]
        if kind not in _LISTED or len(values) != len(_FIELDS[kind]):
            raise ValueError(f"no event {kind!r} with {len(values)} fields")
        return _CLASSES[kind](*map(from_plain, values))
    if "$" in value:
        cls = _CLASSES.get(value["$"])
        if cls is None:
            raise ValueError(f"unknown kind of event {value['$']!r}")
        arguments = {key: from_plain(inner) for key, inner in value.items() if key != "$"}
        try:
            return cls(**arguments)
        except TypeError as error:
            raise ValueError(f"{value['$']}: {error}") from error
    return {key: from_plain(inner) for key, inner in value.items()}
