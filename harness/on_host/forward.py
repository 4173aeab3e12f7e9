"""On a host: forward packets to peers in user space: delayed, dropped, duplicated or changed.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

For kernels without netem. Routes send the packets to some peers into a tun device, and a raw
socket bound to the real interface sends them on, bypassing these routes. When this process ends,
the kernel removes the device and its routes, and the network is as before. Only this process holds
packets.

A link is ``{"peer": ip, "port": number, ...effects}``; the first one that matches a packet is used.
Port 0 means any. Effects: ``delay``, ``jitter``, ``window`` in microseconds; ``loss``, ``reset``,
``corrupt``, ``twice`` in percent (floats); ``rate`` in bytes per second.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import heapq
import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kraftwreck.harness.on_host.daemon import DaemonError, serve
from kraftwreck.harness.on_host.echo import Echoes, checksum

DEVICE = "kwlinks"
_TUNSETIFF = 0x4004_54CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_SO_BINDTODEVICE = 25
_TCP, _SYN, _RST, _ACK = 6, 0x02, 0x04, 0x10
_LIMIT = 20_000
"""How many packets are held at most; later ones are lost, as in a full queue."""
_BATCH = 64

Link = dict[str, Any]


def resets(packet: bytes) -> tuple[bytes, bytes] | None:
    """Return the packets that reset a packet's TCP connection at both ends, None for others.

    One uses the packet's sequence number, the other its acknowledged number, so both ends accept
    them.
    """
    header = (packet[0] & 15) * 4
    if packet[9] != _TCP or len(packet) < header + 20 or packet[header + 13] & (_RST | _SYN):
        return None
    source, destination = packet[12:16], packet[16:20]
    ports, sequence = packet[header : header + 4], packet[header + 4 : header + 8]
    seen = packet[header + 8 : header + 12]
    there = _reset(source, destination, ports, sequence, seen)
    return there, _reset(destination, source, ports[2:] + ports[:2], seen, sequence)


def _reset(source: bytes, destination: bytes, ports: bytes, sequence: bytes, seen: bytes) -> bytes:
    def tcp(total: int) -> bytes:
        return ports + sequence + seen + struct.pack(">BBHHH", 5 << 4, _RST | _ACK, 0, total, 0)

    def ip(total: int) -> bytes:
        head = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, _TCP, total)
        return head + source + destination

    pseudo = source + destination + struct.pack(">BBH", 0, _TCP, 20)
    return ip(checksum(ip(0))) + tcp(checksum(pseudo + tcp(0)))


def with_bit_flipped(packet: bytes, number: int) -> bytes:
    """Return the packet with one bit after its IP header changed; ports stay the same."""
    first = (packet[0] & 15) * 4 + 4
    if len(packet) <= first:
        return packet
    place = first + number % (len(packet) - first)
    changed = bytearray(packet)
    changed[place] ^= 1 << (number >> 32) % 8
    return bytes(changed)


def ports_of(packet: bytes) -> tuple[int, int]:
    """Return source and destination port of TCP and UDP, (0, 0) of anything else."""
    header = (packet[0] & 15) * 4
    if packet[9] not in (_TCP, 17) or len(packet) < header + 4:
        return 0, 0
    source, destination = struct.unpack_from(">HH", packet, header)
    return source, destination


class Peer:
    """Counters of packets to one peer, and the state that orders them."""

    def __init__(self) -> None:
        self.packets = 0
        self.last_out = 0.0
        self.free_at: dict[int, float] = {}
        self.counts: dict[str, int] = {}
        self.held_us = 0

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


class Forwarder:
    """Decides on packets, and holds them until they are due; ``send`` sends one to its peer,
    ``arrive`` delivers one to this host."""

    def __init__(
        self,
        seed: str,
        send: Callable[[str, bytes], None],
        arrive: Callable[[bytes], None],
    ) -> None:
        self.links: dict[str, list[Link]] = {}
        self._seed = seed
        self._send = send
        self._arrive = arrive
        self._held: list[tuple[float, int, float, str, bytes]] = []
        self._number = 0
        self.peers: dict[str, Peer] = {}

    def set(self, links: list[Link]) -> dict[str, dict[str, int]]:
        """Use ``links`` from now on; return the counts since the last call."""
        told = {}
        for ip, peer in self.peers.items():
            if peer.packets:
                sent = peer.counts.get("sent", 0)
                mean = {"mean_held_us": peer.held_us // sent} if sent else {}
                told[ip] = {"packets": peer.packets, **peer.counts, **mean}
            peer.packets, peer.held_us, peer.counts = 0, 0, {}
        self.links = {}
        for link in links:
            self.links.setdefault(link["peer"], []).append(link)
        return told

    def take(self, packet: bytes, now: float) -> None:
        """Decide on an outgoing packet."""
        if len(packet) < 20 or packet[0] >> 4 != 4:
            return
        ip = socket.inet_ntoa(packet[16:20])
        peer = self.peers.setdefault(ip, Peer())
        peer.packets += 1
        link = self._fitting(ip, packet)
        if link is None:
            self._hold(max(now, peer.last_out), now, ip, packet)
            return
        dice = self._dice(ip, peer.packets)
        if next(dice) * 100 < link["loss"]:
            pair = resets(packet) if next(dice) * 100 < link["reset"] else None
            peer.count("lost" if pair is None else "reset")
            if pair is not None:
                self._hold(max(now, peer.last_out), now, ip, pair[0])
                self._arrive(pair[1])
            return
        if next(dice) * 100 < link["corrupt"]:
            peer.count("corrupted")
            packet = with_bit_flipped(packet, int(next(dice) * (1 << 53)))
        at = now + (link["delay"] + next(dice) * link["jitter"]) / 1e6
        if link["delay"] or link["jitter"]:
            peer.count("delayed")
        if link["rate"]:
            # A rate limit: packets follow each other.
            free = max(peer.free_at.get(link["port"], 0.0), at) + len(packet) / link["rate"]
            peer.free_at[link["port"]] = at = free
        at = max(at, peer.last_out)
        peer.last_out = at
        if link["window"]:
            late = next(dice) * link["window"] / 1e6
            at += late
            peer.count("reordered")
        if len(self._held) >= _LIMIT:
            peer.count("overflowed")
            return
        self._hold(at, now, ip, packet)
        if next(dice) * 100 < link["twice"]:
            peer.count("repeated")
            self._hold(at, now, ip, packet)

    def _fitting(self, ip: str, packet: bytes) -> Link | None:
        for link in self.links.get(ip, ()):
            if not link["port"] or link["port"] in ports_of(packet):
                return link
        return None

    def _dice(self, ip: str, number: int) -> Any:
        """Yield numbers in [0, 1), the same for the same packet of the same peer."""
        turn = 0
        while True:
            text = f"{self._seed}\x1f{ip}\x1f{number}\x1f{turn}".encode()
            digest = hashlib.blake2b(text, digest_size=64).digest()
            for word in struct.unpack("<8Q", digest):
                yield (word >> 11) / (1 << 53)
            turn += 1

    def _hold(self, at: float, now: float, ip: str, packet: bytes) -> None:
        self._number += 1
        heapq.heappush(self._held, (at, self._number, now, ip, packet))

    def due(self, now: float) -> float | None:
        """Send packets that are due; return the seconds until the next one, None for never."""
        while self._held and self._held[0][0] <= now:
            _, _, since, ip, packet = heapq.heappop(self._held)
            peer = self.peers[ip]
            peer.count("sent")
            peer.held_us += round((time.monotonic() - since) * 1e6)
            self._send(ip, packet)
        return max(0.0, self._held[0][0] - now) if self._held else None

    def flush(self) -> None:
        """Send all held packets at once, in order."""
        self.due(float("inf"))


class Tun:
    """The tun device, the routes to it, and the sockets that send packets on."""

    def __init__(self, routes: dict[str, dict[str, str]]) -> None:
        self.fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        request = struct.pack("16sH22x", DEVICE.encode(), _IFF_TUN | _IFF_NO_PI)
        fcntl.ioctl(self.fd, _TUNSETIFF, request)
        self._out: dict[str, socket.socket] = {}
        self.ways: dict[str, socket.socket] = {}
        disable = Path(f"/proc/sys/net/ipv6/conf/{DEVICE}/disable_ipv6")
        # In a container this may be read-only: then the forwarder drops IPv6 packets one by one.
        try:
            disable.write_text("1")
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EROFS):
                raise
        mtu = min(int(Path(f"/sys/class/net/{way['dev']}/mtu").read_text())
                  for way in routes.values())  # fmt: skip
        _ip(f"link set {DEVICE} mtu {mtu} txqueuelen 5000 up\n")
        self.routed: set[str] = set()
        self.add(routes)

    def add(self, routes: dict[str, dict[str, str]]) -> None:
        """Route packets to more peers into the device; ``routes`` are their original routes."""
        lines = []
        for peer, way in routes.items():
            if peer in self.routed:
                continue
            self.ways[peer] = self._way(way["dev"])
            lines.append(f"route add {peer}/32 dev {DEVICE} src {way['src']}\n")
        _ip("".join(lines))
        self.routed |= routes.keys()

    def remove(self, peers: set[str]) -> None:
        """Restore the direct routes to ``peers``."""
        _ip("".join(f"route del {peer}/32 dev {DEVICE}\n" for peer in sorted(peers)))
        self.routed -= peers

    def _way(self, device: str) -> socket.socket:
        if device not in self._out:
            out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
            out.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, device.encode())
            out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
            out.setblocking(False)
            self._out[device] = out
        return self._out[device]

    def send(self, peer: str, packet: bytes) -> None:
        try:
            self.ways[peer].sendto(packet, (peer, 0))
        except OSError as error:
            # A packet that cannot be sent is lost, as on any interface that is full or down.
            if error.errno in (errno.EBADF, errno.ENOTSOCK):
                raise

    def arrive(self, packet: bytes) -> None:
        """Deliver a packet to this host."""
        with contextlib.suppress(OSError):
            os.write(self.fd, packet)

    def read(self) -> list[bytes]:
        packets = []
        try:
            for _ in range(_BATCH):
                packets.append(os.read(self.fd, 65536))
        except BlockingIOError:
            pass
        return packets


def _ip(commands: str) -> None:
    if not commands:
        return
    done = subprocess.run(
        ["ip", "-batch", "-"], input=commands, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise DaemonError(f"ip: {(done.stderr.strip().splitlines() or ['no message'])[0]}")


class ForwardingProcess:
    """The process: packets, echoes, and requests of the agent (``set``, ``end``)."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._tun = Tun(request["routes"])
        self._forwarder = Forwarder(request["seed"], self._tun.send, self._tun.arrive)
        self._forwarder.set(request["links"])
        self._echoes = Echoes({link["peer"] for link in request["links"]})
        self._ended = False

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "end":
            self._ended = True
            self._forwarder.flush()
            links: list[Link] = []
        elif request["do"] == "set":
            links = request["links"]
            self._tun.add(request["routes"])
        else:
            raise DaemonError(f"{request['do']!r} is not a known request")
        told = {"links": self._forwarder.set(links), "echoes": self._echoes.take()}
        peers = {link["peer"] for link in links}
        self._echoes.set(peers)
        if not self._ended:
            self._tun.remove(self._tun.routed - peers)
        return told

    def run(self, listener: socket.socket) -> None:
        forwarder, tun, echoes = self._forwarder, self._tun, self._echoes
        while not self._ended:
            soon = forwarder.due(time.monotonic())
            wait = echoes.due() if soon is None else min(soon, echoes.due())
            watched: list[Any] = [tun.fd, listener, echoes.socket]
            ready, _, _ = select.select(watched, [], [], wait)
            if tun.fd in ready:
                for packet in tun.read():
                    forwarder.take(packet, time.monotonic())
            if echoes.socket in ready:
                echoes.receive()
            if listener in ready:
                serve(listener.accept()[0], self.handle)
