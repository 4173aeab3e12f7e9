"""The listener's side of connections: frames in, answers out in the order of requests.

A client may pipeline. A frame that cannot be understood closes its connection with one line on
stderr, and never harms the node: see Kafka's ``SocketServer`` for the same rules.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final, NamedTuple, cast

from kraftwreck.nodes.consensus.effects import (
    Abandon,
    ApiReply,
    ApiRequest,
    Event,
    Reply,
    RequestReceived,
)
from kraftwreck.nodes.protocol.apis import (
    API_KEYS,
    NAMES,
    SUPPORTED,
    decode_request_header,
    encode_response,
)
from kraftwreck.nodes.protocol.codec import ProtocolError, decode
from kraftwreck.nodes.protocol.errors import UNSUPPORTED_VERSION
from kraftwreck.nodes.protocol.limits import LARGEST, limit_of
from kraftwreck.nodes.protocol.primitives import Buffer
from kraftwreck.nodes.replication.effects import Silent
from kraftwreck.nodes.server.admission import Admission
from kraftwreck.nodes.server.console import say
from kraftwreck.nodes.server.gathering import Gathering
from kraftwreck.nodes.server.listeners import Listener
from kraftwreck.nodes.server.log_dirs import APIS as LOG_DIR_APIS
from kraftwreck.nodes.server.log_dirs import LogDirs
from kraftwreck.nodes.server.outgoing import FilePart, Outgoing, Piece
from kraftwreck.nodes.server.record_requests import (
    HANDLED,
    Answer,
    Call,
    RecordRequests,
    answered_early,
    event_of,
)
from kraftwreck.nodes.server.wire import (
    Body,
    Endpoints,
    ShapeError,
    invalid_request,
    request_from_body,
    response_to_body,
)

MAX_PENDING: Final = 100
"""With this many unanswered requests a connection is not read."""
REQUEST_WEIGHT: Final = 64 << 10
"""Bytes that an unanswered request counts for."""
RECEIVE_BYTES: Final = 256 << 10
LARGE_FRAME: Final = 64 << 10
FIRST_ROOM: Final = 1 << 20
"""Bytes for a large frame at first."""
TURN_S: Final = 0.01
"""Time for one connection's requests before those of others."""
_MS: Final = 1_000_000
_LENGTH: Final = 4
_SIZE = Struct(">i")
_KEY = Struct(">h")
_KEY_END: Final = 6


class _Slot:
    """A request that waits for its answer, and for the answers before it."""

    __slots__ = ("api", "call", "connection", "correlation", "held", "pieces", "token", "version")

    def __init__(self, connection: Connection, api: str, version: int, correlation: int) -> None:
        self.connection = connection
        self.api = api
        self.version = version
        self.correlation = correlation
        self.pieces: list[Piece] | None = None
        self.held = 0
        """Bytes of ``pieces`` in memory."""
        self.call: Call | None = None
        self.token = -1


class Records(NamedTuple):
    """How requests for records are read and answered, and how their events get to the node."""

    requests: RecordRequests
    gathering: Gathering


