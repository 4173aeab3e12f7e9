"""The network between processes of one loop: pairs of sockets, and what carries bytes between them.

Each connection is two pairs of sockets with a carrier between them, which delays, holds back and
cuts what it carries. So both ends meet short reads and writes, and full buffers, of a real kernel.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

from kraftwreck.simulation.instant_loop import InstantLoop

Address = tuple[str, int]

CLIENT: Final = "10.0.1.1"
"""The host of all clients."""
LOOK_AGAIN_S: Final = 0.05
"""How often a carrier looks whether its way is free again."""
LATENCY_S: Final = 0.002
"""The longest time of a packet on its way."""
SMALLEST_BUFFER: Final = 8 << 10
LARGEST_BUFFER: Final = 100 << 10
PACKETS: Final = (1, 700, 5_000, 70_000)
"""The most bytes that are carried at once, one of these for each connection and direction."""


class Port:
    """Stands for a bound socket: the address at which a process listens."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def setsockopt(self, *option: int) -> None:
        """Do nothing: the network chooses the buffers of connections."""

    def close(self) -> None:
        """Do nothing: the server frees the address."""


class _Named(socket.socket):
    """One end of a pair of sockets, with the address of its peer."""

    peer: Address = ("", 0)

    def getpeername(self) -> Address:
        return self.peer


@dataclass(eq=False)
class Wire:
    """One connection: its two hosts, the protocol of the listening end, and whether it is cut."""

    source: str
    target: Address
    accepted: Any = None
    cut: bool = False
    inner: list[socket.socket] = field(default_factory=list)


class _Server:
    """The part of :class:`asyncio.Server` that a process uses."""

    def __init__(self, network: Network, port: Port, factory: Callable[[], Any]) -> None:
        self._network, self._port, self._factory = network, port, factory

    async def start_serving(self) -> None:
        self._network.listening[self._port.address] = self._factory

    def close(self) -> None:
        self._network.listening.pop(self._port.address, None)


class Network(InstantLoop):
    """The loop of all processes and clients, and the network between them.

    ``blocked`` has the pairs of hosts of which the first one reaches the second one no longer.
    """

    def __init__(self, seed: int, start_s: float) -> None:
        super().__init__(start_s)
        self.dice = random.Random(seed)  # noqa: S311  # repeatable, not secret
        self.listening: dict[Address, Callable[[], Any]] = {}
        self.blocked: set[tuple[str, str]] = set()
        self.breaking = 0.0
        """How often a connection between processes breaks, of all packets: in the midst of one."""
        self.wires: list[Wire] = []
        self.carriers: set[asyncio.Task[None]] = set()

    # --- what processes see -----------------------------------------------------------------

    async def create_server(self, protocol_factory: Any, *_: Any, **options: Any) -> Any:
        """Return a server at the address of ``sock``, a :class:`Port`."""
        return _Server(self, cast(Port, options["sock"]), protocol_factory)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """Connect to an address from the host of ``local_addr``. Raises ConnectionRefusedError."""
        if options.get("sock") is not None:
            return await super().create_connection(protocol_factory, sock=options["sock"])
        source, target = options["local_addr"][0], (host, port)
        while self._is_blocked(source, host) or self._is_blocked(host, source):
            await asyncio.sleep(LOOK_AGAIN_S)
        await asyncio.sleep(self._latency())
        factory = self.listening.get(target)
        if factory is None:
            raise ConnectionRefusedError(f"{source} finds nobody at {host}:{port}")
        wire = Wire(source, target)
        near, far = self._pair((host, port)), self._pair((source, 1))
        wire.inner = [near[1], far[1]]
        self.wires.append(wire)
        try:
            _, wire.accepted = await self.connect_accepted_socket(factory, far[0])
        except asyncio.CancelledError:
            for end in (near[0], *wire.inner):
                end.close()
            raise
        for begin, end, way in (
            (near[1], far[1], (source, host)),
            (far[1], near[1], (host, source)),
        ):
            task = self.create_task(self._carry(wire, begin, end, way))
            self.carriers.add(task)
            task.add_done_callback(self.carriers.discard)
        return await super().create_connection(protocol_factory, sock=near[0])

    # --- faults -----------------------------------------------------------------------------

    def cut(self, chosen: Callable[[Wire], bool]) -> None:
        """End all connections that are ``chosen``."""
        for wire in self.wires:
            if chosen(wire):
                wire.cut = True
                for end in wire.inner:
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)

    def _is_blocked(self, source: str, target: str) -> bool:
        return (source, target) in self.blocked

    def _latency(self) -> float:
        return self.dice.random() * LATENCY_S

    def _pair(self, peer: Address) -> tuple[_Named, socket.socket]:
        """Return a pair of sockets: that of a process, which sees ``peer``, and that within."""
        process, within = socket.socketpair()
        size = self.dice.randrange(SMALLEST_BUFFER, LARGEST_BUFFER)
        process.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        within.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        within.setblocking(False)
        named = _Named(fileno=process.detach())
        named.peer = peer
        named.setblocking(False)
        return named, within

    async def _carry(
        self, wire: Wire, begin: socket.socket, end: socket.socket, way: tuple[str, str]
    ) -> None:
        """Carry the bytes of one direction until either end closes."""
        most = self.dice.choice(PACKETS)
        carried = 0
        try:
            while data := await self.sock_recv(begin, most if carried < 4 * most else PACKETS[-1]):
                carried += len(data)
                if self.dice.random() < 0.5:
                    await asyncio.sleep(self._latency())
                while self._is_blocked(*way) and not wire.cut:
                    await asyncio.sleep(LOOK_AGAIN_S)
                if wire.source != CLIENT and self.dice.random() < self.breaking:
                    data = data[: self.dice.randrange(len(data) + 1)]
                    wire.cut = True
                await self.sock_sendall(end, data)
                if wire.cut:
                    return
        except OSError:
            pass  # The other end is gone.
        finally:
            for each in wire.inner:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            if wire in self.wires:
                self.wires.remove(wire)
            else:
                for each in wire.inner:
                    each.close()
