"""Disturbed packets on real links: each effect, as the users of the link see it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.remote.session import Remote, RemoteError
from tests.waiting import wait_until

pytestmark = pytest.mark.cluster

MS = 1000
PORT = 7100
PYTHON = "/usr/bin/python3"

ECHO = """
import json, socket, struct, sys, time
ip, count, gap = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((ip, 7)); s.settimeout(3)
trips = []
for n in range(count):
    began = time.monotonic(); s.send(str(n).encode())
    try:
        while s.recv(100) != str(n).encode(): pass
        trips.append(time.monotonic() - began)
    except TimeoutError: pass
print(json.dumps(trips))
"""
"""Asks for echoes one after the other; prints their round trips in seconds."""

ECHOING = """
import os, socket, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 7)); print("up", flush=True)
while True:
    data, whence = s.recvfrom(100); s.sendto(data, whence)
"""

COLLECT = """
import json, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20); s.bind(("", int(sys.argv[1])))
print("up", flush=True); s.settimeout(30); got = []
while True:
    data = s.recv(100)
    if data == b"last": break
    got.append(int(data)); s.settimeout(30)
print(json.dumps(got))
"""
"""Collects numbered datagrams until one says that it is the last."""

SEND = """
import socket, sys, time
ip, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(count):
    s.sendto(str(n).encode(), (ip, port)); time.sleep(0.001)
"""

LAST = """
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"last", (sys.argv[1], int(sys.argv[2])))
"""

SINK = """
import hashlib, json, socket, sys, time
l = socket.create_server(("", int(sys.argv[1]))); print("up", flush=True)
c, _ = l.accept(); began = time.monotonic(); h = hashlib.sha256(); n = 0
try:
    while data := c.recv(65536): h.update(data); n += len(data)
    end = "closed"
except ConnectionResetError: end = "reset"
print(json.dumps([n, h.hexdigest(), time.monotonic() - began, end]))
"""

SOURCE = """
import hashlib, json, socket, sys, time
ip, port, size, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
data = bytes(n * 7 % 251 for n in range(size)); s = socket.create_connection((ip, port))
print("connected", flush=True); sys.stdin.readline() if pause else None
end = "sent"
try:
    s.sendall(data)
    if pause: s.settimeout(pause); s.recv(1)
except ConnectionResetError: end = "reset"
except TimeoutError: end = "silence"
s.close(); print(json.dumps([hashlib.sha256(data).hexdigest(), end]))
"""


def link(host: Host, **effects: float) -> dict[str, Any]:
    nothing = dict.fromkeys(("port", "delay", "jitter", "window", "rate"), 0)
    nothing |= dict.fromkeys(("loss", "reset", "corrupt", "twice"), 0.0)  # type: ignore[arg-type]
    return {"peer": host.ip, **nothing, **effects}


class Links:
    """The links of the first host, and programs at their ends."""

    def __init__(self, hosts: list[Host], remotes: dict[str, Remote]) -> None:
        self.hosts, self.remotes = hosts, remotes
        self.agent = Agent(remotes["n1"])

    def set(self, *links: dict[str, Any], means: str | None = None) -> dict[str, Any]:
        return self.agent.ask("set_links", seed="7", links=list(links), means=means)

    def at(self, host: Host, program: str, *arguments: Any) -> Any:
        """Start a program at the far end and wait until it is up."""
        argv = [PYTHON, "-c", program, *map(str, arguments)]
        channel = self.remotes[host.name].open_channel(argv, 60)
        assert channel.recv(100) == b"up\n"
        return channel

    def run(self, program: str, *arguments: Any) -> Any:
        """Run a program here and return what it prints."""
        argv = [PYTHON, "-c", program, *map(str, arguments)]
        return json.loads(self.remotes["n1"].run(argv, timeout_s=90).text)

    def trips(self, host: Host, count: int = 5) -> list[float]:
        channel = self.at(host, ECHOING)
        found: list[float] = self.run(ECHO, host.ip, count, 0.01)
        channel.shutdown_write()
        channel.recv_exit_status()
        channel.close()
        return found

    def arrivals(self, host: Host, count: int, port: int = PORT) -> list[int]:
        """Send numbered datagrams; return those that arrive, in the order in which they do."""
        channel = self.at(host, COLLECT, port)
        self.remotes["n1"].run([PYTHON, "-c", SEND, host.ip, str(port), str(count)])
        self.set()  # Whatever is held is let go first.
        self.remotes["n1"].run([PYTHON, "-c", LAST, host.ip, str(port)])
        found: list[int] = json.loads(channel.makefile("rb").read())
        channel.close()
        return found

    def netstat(self, host: Host, name: str) -> int:
        """Return a counter of the host's TCP as /proc/net/snmp has it."""
        lines = self.remotes[host.name].get("/proc/net/snmp").decode().splitlines()
        names, values = (line.split() for line in lines if line.startswith("Tcp:"))
        return int(values[names.index(name)])

    def counts(self, host: Host) -> dict[str, Any]:
        """End everything; return what was counted of packets to ``host`` until now."""
        told: dict[str, Any] = self.set()["before"]["links"][host.ip]
        return told


