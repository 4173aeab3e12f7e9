"""Names that are not found; and a control node that is killed in the middle of it all.

However it ends, after healing hosts are as they were: rules, queues, routes, devices, files and
processes.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.healing import heal_hosts
from kraftwreck.harness.clusters.hosts import format_inventory
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.remote.session import Remote, on_all
from kraftwreck.nodes.draw import draw_below
from tests.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.whole_machine]

PYTHON = "/usr/bin/python3"

NAME_SERVER = """
import os, socket, struct, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 53)); print("up", flush=True)
while True:
    question, whence = s.recvfrom(512)
    end = question.index(b"\\0", 12) + 5
    head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
    answer = struct.pack(">HHHIH4s", 0xC00C, 1, 1, 1, 4, socket.inet_aton("192.0.2.77"))
    s.sendto(head + question[12:end] + answer, whence)
"""
"""Answers every question for a name with 192.0.2.77."""

RESOLVE = """
import socket, sys, time
began = time.monotonic()
try: told = socket.getaddrinfo("peer.example", 1, socket.AF_INET)[0][4][0]
except socket.gaierror as error: told = error.errno == socket.EAI_AGAIN and "again" or str(error)
print(told, time.monotonic() - began)
"""


@pytest.fixture
def resolve(five: list[Host], remotes: dict[str, Remote]) -> Iterator[Agent]:
    """A name server on the second host that the first one asks; and the first one's agent."""
    server = remotes["n2"].open_channel([PYTHON, "-c", NAME_SERVER], 60)
    assert server.recv(100) == b"up\n"
    known = remotes["n1"].get("/etc/resolv.conf")
    asks = f"nameserver {five[1].ip}\noptions timeout:1 attempts:1\n"
    remotes["n1"].put(asks.encode(), "/etc/resolv.conf")
    agent = Agent(remotes["n1"])
    yield agent
    agent.ask("heal_network")
    agent.close()
    remotes["n1"].put(known, "/etc/resolv.conf")
    server.close()


def asked(remote: Remote) -> tuple[str, float]:
    told, took = remote.run([PYTHON, "-c", RESOLVE]).text.rsplit(" ", 1)
    return told, float(took)


def test_names_are_not_found_while_nobody_answers(
    resolve: Agent, remotes: dict[str, Remote]
) -> None:
    assert asked(remotes["n1"])[0] == "192.0.2.77"
    resolve.ask("set_names", names="silent")
    told, took = asked(remotes["n1"])
    assert told == "again" and took >= 0.9, "it waits for as long as resolv.conf says"
    resolve.ask("set_names", names="refused")
    assert asked(remotes["n1"])[0] == "again"
    assert resolve.ask("set_names", names="")["before"]["packets"] >= 1
    assert asked(remotes["n1"])[0] == "192.0.2.77"


BREAK = """
import sys
from pathlib import Path
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.clusters.hosts import load_inventory
from kraftwreck.systems.kraft.remote.deployment import Deployment
from kraftwreck.systems.kraft.remote.settings import Settings
from kraftwreck.systems.kraft.remote.links import RemoteLinks
from kraftwreck.histories.disturbance import Disturbance
hosts = load_inventory(Path(sys.argv[1]))
deployment = Deployment(hosts, Settings(seed=1)); links = RemoteLinks(deployment)
names = tuple(host.name for host in hosts); rest = names[1:]
for agent in deployment.agents.values(): agent.ask("hello")
print("ready", flush=True)
everybody = {"senders": names, "receivers": names}
while True:
    links.disturb([Disturbance(**everybody, delay=50_000, corrupt=1)])
    links.disturb([Disturbance(**everybody, apis=("Fetch",), drop=100)])
    links.disturb([Disturbance(**everybody, loss=5, reset=100),
                   Disturbance(senders=names, receivers=(), names="silent"),
                   Disturbance(senders=names[:1], receivers=rest, duplicate=50)])
    links.disturb([])
"""


def state(remote: Remote) -> list[str]:
    """Return possible leftovers of a disturbance on a host."""
    shown = ("nft list ruleset", "tc qdisc", "ip route", "ip rule", "ip -br link", "ls /run")
    commands = "; ".join((*shown, "cat /proc/[0-9]*/comm"))
    lines = remote.run(["sh", "-c", commands], check=False).text.splitlines()
    passing = {"sh", "cat", "python3", "sshd", "sshd-session", "sshd-auth"}
    return sorted(line for line in lines if line not in passing)


@pytest.fixture(scope="module")
def inventory(five: list[Host], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inventory") / "hosts.toml"
    path.write_text(format_inventory(five))
    return path


@pytest.mark.wall_clock("the moment of the kill is drawn")
@pytest.mark.parametrize("number", range(6))
def test_a_control_node_killed_at_any_moment_leaves_nothing_that_healing_does_not_find(
    number: int, five: list[Host], remotes: dict[str, Remote], inventory: Path
) -> None:
    names = [host.name for host in five]
    before = on_all(names, lambda name: state(remotes[name]))
    with subprocess.Popen(
        [sys.executable, "-c", BREAK, str(inventory)], stdout=subprocess.PIPE, text=True
    ) as control:
        assert control.stdout is not None
        assert control.stdout.readline() == "ready\n"
        time.sleep(draw_below(1500, number, "moment") / 1000)
        control.send_signal(signal.SIGKILL)
    healed = heal_hosts(five)
    assert not [told for told in healed.values() if "error" in told], json.dumps(healed)
    # What was killed ends when the kernel finds the time.
    wait_until(lambda: on_all(names, lambda name: state(remotes[name])) == before)
