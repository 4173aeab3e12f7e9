"""Requests to tc and nft for links; and packets that are changed by hand."""

from __future__ import annotations

import errno
import socket
import struct
from typing import Any

import pytest

from kraftwreck.harness.on_host import links
from kraftwreck.harness.on_host.echo import checksum
from kraftwreck.harness.on_host.forward import Forwarder, resets, with_bit_flipped
from kraftwreck.harness.on_host.netem import commands, effects
from kraftwreck.harness.on_host.netem import resets as reset_rules

NOTHING: dict[str, Any] = {"port": 0, "delay": 0, "jitter": 0, "window": 0, "rate": 0}
CHANCES: dict[str, Any] = {"loss": 0.0, "reset": 0.0, "corrupt": 0.0, "twice": 0.0}
PEER = "10.0.0.2"


def link(**does: Any) -> dict[str, Any]:
    return {"peer": PEER, **NOTHING, **CHANCES, **does}


def test_netem_gets_every_effect_in_its_own_units() -> None:
    assert effects(link(delay=5000)) == "limit 20000 delay 5000us"
    assert effects(link(delay=1000, jitter=400, window=600)) == "limit 20000 delay 1500us 500us"
    assert effects(link(loss=12.5, corrupt=1.0, twice=10.0)) == (
        "limit 20000 loss 12.5000% duplicate 10.0000% corrupt 1.0000%"
    )
    assert effects(link(rate=1000)) == "limit 20000 rate 8000bit"


def test_a_reset_packet_is_not_lost_as_well() -> None:
    assert "loss" not in effects(link(loss=20.0, reset=100.0))
    assert "loss 10.0000%" in effects(link(loss=20.0, reset=50.0))
    table = reset_rules([link(loss=20.0, reset=50.0), link(loss=5.0)])
    assert table.count("reject with tcp reset") == 1
    assert "ip daddr 10.0.0.2 meta l4proto tcp numgen random mod 1000000 < 100000" in table
    assert reset_rules([link(loss=5.0)]) == ""
    assert "tcp counter reject" in reset_rules([link(loss=100.0, reset=100.0)])


def test_a_port_is_matched_at_both_ends_before_the_whole_link() -> None:
    lines = commands("eth7", [link(port=9093, loss=100.0), link(delay=5)]).splitlines()
    filters = [line for line in lines if line.startswith("filter")]
    assert [line.split(" prio ")[1] for line in filters] == [
        "1 u32 match ip dst 10.0.0.2/32 match ip dport 9093 0xffff flowid 6b77:10",
        "1 u32 match ip dst 10.0.0.2/32 match ip sport 9093 0xffff flowid 6b77:10",
        "2 u32 match ip dst 10.0.0.2/32 flowid 6b77:11",
    ]
    assert all("dev eth7" in line for line in lines)


# --- packets by hand ------------------------------------------------------------------------


def packet(number: int = 0, source: int = 40_000, destination: int = 9093) -> bytes:
    """A TCP packet to the peer whose payload is a number."""
    addresses = socket.inet_aton("10.0.0.1") + socket.inet_aton(PEER)
    tcp = struct.pack(">HHIIBBHHH", source, destination, 1000, 2000, 5 << 4, 0x18, 99, 0, 0)
    payload = struct.pack(">I", number)
    size = 40 + len(payload)
    return struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0, 64, 6, 0) + addresses + tcp + payload


class Wire:
    """A forwarder and what comes out of it, when asked at moments of our choice."""

    def __init__(self, *links: dict[str, Any]) -> None:
        self.out: list[bytes] = []
        self.back: list[bytes] = []
        self.forwarder = Forwarder("7", lambda peer, data: self.out.append(data), self.back.append)
        self.forwarder.set(list(links))

    def numbers(self) -> list[int]:
        return [struct.unpack(">I", data[-4:])[0] for data in self.out]