@pytest.fixture
def links(five: list[Host], remotes: dict[str, Remote]) -> Iterator[Links]:
    made = Links(five, remotes)
    yield made
    made.agent.ask("heal_network")
    made.agent.close()


def test_a_delay_counts_for_its_link_only_and_is_measured_by_echoes(links: Links) -> None:
    _, slow, other, *_ = links.hosts
    links.set(link(slow, delay=300 * MS, jitter=100 * MS))
    slowed, others = links.trips(slow), links.trips(other)
    assert len(slowed) == len(others) == 5
    assert min(slowed) >= 0.3 > min(others)
    told = links.set()["before"]
    assert told["links"][slow.ip]["delayed"] >= 5
    assert told["links"][slow.ip]["mean_held_us"] >= 300 * MS
    assert told["echoes"][slow.ip]["round_trip_us"][0] >= 300 * MS
    assert other.ip not in told["links"]
    assert min(links.trips(slow)) < 0.3


def test_lost_packets_are_about_as_many_as_asked_for(links: Links) -> None:
    _, peer, *_ = links.hosts
    links.set(link(peer, loss=40.0))
    arrived = links.arrivals(peer, 300)
    assert 120 <= len(arrived) <= 240, "180 of 300 are to be expected, deviation 8.5"
    assert arrived == sorted(arrived)


def test_every_packet_may_arrive_twice(links: Links) -> None:
    _, peer, *_ = links.hosts
    links.set(link(peer, twice=100.0))
    assert links.arrivals(peer, 50) == [n for n in range(50) for _ in range(2)]


def test_packets_may_overtake_each_other(links: Links) -> None:
    _, peer, *_ = links.hosts
    links.set(link(peer, window=200 * MS))
    arrived = links.arrivals(peer, 100)
    assert sorted(arrived) == list(range(100))
    assert arrived != sorted(arrived)


def test_a_jitter_alone_keeps_the_order(links: Links) -> None:
    _, peer, *_ = links.hosts
    links.set(link(peer, jitter=50 * MS))
    assert links.arrivals(peer, 50) == list(range(50))


def test_tcp_detects_changed_bits_and_delivers_the_original(links: Links) -> None:
    _, peer, *_ = links.hosts
    before = links.netstat(peer, "InCsumErrors")
    links.set(link(peer, corrupt=10.0))
    sink = links.at(peer, SINK, PORT)
    argv = [PYTHON, "-c", SOURCE, peer.ip, str(PORT), "300000", "0"]
    sent = links.remotes["n1"].run(argv, timeout_s=90).text.splitlines()
    size, received, *_ = json.loads(sink.makefile("rb").read())
    assert (size, received) == (300_000, json.loads(sent[1])[0])
    corrupted = links.counts(peer)["corrupted"]
    assert corrupted >= 3
    assert 1 <= links.netstat(peer, "InCsumErrors") - before <= corrupted


def test_a_rate_limit_delays_excess_packets(links: Links) -> None:
    _, peer, *_ = links.hosts
    links.set(link(peer, rate=50_000))
    sink = links.at(peer, SINK, PORT)
    argv = [PYTHON, "-c", SOURCE, peer.ip, str(PORT), "100000", "0"]
    links.remotes["n1"].run(argv, timeout_s=90)
    size, _, took, _ = json.loads(sink.makefile("rb").read())
    assert size == 100_000
    # What is on its way when the first byte is accepted does not count.
    assert took >= 1.6