class Requests:
    """Requests that the node has not answered yet, by token.

    ``records`` takes those for the records of partitions, ``log_dirs`` answers those about their
    directory; None: there are none.
    """

    def __init__(
        self,
        submit: Callable[[Event], None],
        endpoints: Endpoints,
        records: Records | None = None,
        log_dirs: LogDirs | None = None,
    ) -> None:
        self.submit = submit
        self.records = records
        self.log_dirs = log_dirs
        self._endpoints = endpoints
        self.received = bytearray(RECEIVE_BYTES)
        """Where all connections receive; a part of a request is copied to its connection."""
        self._slots: dict[int, _Slot] = {}
        self._next = 0

    def open(self, slot: _Slot) -> int:
        """Return a token for a new request."""
        self._next += 1
        slot.token = self._next
        self._slots[self._next] = slot
        return self._next

    def forget(self, slots: Iterable[_Slot]) -> None:
        """Drop the requests of a closed connection."""
        for slot in slots:
            self._slots.pop(slot.token, None)

    def abandon(self, effect: Abandon) -> None:
        """Close the connection of a request whose handler failed."""
        slot = self._slots.pop(effect.token, None)
        if slot is not None:
            slot.connection.close(f"the handler of {slot.api} failed")

    def reply(self, effect: Reply | ApiReply) -> None:
        """Answer a request; nothing happens if its client has disconnected."""
        slot = self._slots.pop(effect.token, None)
        if slot is None:
            return
        try:
            if isinstance(effect, ApiReply):
                body = effect.body
            else:
                body = response_to_body(effect.message, slot.version, self._endpoints, slot.api)
            frame = encode_response(slot.api, slot.version, slot.correlation, body)
        except Exception as error:  # an answer that cannot be encoded concerns its client only
            slot.connection.close(f"cannot answer {slot.api}: {error!r}")
            return
        slot.connection.answer(slot, [frame])

    def begin_records(self, slot: _Slot, frame: memoryview, offset: int) -> None:
        """Read a request for records and pass it to the node. Raises ProtocolError."""
        assert self.records is not None
        requests, gathering = self.records
        token = self.open(slot)
        try:
            slot.call = requests.read(
                slot.api, slot.version, frame, offset, token=token, wall_ms=time.time_ns() // _MS
            )
        except ProtocolError:
            self.forget((slot,))
            raise
        answer = answered_early(slot.call)
        if answer is None:
            gathering.add(event_of(slot.call))
        else:
            answer.token = token
            self.reply_records(answer)

    def reply_records(self, answer: Answer) -> None:
        """Answer a request for records; nothing happens if its client has disconnected."""
        slot = self._slots.pop(answer.token, None)
        if slot is None:
            return
        assert self.records is not None and slot.call is not None
        if isinstance(answer, Silent):
            if self.records.requests.closes(slot.call, answer):
                # A producer with acks 0 gets no response, so a closed connection is its only error.
                slot.connection.close("a Produce with acks 0 failed")
            else:
                slot.connection.answer(slot, [])
            return
        requests = self.records.requests
        try:
            frame = requests.frame(slot.api, slot.version, slot.correlation, slot.call, answer)
        except Exception as error:  # a part of a log that cannot be read concerns its readers
            slot.connection.close(f"cannot answer {slot.api}: {error!r}")
            return
        slot.connection.answer(slot, frame)