def test_a_packet_is_held_for_as_long_as_its_link_is_slow() -> None:
    wire = Wire(link(delay=50_000))
    wire.forwarder.take(packet(), 1.0)
    wait = wire.forwarder.due(1.0)
    assert wait is not None and 0.0499 < wait < 0.0501
    assert wire.out == []
    assert wire.forwarder.due(1.0501) is None
    assert wire.numbers() == [0]


def test_order_is_kept_whatever_the_jitter_and_lost_only_with_a_window() -> None:
    for does, ordered in (({"jitter": 90_000}, True), ({"window": 90_000}, False)):
        wire = Wire(link(**does))
        for number in range(100):
            wire.forwarder.take(packet(number), 1.0 + number / 1000)
        wire.forwarder.flush()
        assert sorted(wire.numbers()) == list(range(100))
        assert (wire.numbers() == list(range(100))) is ordered


def test_packets_follow_each_other_at_the_rate_of_their_link() -> None:
    wire = Wire(link(rate=44_000))  # a thousand packets a second
    for number in range(500):
        wire.forwarder.take(packet(number), 1.0)
    wire.forwarder.due(1.25)
    assert 245 <= len(wire.out) <= 255


def test_the_same_packets_suffer_the_same_with_the_same_seed() -> None:
    def lost() -> list[int]:
        wire = Wire(link(loss=30.0))
        for number in range(200):
            wire.forwarder.take(packet(number), 1.0)
        wire.forwarder.flush()
        return wire.numbers()

    assert lost() == lost()
    assert 120 < len(lost()) < 160


def test_held_packets_survive_the_end_of_a_disturbance() -> None:
    wire = Wire(link(delay=900_000))
    wire.forwarder.take(packet(1), 1.0)
    told = wire.forwarder.set([])
    wire.forwarder.take(packet(2), 1.1)
    wire.forwarder.flush()
    assert wire.numbers() == [1, 2]
    assert told[PEER]["delayed"] == 1


def test_a_reset_takes_the_place_of_its_packet_at_both_ends() -> None:
    pair = resets(packet(source=1234, destination=80))
    assert pair is not None
    for data, ports, sequence, ends in zip(
        pair, ((1234, 80), (80, 1234)), (1000, 2000), (("10.0.0.1", PEER), (PEER, "10.0.0.1")),
        strict=True,
    ):  # fmt: skip
        assert struct.unpack_from(">HHI", data, 20) == (*ports, sequence)
        assert data[33] & 0x04
        assert (socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20])) == ends
        assert checksum(data[:20]) == 0
        assert checksum(data[12:20] + struct.pack(">BBH", 0, 6, 20) + data[20:]) == 0


def test_packets_without_a_connection_are_lost_and_not_reset() -> None:
    udp = bytearray(packet())
    udp[9] = 17
    wire = Wire(link(loss=100.0, reset=100.0))
    wire.forwarder.take(bytes(udp), 1.0)
    wire.forwarder.flush()
    assert wire.out == wire.back == []
    assert wire.forwarder.set([])[PEER] == {"packets": 1, "lost": 1}


def test_one_bit_changes_and_neither_address_nor_port() -> None:
    before = packet(77)
    for number in range(0, 1 << 40, (1 << 40) // 97):
        after = with_bit_flipped(before, number)
        changed = [a ^ b for a, b in zip(before, after, strict=True)]
        assert sum(bin(each).count("1") for each in changed) == 1
        assert not any(changed[:24])


def test_other_ports_of_a_peer_pass_unharmed() -> None:
    wire = Wire(link(port=9093, loss=100.0))
    wire.forwarder.take(packet(1, destination=9093), 1.0)
    wire.forwarder.take(packet(2, source=9093, destination=5), 1.0)
    wire.forwarder.take(packet(3, destination=22), 1.0)
    wire.forwarder.flush()
    assert wire.numbers() == [3]


def test_a_host_without_raw_sockets_has_no_forwarder(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    links.refusals.cache_clear()
    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(links.netem, "refusal", lambda: "no netem here")
    try:
        assert links.refusals()[links.TUN] == "a raw socket: Operation not permitted"
    finally:
        links.refusals.cache_clear()