def test_a_reset_ends_the_connection_at_both_ends(links: Links) -> None:
    _, peer, *_ = links.hosts
    sink = links.at(peer, SINK, PORT)
    argv = [PYTHON, "-c", SOURCE, peer.ip, str(PORT), "1000", "30"]
    source = links.remotes["n1"].open_channel(argv, 60)
    told = source.makefile("rb")
    assert told.readline() == b"connected\n"
    links.set(link(peer, loss=100.0, reset=100.0))
    source.sendall(b"\n")
    assert json.loads(told.readline())[1] == "reset"
    assert json.loads(sink.makefile("rb").read())[3] == "reset"
    assert links.counts(peer)["reset"] >= 1


def test_a_port_may_be_cut_and_the_others_not(links: Links) -> None:
    _, peer, *_ = links.hosts
    links.set(link(peer, port=PORT, loss=100.0), link(peer))
    assert links.arrivals(peer, 20, port=PORT + 1) == list(range(20))
    links.set(link(peer, port=PORT, loss=100.0), link(peer))
    assert links.arrivals(peer, 20, port=PORT) == []


def test_an_effect_is_one_way(links: Links) -> None:
    _, peer, *_ = links.hosts
    links.set(link(peer, loss=100.0))
    back = Agent(links.remotes[peer.name])
    try:
        assert back.ask("set_links", seed="7", links=[])["healed"] is False
    finally:
        back.close()
    channel = links.remotes["n1"].open_channel([PYTHON, "-c", COLLECT, str(PORT)], 60)
    assert channel.recv(100) == b"up\n"
    here = links.hosts[0].ip
    links.remotes[peer.name].run([PYTHON, "-c", SEND, here, str(PORT), "20"])
    links.remotes[peer.name].run([PYTHON, "-c", LAST, here, str(PORT)])
    assert json.loads(channel.makefile("rb").read()) == list(range(20))
    channel.close()


def state(remote: Remote) -> str:
    """Return possible leftovers of a disturbance: rules, queues, routes, devices, processes."""
    shown = ("nft list ruleset", "tc qdisc", "ip route", "ip -br link", "ip rule", "ls /run")
    commands = "; ".join((*shown, "cat /proc/[0-9]*/comm"))
    lines = remote.run(["sh", "-c", commands], check=False).text.splitlines()
    passing = {"sh", "cat", "python3", "sshd", "sshd-session", "sshd-auth"}
    return "\n".join(sorted(line for line in lines if line not in passing))


def test_nothing_is_left_when_the_last_link_is_well(
    links: Links, remotes: dict[str, Remote]
) -> None:
    before = state(remotes["n1"])
    links.set(link(links.hosts[1], delay=5 * MS), link(links.hosts[2], loss=1.0))
    assert state(remotes["n1"]) != before
    links.set()
    # What was ended is gone when the kernel finds the time.
    wait_until(lambda: state(remotes["n1"]) == before)


def test_the_network_is_as_it_was_when_the_forwarder_is_killed(
    links: Links, remotes: dict[str, Remote]
) -> None:
    peer = links.hosts[1]
    assert links.set(link(peer, loss=100.0), means="tun")["means"] == "tun"
    kill = "grep -l '^kw-tun$' /proc/[0-9]*/comm | cut -d/ -f3 | xargs kill -9"
    remotes["n1"].run(["sh", "-c", kill])
    assert len(links.trips(peer)) == 5
    assert links.set()["healed"] is False


@pytest.mark.wall_clock("a command of the control node does not wait for the slow links")
def test_the_control_node_is_never_slowed_down(links: Links, remotes: dict[str, Remote]) -> None:
    links.set(*(link(peer, delay=2000 * MS) for peer in links.hosts[1:]))
    times = []
    for _ in range(3):
        began = time.monotonic()
        remotes["n1"].run(["true"])
        times.append(time.monotonic() - began)
    assert min(times) < 2


def test_means_that_do_not_work_are_refused_in_one_line(links: Links) -> None:
    told = links.agent.ask("network_means")
    assert told["means"]["packets"] in ("netem", "tun")
    missing = {"netem", "tun"} - {
        name for name in ("netem", "tun") if f"packets by {name}" not in told["why"]
    }
    for name in missing:
        with pytest.raises(RemoteError, match=r"^n1: set_links: packets cannot be disturbed"):
            links.set(link(links.hosts[1], loss=1.0), means=name)


def test_a_link_to_the_host_itself_is_refused(links: Links) -> None:
    with pytest.raises(RemoteError, match="is this host itself"):
        links.set(link(links.hosts[0], loss=1.0))
