"""Drops of real packets: reachability by UDP and TCP, under grudges and after healing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kraftwreck.harness.capabilities import Grudge
from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.remote.session import Remote, RemoteError, on_all
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment

pytestmark = pytest.mark.cluster

NAMES = ["n1", "n2", "n3", "n4", "n5"]
UDP_PORT = 7007

LISTENER = f"""
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", {UDP_PORT})); s.settimeout(0.3)
print("bound", flush=True); sys.stdin.readline(); seen = set()
try:
    while True: seen.add(s.recvfrom(100)[1][0])
except TimeoutError: print(",".join(sorted(seen)))
"""

TCP_PROBE = """
import json, select, socket, sys
asked = {}
for ip in sys.argv[1:]:
    s = socket.socket(); s.setblocking(False); s.connect_ex((ip, 22)); asked[s] = ip
reached = []
while asked and (ready := select.select([], list(asked), [], 1.2)[1]):
    for s in ready:
        ip = asked.pop(s)
        if not s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR): reached.append(ip)
print(json.dumps(reached))
"""

SENDER = f"""
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for ip in sys.argv[1:]:
    for _ in range(3): s.sendto(b"probe", (ip, {UDP_PORT}))
"""


class Network:
    """Sends real packets between all pairs of hosts."""

    def __init__(self, hosts: list[Host], remotes: dict[str, Remote]) -> None:
        self.names = {host.ip: host.name for host in hosts}
        self.ips = [host.ip for host in hosts]
        self.remotes = remotes

    def udp(self) -> dict[str, set[str]]:
        """For each host, the others whose datagrams arrive."""
        channels = {
            name: remote.open_channel(["/usr/bin/python3", "-c", LISTENER])
            for name, remote in self.remotes.items()
        }
        for channel in channels.values():
            assert channel.recv(100) == b"bound\n"
        on_all(
            NAMES,
            lambda name: self.remotes[name].run(["/usr/bin/python3", "-c", SENDER, *self.ips]),
        )
        for channel in channels.values():
            channel.sendall(b"\n")
        arrived = {}
        for name, channel in channels.items():
            sources = channel.makefile("rb").read().decode().strip().split(",")
            arrived[name] = {self.names[ip] for ip in sources if ip} - {name}
            channel.close()
        return arrived

    def tcp(self) -> dict[str, set[str]]:
        """For each host, the others it can open a connection to."""

        def probe(name: str) -> set[str]:
            argv = ["/usr/bin/python3", "-c", TCP_PROBE, *self.ips]
            return {self.names[ip] for ip in json.loads(self.remotes[name].run(argv).text)}

        return {name: reached - {name} for name, reached in on_all(NAMES, probe).items()}


@pytest.fixture
def network(five: list[Host], remotes: dict[str, Remote]) -> Network:
    return Network(five, remotes)


@pytest.fixture
def faults(environment: RemoteEnvironment) -> Iterator[RemoteEnvironment]:
    yield environment
    environment.heal()


def others(name: str) -> set[str]:
    return set(NAMES) - {name}


def grudge(**drops: str) -> Grudge:
    return {name: frozenset(peers.split()) for name, peers in drops.items()}


HALVES = grudge(n1="n3 n4 n5", n2="n3 n4 n5", n3="n1 n2", n4="n1 n2", n5="n1 n2")
ONE = grudge(n1="n2 n3 n4 n5", n2="n1", n3="n1", n4="n1", n5="n1")
BRIDGE = grudge(n1="n4 n5", n2="n4 n5", n4="n1 n2", n5="n1 n2")
RING = grudge(n1="n3 n4", n2="n4 n5", n3="n5 n1", n4="n1 n2", n5="n2 n3")
ONE_WAY = grudge(n1="n2", n4="n3 n5")
THREE = grudge(n1="n3 n4 n5", n2="n3 n4 n5", n3="n1 n2 n5", n4="n1 n2 n5", n5="n1 n2 n3 n4")
ALONE = grudge(**{name: " ".join(set(NAMES) - {name}) for name in NAMES})


@pytest.mark.parametrize(
    "wanted",
    [HALVES, ONE, BRIDGE, RING, ONE_WAY, THREE, ALONE],
    ids=["halves", "one", "bridge", "ring", "one-way", "three parts", "each alone"],
)
def test_exactly_the_grudges_are_held(
    network: Network, faults: RemoteEnvironment, wanted: Grudge
) -> None:
    faults.drop(wanted)
    drops = {name: set(wanted.get(name, frozenset())) for name in NAMES}
    assert network.udp() == {name: others(name) - drops[name] for name in NAMES}
    # A connection needs packets both ways.
    assert network.tcp() == {
        name: {peer for peer in others(name) if peer not in drops[name] and name not in drops[peer]}
        for name in NAMES
    }


def test_after_healing_everybody_reaches_everybody(
    network: Network, faults: RemoteEnvironment
) -> None:
    faults.drop(HALVES)
    faults.heal()
    assert network.udp() == network.tcp() == {name: others(name) for name in NAMES}


def test_evidence_counts_the_dropped_packets_by_peer(
    network: Network, faults: RemoteEnvironment
) -> None:
    applied = faults.drop(ONE_WAY)
    assert applied["n1"]["sources"] == [network.ips[1]]
    assert applied["n5"]["sources"] == []
    assert "drop" in applied["n1"]["ruleset"]
    network.udp()
    healed = faults.heal()
    # Three probes from each; on a slow machine a retransmission of an older one may follow.
    assert healed["n1"]["dropped"].keys() == {"n2"}
    assert healed["n1"]["packets"] == healed["n1"]["dropped"]["n2"] >= 3
    assert healed["n4"]["dropped"].keys() == {"n3", "n5"}
    assert min(healed["n4"]["dropped"].values()) >= 3
    assert healed["n2"] == {"dropped": {}, "packets": 0, "ruleset": ""}


def test_a_second_grudge_replaces_the_first(network: Network, faults: RemoteEnvironment) -> None:
    faults.drop(grudge(n1="n2"))
    network.udp()
    evidence = faults.drop(grudge(n3="n4"))
    assert evidence["n1"]["dropped_before"].keys() == {network.ips[1]}
    assert evidence["n1"]["dropped_before"][network.ips[1]] >= 3
    assert network.udp() == {
        name: others(name) - ({"n4"} if name == "n3" else set()) for name in NAMES
    }


def test_no_table_stays_after_healing_and_healing_twice_is_harmless(
    faults: RemoteEnvironment, remotes: dict[str, Remote]
) -> None:
    faults.drop(HALVES)
    assert "kraftwreck" in remotes["n1"].run(["nft", "list", "ruleset"]).text
    faults.heal()
    faults.heal()
    assert {remotes[name].run(["nft", "list", "ruleset"]).text for name in NAMES} == {""}


def test_the_control_node_is_never_cut_off(faults: RemoteEnvironment, five: list[Host]) -> None:
    faults.drop({name: frozenset(others(name)) for name in NAMES})
    for host in five:
        fresh = Remote(host)
        assert fresh.run(["hostname"]).text == host.name
        fresh.close()


def test_a_grudge_against_nobody_known_is_refused(faults: RemoteEnvironment) -> None:
    with pytest.raises(ValueError, match="unknown nodes: n9"):
        faults.drop(grudge(n1="n9"))


def test_rules_that_did_not_take_are_an_error(remotes: dict[str, Remote]) -> None:
    from kraftwreck.harness.remote.agent import Agent

    agent = Agent(remotes["n1"])
    with pytest.raises(RemoteError, match=r"^n1: drop: nft: "):
        agent.ask("drop", sources=["not-an-address"])
    assert agent.ask("dropped") == {"dropped": {}, "packets": 0, "ruleset": ""}
    agent.close()
