"""On a host: round-trip times of ICMP echoes to peers, twice a second.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent. Echoes take the
path of all packets, so they show the effect of a fault on a link.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from typing import Any

INTERVAL_S = 0.5
_REQUEST, _REPLY = 8, 0
_PAYLOAD = struct.Struct(">HHd")


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Echoes:
    """Sends echoes to ``peers`` and records their round trips."""

    def __init__(self, peers: set[str]) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self.socket.setblocking(False)
        self._identifier = os.getpid() & 0xFFFF
        self._next = 0.0
        self._sequence = 0
        self._peers: set[str] = set()
        self._sent: dict[str, int] = {}
        self._trips: dict[str, list[int]] = {}
        self.set(peers)

    def set(self, peers: set[str]) -> None:
        """Send echoes to these peers from now on."""
        self._peers = peers

    def due(self) -> float:
        """Send echoes if they are due; return the seconds until the next time."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL_S
            self._sequence = self._sequence + 1 & 0xFFFF
            for peer in sorted(self._peers):
                self._ask(peer)
        return max(0.0, self._next - now)

    def _ask(self, peer: str) -> None:
        body = _PAYLOAD.pack(self._identifier, self._sequence, time.monotonic())
        total = checksum(struct.pack(">BBH", _REQUEST, 0, 0) + body)
        with contextlib.suppress(OSError):
            self.socket.sendto(struct.pack(">BBH", _REQUEST, 0, total) + body, (peer, 0))
        self._sent[peer] = self._sent.get(peer, 0) + 1

    def receive(self) -> None:
        """Record the echoes that have arrived."""
        with contextlib.suppress(BlockingIOError):
            while True:
                packet, (peer, _) = self.socket.recvfrom(2048)
                header = (packet[0] & 15) * 4
                body = packet[header + 4 : header + 4 + _PAYLOAD.size]
                if packet[header] != _REPLY or len(body) < _PAYLOAD.size:
                    continue
                identifier, _, began = _PAYLOAD.unpack(body)
                if identifier == self._identifier:
                    trip = round((time.monotonic() - began) * 1e6)
                    self._trips.setdefault(peer, []).append(trip)

    def take(self) -> dict[str, dict[str, Any]]:
        """Return, by peer, how many echoes were sent and received since the last call, and their
        round trips in µs: minimum, median, maximum."""
        told: dict[str, dict[str, Any]] = {}
        for peer, sent in sorted(self._sent.items()):
            trips = sorted(self._trips.get(peer, ()))
            told[peer] = {"asked": sent, "came": len(trips)}
            if trips:
                told[peer]["round_trip_us"] = [trips[0], trips[len(trips) // 2], trips[-1]]
        self._sent, self._trips = {}, {}
        return told
