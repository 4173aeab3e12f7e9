"""The output of a connection: bytes, and parts of files that the kernel sends (sendfile)."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Final

CLOSED: Final = -1


class FilePart:
    """``length`` bytes from ``position`` on of an open file; it owns the descriptor."""

    __slots__ = ("_fd", "_length", "_position")

    def __init__(self, fd: int, position: int, length: int) -> None:
        self._fd = fd
        self._position = position
        self._length = length

    def __len__(self) -> int:
        return self._length

    def send(self, socket: int) -> bool:
        """Send what the socket takes; return whether all is sent.

        Raises BlockingIOError if it takes nothing, and other OSErrors.
        """
        sent = os.sendfile(socket, self._fd, self._position, self._length)
        if sent == 0:
            raise OSError("the file is shorter than its part")
        self._position += sent
        self._length -= sent
        return self._length == 0

    def close(self) -> None:
        """Close the file; may be repeated."""
        if self._fd != CLOSED:
            os.close(self._fd)
            self._fd = CLOSED

    def __del__(self) -> None:
        self.close()


Piece = bytes | bytearray | FilePart


class Outgoing:
    """Sends pieces in order.

    ``failed`` is called when the connection is of no use any longer, ``resumed`` when the socket
    has taken more of a file, so that the connection may be read again.

    The transport sends bytes. While it holds any, nothing else is sent, so at most one piece is in
    its buffer. Parts of files wait for the socket through a second descriptor of it, as the loop
    lets nobody watch that of a transport.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        failed: Callable[[str | None], None],
        resumed: Callable[[], None],
    ) -> None:
        transport.set_write_buffer_limits(high=0)
        self._transport = transport
        self._failed = failed
        self._resumed = resumed
        self._pieces: deque[Piece] = deque()
        self._waiting = CLOSED
        self.held = 0
        """Bytes of pieces that wait in memory."""
        self.is_clogged = False

    @property
    def waits(self) -> bool:
        """Whether the peer has to read before anything else is sent."""
        return self.is_clogged or self._waiting != CLOSED

    def put(self, pieces: list[Piece], held: int) -> None:
        """Send ``pieces``, of which ``held`` bytes are in memory, after all others."""
        self._pieces.extend(pieces)
        self.held += held
        self.pump()

    def pump(self) -> None:
        """Send what can be sent now."""
        while self._pieces and not self.waits:
            piece = self._pieces[0]
            if isinstance(piece, FilePart):
                self._send(piece)
            else:
                self._pieces.popleft()
                self.held -= len(piece)
                self._transport.write(piece)  # This may set is_clogged.

    def close(self) -> None:
        """Drop what was not sent."""
        self._stop_waiting()
        for piece in self._pieces:
            if isinstance(piece, FilePart):
                piece.close()
        self._pieces.clear()
        self.held = 0

    def _send(self, part: FilePart) -> None:
        """Send of the first piece what the socket takes, and wait for it if that is not all."""
        socket = self._transport.get_extra_info("socket").fileno()
        try:
            is_sent = part.send(socket)
        except BlockingIOError:
            is_sent = False
        except OSError as error:
            self.close()
            self._failed(None if socket < 0 or _is_gone(error) else f"cannot send: {error}")
            return
        if is_sent:
            self._stop_waiting()
            self._pieces.popleft()
            part.close()
        elif self._waiting == CLOSED:
            self._waiting = os.dup(socket)
            asyncio.get_running_loop().add_writer(self._waiting, self._writable)

    def _writable(self) -> None:
        """Send more of the part that waits; it keeps its place in the loop until all is sent."""
        part = self._pieces[0]
        assert isinstance(part, FilePart)
        self._send(part)
        if self._waiting == CLOSED:
            self.pump()
            self._resumed()

    def _stop_waiting(self) -> None:
        if self._waiting != CLOSED:
            asyncio.get_running_loop().remove_writer(self._waiting)
            os.close(self._waiting)
            self._waiting = CLOSED


def _is_gone(error: OSError) -> bool:
    return isinstance(error, BrokenPipeError | ConnectionError)
