"""Messages between nodes, captured from a real node's input log or in the simulator.

The capture is bounded: bytes of records and of snapshots are left out, and beyond
:data:`LIMIT` messages the rest is only counted.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.checkers.recorded.captured import INPUTS, Captured
from kraftwreck.checkers.recorded.clocks import NodeClock
from kraftwreck.histories.message import Message
from kraftwreck.histories.tables import HistoryError
from kraftwreck.histories.undecodable import UNDECODABLE
from kraftwreck.nodes.broker.apis import FORWARDED
from kraftwreck.nodes.consensus.effects import (
    ApiRequest,
    ApiResponseReceived,
    RequestReceived,
    ResponseReceived,
)
from kraftwreck.nodes.consensus.kraft.messages import FetchResponse, FetchSnapshotResponse
from kraftwreck.nodes.consensus.kraft.voters import LISTENER as CONTROLLER_LISTENER
from kraftwreck.nodes.log.batch import BatchError, parse_header, split_batches
from kraftwreck.nodes.protocol.apis import SUPPORTED
from kraftwreck.nodes.protocol.schema import Field
from kraftwreck.nodes.protocol.schemas import MESSAGES
from kraftwreck.nodes.replication.events import FromShell
from kraftwreck.nodes.server.plain import from_plain

LIMIT = 500_000
"""Messages kept of one run."""

_ASKERS = {
    "Vote": "candidate_id",
    "BeginQuorumEpoch": "leader_id",
    "EndQuorumEpoch": "leader_id",
    "Fetch": "replica_id",
    "FetchSnapshot": "replica_id",
    "UpdateRaftVoter": "voter_id",
}
_NAMES: dict[type, str] = {}
_ON_THE_WAY = 64
"""Answers that were kept when they were sent, and have yet to reach their askers."""
_MANY = 20_000
"""From this many messages on the memory of a run matters."""

Extent = tuple[int, int, int] | None


class Capture(Captured):
    """Collects messages; ``dropped`` counts those beyond ``limit``."""

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__()
        self._limit = limit
        self._slimmed: dict[int, tuple[Any, Any, Extent]] = {}
        self._topics: dict[bytes, Any] = {}

    def request(self, time: int, replier: int, request: Any) -> None:
        """Note a quorum request that reached ``replier`` at ``time`` (ns since the start)."""
        api = api_name(type(request))
        self._keep(Message(time, asker_of(api, request), replier, api, request))

    def answer(self, time: int, asker: int, replier: int, response: Any) -> None:
        """Note the answer of ``replier`` to a quorum request when it reached ``asker``."""
        if response is None:
            return
        known = self._slimmed.pop(id(response), None)
        if known is not None and known[0] is response:
            _, slim, extent = known
        else:
            slim, extent = _slim(response)
        name = api_name(type(response))
        self._keep(Message(time, asker, replier, name, None, slim, extent))

    def exchange(
        self, time: int, asker: int, replier: int, request: Any, response: Any, sent: int = -1
    ) -> None:
        """Note that ``replier`` answered ``asker``'s quorum request of ``sent`` at ``time``."""
        slim, extent = _slim(response)
        if slim is not response:
            if len(self._slimmed) >= _ON_THE_WAY:
                self._slimmed.clear()
            self._slimmed[id(response)] = response, slim, extent
        name = api_name(type(request))
        self._keep(Message(time, asker, replier, name, request, slim, extent, sent))

    def api(
        self,
        time: int,
        asker: int,
        replier: int,
        api: str,
        request: dict[str, Any] | None,
        response: dict[str, Any] | None,
        sent: int = -1,
    ) -> Message | None:
        """Note another request, its answer, or both, as decoded bodies; return what is kept."""
        if asker < 0 and request is not None:
            asker = request.get("broker_id", -1)
        if api == "Metadata" and response is not None and len(self.messages) >= _MANY:
            response = self._share_topics(response)
        return self._keep(Message(time, asker, replier, api, request, response, sent=sent))

    def _share_topics(self, response: dict[str, Any]) -> dict[str, Any]:
        """Return an answer to Metadata that shares equal topics with older answers.

        Each answer lists all topics: without sharing, a long run holds them a thousand times.
        """
        known = self._topics
        try:
            # Version 2 is the last that writes equal values as equal bytes.
            shared = [known.setdefault(marshal.dumps(t, 2), t) for t in response["topics"]]
        except (KeyError, TypeError, ValueError):
            return response  # Not of our nodes; it is kept unchanged.
        return {**response, "topics": shared}

    def _keep(self, message: Message) -> Message | None:
        if len(self.messages) < self._limit:
            self.messages.append(message)
            return message
        self.dropped += 1
        return None


@cache
def tells_all(api: str, version: int) -> bool:
    """Return whether an answer of ``version`` has all fields of the newest one, apart from the
    error of the whole request."""
    message = MESSAGES[f"{api}Response"]
    newest = set(_names(message.fields, SUPPORTED[api][1])) - {"error_code"}
    return newest <= set(_names(message.fields, version))


def _names(fields_: Sequence[Field], version: int) -> Iterator[str]:
    for field in fields_:
        if version in field.versions:
            yield field.name
            yield from (f"{field.name}.{name}" for name in _names(field.fields or (), version))