class Connection(asyncio.BufferedProtocol):
    """A connection from one client or peer.

    Small frames are copied once from where they were received. A large one is received where it
    stays. While a Fetch is unanswered nothing else is handled, as in Kafka: its answer is large.
    """

    def __init__(self, requests: Requests, admission: Admission, listener: Listener) -> None:
        self._requests = requests
        self._admission = admission
        self._listener = listener
        self._buffer = bytearray()
        self._large: bytearray | None = None
        """A large frame with the length before it, ``_whole`` bytes, of which ``_filled`` are here.

        It grows with what is here, since anybody can announce one.
        """
        self._filled = self._whole = 0
        self._slots: deque[_Slot] = deque()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._outgoing: Outgoing | None = None
        self.host = ""
        self.listener_name = listener.name
        self.has_asked = False
        self._peer = "?"
        self._paused = False
        self._fetching = 0
        self._yielding = False
        self._ready_bytes = 0
        self.last_active = 0.0

    # --- asyncio.Protocol -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection; asyncio has set TCP_NODELAY on it."""
        self._transport = cast("asyncio.Transport", transport)
        self._outgoing = Outgoing(self._transport, self.close, self._throttle)
        name = transport.get_extra_info("peername")
        if name:
            self.host, self._peer = name[0], f"{name[0]}:{name[1]}"
        self._touch()
        self._admission.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop all requests that the client still waited for."""
        self._transport = None
        self._admission.leave(self)
        self._requests.forget(self._slots)
        self._slots.clear()
        self._buffer.clear()
        self._large = None
        if self._outgoing is not None:
            self._outgoing.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to receive: the rest of a large frame, or the buffer of all connections."""
        if self._large is not None:
            if self._filled == len(self._large):
                # Not in buffer_updated: its caller still holds a view, which forbids to resize.
                self._large += bytes(min(self._filled, self._whole - self._filled))
            return memoryview(self._large)[self._filled :]
        return memoryview(self._requests.received)

    def buffer_updated(self, nbytes: int) -> None:
        """Handle every frame that is complete."""
        if self._large is None:
            self.data_received(memoryview(self._requests.received)[:nbytes])
            return
        self._touch()
        self._filled += nbytes
        if self._filled == self._whole:
            frame, self._large, self._filled = self._large, None, 0
            self._handle(memoryview(frame)[_LENGTH:])
        self._admission.note(self)

    def data_received(self, data: Buffer) -> None:
        """Handle every frame that is complete with ``data``."""
        self._buffer += data
        self._handle_frames()
        self._admission.note(self)

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its answers."""
        if self._outgoing is not None:
            self._outgoing.is_clogged = True
        self._throttle()

    def resume_writing(self) -> None:
        """Send the rest, and resume reading."""
        if self._outgoing is not None:
            self._outgoing.is_clogged = False
            self._outgoing.pump()
        self._throttle()

    # --- in -------------------------------------------------------------------------------

    @property
    def idle_since(self) -> float:
        """Loop time since which the connection is idle; infinity while it is not."""
        return float("inf") if self._slots else self.last_active

    @property
    def bytes_held(self) -> int:
        """Bytes in memory for this client, see :class:`~nodes.server.admission.Held`."""
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if self._outgoing is not None:
            unsent += self._outgoing.held
        waiting = self._ready_bytes + REQUEST_WEIGHT * len(self._slots)
        return len(self._buffer) + self._filled + unsent + waiting

    def close(self, reason: str | None = None) -> None:
        """Close the connection, and log ``reason`` unless it is empty."""
        if self._transport is not None:
            if reason is not None:
                say(f"closing the connection from {self._peer}: {reason}")
            self._transport.abort()
            self._transport = None

    def _touch(self) -> None:
        self.last_active = self._loop.time()

    def _handle_frames(self) -> None:
        """Handle the whole frames in the buffer, within the time of one turn."""
        position = 0
        self._touch()
        over = self.last_active + TURN_S
        while self._transport is not None and not self._waits:
            available = len(self._buffer) - position
            if available < _LENGTH:
                break
            (size,) = _SIZE.unpack_from(self._buffer, position)
            if not 8 <= size <= LARGEST:
                self.close(f"a frame of {size} bytes is not a request")
                return
            if available >= _KEY_END and not self._acceptable(position, size):
                return
            end = position + _LENGTH + size
            if len(self._buffer) < end:
                if size > LARGE_FRAME and available >= _KEY_END:
                    self._whole, self._filled = _LENGTH + size, available
                    room = min(max(FIRST_ROOM, available), self._whole)
                    self._large = self._buffer[position:] + bytes(room - available)
                    position += available
                break
            frame = self._buffer[position + _LENGTH : end]
            position = end
            self._handle(memoryview(frame))
            if len(self._buffer) - position >= _LENGTH and self._loop.time() >= over:
                self._yield_turn()
                break
        del self._buffer[:position]
        self._throttle()

    def _yield_turn(self) -> None:
        """Let other connections run, and read nothing before this one continues."""
        self._yielding = True
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._yielding = False
        self._handle_frames()

    def _acceptable(self, position: int, size: int) -> bool:
        """Check the API key and the size before the whole frame has arrived."""
        (key,) = _KEY.unpack_from(self._buffer, position + _LENGTH)
        name = NAMES.get(key)
        if name not in self._listener.served:
            called = f"api {key}" if name is None else f"{name} (api {key})"
            self.close(f"{called} is not served on the listener {self._listener.name}")
            return False
        of_records = name in self._listener.records
        if size > limit_of(name, of_records=of_records).size:
            self.close(f"a {name} request of {size} bytes is too long")
            return False
        return True

    def _handle(self, frame: memoryview) -> None:
        try:
            key, version, correlation, _, offset = decode_request_header(frame)
            api = NAMES[key]
            slot = _Slot(self, api, version, correlation)
            low, high = self._listener.versions(api)
            if not low <= version <= high:
                self._unsupported(slot)
                return
            if api in HANDLED and api in self._listener.records:
                self.has_asked = True
                self._slots.append(slot)
                self._fetching += api == "Fetch"
                self._requests.begin_records(slot, frame, offset)
                return
            of_records = api in self._listener.records
            items = limit_of(api, of_records=of_records).items
            body, _ = decode(f"{api}Request", version, frame, offset, items)
        except ProtocolError as error:
            self.close(str(error))
            return
        self.has_asked = True
        self._slots.append(slot)
        event: Event
        if api in LOG_DIR_APIS:
            assert self._requests.log_dirs is not None, "a listener with records has their logs"
            self._answer_body(slot, self._requests.log_dirs.body(api, body))
            return
        if api in self._listener.quorum:
            try:
                message = request_from_body(api, version, body)
            except ShapeError:
                self._answer_body(slot, invalid_request(api, body))
                return
            event = RequestReceived(self._requests.open(slot), message)
        else:
            event = ApiRequest(
                self._requests.open(slot), api, version, body, self._listener.name, self.host
            )
        self._requests.submit(event)

    def _unsupported(self, slot: _Slot) -> None:
        """Send the supported versions to a client that requests them; disconnect any other."""
        if slot.api != "ApiVersions":
            self.close(f"{slot.api} version {slot.version} is not served here")
            return
        ranges = [
            {"api_key": API_KEYS[api], "min_version": low, "max_version": high}
            for api in sorted(SUPPORTED)
            if api in self._listener.served
            for low, high in (self._listener.versions(api),)
        ]
        slot.version = 0
        self._slots.append(slot)
        self._answer_body(slot, {"error_code": UNSUPPORTED_VERSION, "api_keys": ranges})

    # --- out ------------------------------------------------------------------------------

    def _answer_body(self, slot: _Slot, body: Body) -> None:
        self.answer(slot, [encode_response(slot.api, slot.version, slot.correlation, body)])

    def answer(self, slot: _Slot, pieces: list[Piece]) -> None:
        """Send ``pieces`` as the answer to ``slot``, after the answers before it.

        Without any, nothing is sent.
        """
        slot.pieces, slot.held = _framed(pieces) if pieces else (pieces, 0)
        self._ready_bytes += slot.held
        while self._slots and self._slots[0].pieces is not None:
            slot = self._slots.popleft()
            self._fetching -= slot.api == "Fetch" and slot.call is not None
            self._ready_bytes -= slot.held
            if self._transport is not None and self._outgoing is not None:
                self._outgoing.put(slot.pieces or [], slot.held)
        self._touch()
        self._throttle()
        self._admission.note(self)

    @property
    def _waits(self) -> bool:
        """Whether the next frame has to wait."""
        return (
            self._fetching > 0
            or self._yielding
            or len(self._slots) >= MAX_PENDING
            or (self._outgoing is not None and self._outgoing.waits)
        )

    def _throttle(self) -> None:
        """Stop or start reading; frames left in the buffer are handled later.

        A client that sends nothing while its frames would wait costs no call of the kernel.
        """
        holds = len(self._buffer) > 0 or self._large is not None
        pause = holds and self._waits
        if pause == self._paused or self._transport is None:
            return
        self._paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
            # Deferred: a step's effects may be in progress.
            self._loop.call_soon(self._handle_frames)


def _framed(pieces: list[Piece]) -> tuple[list[Piece], int]:
    """Return ``pieces`` behind their length, and how many bytes of both are in memory.

    Neighbours in memory are joined, since each piece is sent by itself.
    """
    together: list[bytes | bytearray] = [sum(map(len, pieces)).to_bytes(_LENGTH, "big")]
    held = 0
    framed: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, FilePart):
            joined = b"".join(together)
            held += len(joined)
            framed += (joined, piece)
            together = []
        else:
            together.append(piece)
    if together:
        framed.append(b"".join(together))
        held += len(framed[-1])
    return framed, held