def api_name(kind: type) -> str:
    """Return the schema name of a quorum message's class, without its suffix."""
    name = _NAMES.get(kind)
    if name is None:
        name = _NAMES[kind] = kind.__name__.removesuffix("Request").removesuffix("Response")
    return name


def asker_of(api: str, request: Any) -> int:
    """Return the sender of a quorum request, -1 if it names none."""
    field = _ASKERS.get(api)
    return int(getattr(request, field)) if field is not None else -1


def _values(kind: type) -> tuple[str, Callable[[Any], tuple[Any, ...]], int]:
    """Return the name of the bytes field of a message, a function for all its fields, and the
    index of the bytes field."""
    names = [field.name for field in fields(kind)]
    carried = "records" if kind is FetchResponse else "data"
    return carried, attrgetter(*names), names.index(carried)


_CARRIED = {kind: _values(kind) for kind in (FetchResponse, FetchSnapshotResponse)}


def _slim(response: Any) -> tuple[Any, Extent]:
    """Return ``response`` without the bytes it carries, and the extent of the records in them."""
    kind = type(response)
    carried = _CARRIED.get(kind)
    if carried is None:
        return response, None
    name, values, place = carried
    data = getattr(response, name)
    if not data:
        return response, None
    content = list(values(response))
    content[place] = b""
    return kind(*content), _extent(data) if kind is FetchResponse else None


def _extent(records: bytes) -> Extent:
    """Return (base offset and epoch of the first batch, end offset of the last whole one)."""
    try:
        first = parse_header(records)
        end = first.last_offset + 1
        if len(records) > first.length:
            for batch in split_batches(records):
                end = parse_header(batch).last_offset + 1
    except BatchError:
        return None
    return first.base_offset, first.epoch, end


def read_messages(
    run: Path, ids: dict[str, int], clocks: Mapping[str, NodeClock]
) -> Capture | None:
    """Return the messages in the input logs of the run in folder ``run``; None without logs.

    ``ids`` are node ids by name, ``clocks`` the nodes' clocks.
    Raises :class:`~histories.tables.HistoryError` for a log that cannot be read.
    """
    capture, found = Capture(), False
    capture.own_inputs = True
    for name, node in ids.items():
        path = run / "nodes" / name / INPUTS
        if path.exists() and name in clocks:
            found = True
            _read(path, capture, node, clocks[name])
    capture.messages.sort(key=lambda message: message.time)
    return capture if found else None


def _read(path: Path, capture: Capture, node: int, clock: NodeClock) -> None:
    """Add the messages in the input log of ``node``; a line a crash tore is left out."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    recorded = _Recorded(capture, node)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                content = decode(line)
            except UNDECODABLE:
                continue
            try:
                if "event" in content:
                    time, event = clock.time(int(content["now"])) * 1000, content["event"]
                    recorded.step(time, from_plain(event), content.get("answers", ()))
                else:
                    recorded.start()
            except (KeyError, TypeError, ValueError) as error:
                raise HistoryError(f"{path}:{number}: {error}") from error


class _Recorded:
    """Adds the inputs of one node to ``capture``, requests together with their answers.

    A step is recorded before its effects are carried out. So its answers count once the process
    has taken a later step of the quorum: a process that died before sent none of them.
    """

    def __init__(self, capture: Capture, node: int) -> None:
        self._capture = capture
        self._node = node
        self._asked: dict[int, Message] = {}
        """The requests without an answer, by token."""
        self._given: list[tuple[int, Message, Any]] = []
        """When the last step answered which requests, with the answers as JSON values."""

    def start(self) -> None:
        """Take in a process start: the requests of the process before are lost."""
        self._asked.clear()
        self._given.clear()

    def step(self, time: int, event: Any, answers: Sequence[Sequence[Any]]) -> None:
        """Take in a step at ``time`` (ns since the start), and its answers, [token, body] each."""
        if self._given and not isinstance(event, FromShell):
            for at, message, answer in self._given:
                message.sent, message.time = message.time, at
                message.response = from_plain(answer)
            self._given.clear()
        self._take(time, event)
        for token, answer in answers:
            if token in self._asked:
                self._given.append((time, self._asked.pop(token), answer))

    def _take(self, time: int, event: Any) -> None:
        capture, node = self._capture, self._node
        if isinstance(event, RequestReceived):
            capture.request(time, node, event.message)
        elif isinstance(event, ResponseReceived):
            capture.answer(time, node, event.source, event.message)
            if type(event.message) is FetchResponse and event.message.records:
                with suppress(BatchError):  # The node has refused a damaged one.
                    capture.batches.update(dict.fromkeys(split_batches(event.message.records)))
        elif isinstance(event, ApiRequest):
            message = capture.api(time, -1, node, event.api, event.body, None)
            if message is None:
                return
            message.as_gateway = event.listener != CONTROLLER_LISTENER
            # A broker that relays an answer has defaults for what its version lacks.
            relays = message.as_gateway and event.api in FORWARDED
            if not relays or tells_all(event.api, event.version):
                self._asked[event.token] = message
        elif isinstance(event, ApiResponseReceived) and event.body is not None:
            capture.api(time, node, event.source, "", None, event.body)
