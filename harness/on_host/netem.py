"""On a host: disturb packets to peers in the kernel, with tc-netem(8) below HTB.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

Each link has its own class; all other packets go through a first class without a limit. All
queues are below one with a reserved handle, so that they can be found without any file. Links are
those of :mod:`harness.on_host.forward`. Netem does not restore the order after a jitter, and
nftables makes resets, since netem cannot.
"""

from __future__ import annotations

import json
import re
import select
import shutil
import socket
import subprocess
from typing import Any

from kraftwreck.harness.on_host.daemon import DaemonError, serve
from kraftwreck.harness.on_host.echo import Echoes

HANDLE = "6b77:"
TABLE = "kraftwreck_links"
_FIRST = 0x10
_PROBE = "kwprobe"
_EVERYTHING = "100gbit"

_SOMETHING = {"delay": 1000, "jitter": 500, "window": 500, "rate": 1000,
              "loss": 1.0, "reset": 0.0, "corrupt": 1.0, "twice": 1.0}  # fmt: skip

Link = dict[str, Any]


def run(arguments: list[str], commands: str = "") -> str:
    """Run a program and return its output; raise :class:`DaemonError` with its error line."""
    try:
        done = subprocess.run(
            arguments, input=commands, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise DaemonError(f"{arguments[0]} is missing there") from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise DaemonError(f"{arguments[0]}: {said}")
    return done.stdout


def refusal() -> str:
    """Return why the kernel cannot do it, "" if it can; tested on a temporary device."""
    kinds = ["dummy", "ifb", "bridge"]
    while kinds:
        try:
            run(["ip", "link", "add", _PROBE, "type", kinds.pop(0)])
            break
        except DaemonError as error:
            if not kinds:
                return str(error)
    try:
        link = {"peer": "192.0.2.1", "port": 9, **_SOMETHING}
        run(["tc", "-batch", "-"], commands(_PROBE, [link]))
        return ""
    except DaemonError as error:
        return str(error)
    finally:
        run(["ip", "link", "del", _PROBE])


def effects(link: Link) -> str:
    """Return the netem parameters for a link's effects."""
    words = ["limit 20000"]
    delay = link["delay"] + (link["jitter"] + link["window"]) // 2
    spread = (link["jitter"] + link["window"]) // 2
    if delay or spread:
        words.append(f"delay {delay}us {spread}us" if spread else f"delay {delay}us")
    lost = link["loss"] * (100 - link["reset"]) / 100
    for name, percent in (("loss", lost), ("duplicate", link["twice"]),
                          ("corrupt", link["corrupt"])):  # fmt: skip
        if percent:
            words.append(f"{name} {percent:.4f}%")
    if link["rate"]:
        words.append(f"rate {link['rate'] * 8}bit")
    return " ".join(words)


def commands(device: str, links: list[Link]) -> str:
    """Return the tc commands for ``links``, all of which leave by ``device``."""
    lines = [
        f"qdisc add dev {device} root handle {HANDLE} htb default 1",
        f"class add dev {device} parent {HANDLE} classid {HANDLE}1 htb rate {_EVERYTHING}"
        " quantum 60000",
    ]
    for number, link in enumerate(links, start=_FIRST):
        into = f"{HANDLE}{number:x}"
        lines += [
            f"class add dev {device} parent {HANDLE} classid {into} htb rate {_EVERYTHING}"
            " quantum 60000",
            f"qdisc add dev {device} parent {into} handle {number:x}: netem {effects(link)}",
        ]
        match = f"match ip dst {link['peer']}/32"
        # A filter for a port comes before the one for all ports.
        ends = [f" match ip {end} {link['port']} 0xffff" for end in ("dport", "sport")]
        for end in ends if link["port"] else [""]:
            lines.append(
                f"filter add dev {device} parent {HANDLE} protocol ip prio"
                f" {1 if link['port'] else 2} u32 {match}{end} flowid {into}"
            )
    return "\n".join(lines) + "\n"


def resets(links: list[Link]) -> str:
    """Return the nftables table that resets connections, "" if none is needed."""
    rules = []
    for link in links:
        chance = round(link["loss"] * link["reset"] * 100)
        if not chance:
            continue
        ports = [f"tcp {end} {link['port']}" for end in ("dport", "sport")]
        for port in ports if link["port"] else ["meta l4proto tcp"]:
            # nft rejects a condition that is always true.
            some = f" numgen random mod 1000000 < {chance}" if chance < 1_000_000 else ""
            rules.append(f"  ip daddr {link['peer']} {port}{some} counter reject with tcp reset")
    if not rules:
        return ""
    return (
        f"table inet {TABLE} {{\n chain leaving {{\n"
        "  type filter hook output priority 0; policy accept;\n" + "\n".join(rules) + "\n }\n}\n"
    )


def roots() -> list[str]:
    """Return the devices with queues of this module; empty if tc is missing."""
    if shutil.which("tc") is None:
        return []
    found = json.loads(run(["tc", "-json", "qdisc", "show"]) or "[]")
    return [each["dev"] for each in found if each.get("root") and each["handle"] == HANDLE]


def apply(links: list[Link], routes: dict[str, dict[str, str]]) -> None:
    """Apply exactly ``links``; ``routes`` has their devices."""
    devices: dict[str, list[Link]] = {}
    for link in links:
        devices.setdefault(routes[link["peer"]]["dev"], []).append(link)
    ours = roots()
    for device in devices:
        if device not in ours:
            _check_free(device)
    remove()
    for device, mine in devices.items():
        run(["tc", "-batch", "-"], commands(device, mine))
    table = resets(links)
    if table:
        run(["nft", "-f", "-"], table)


def _check_free(device: str) -> None:
    """Reject a device with a configured queue, which would be lost."""
    for each in json.loads(run(["tc", "-json", "qdisc", "show", "dev", device])):
        if each.get("root") and each["handle"] != "0:":
            raise DaemonError(f"{device} already has a {each['kind']} queue, which would be lost")


def remove() -> bool:
    """Remove all queues and tables of this module; return whether there were any."""
    ours = roots()
    for device in ours:
        run(["tc", "qdisc", "del", "dev", device, "root"])
    table = bool(_table())
    if table:
        run(["nft", "delete", "table", "inet", TABLE])
    return bool(ours) or table


def _table() -> str:
    """Return this module's table as the kernel lists it, "" if there is none."""
    if f"inet {TABLE}\n" not in run(["nft", "list", "tables"]) + "\n":
        return ""
    return run(["nft", "list", "table", "inet", TABLE])


def counts(links: list[Link]) -> dict[str, dict[str, int]]:
    """Return the kernel's counters for ``links``, by peer."""
    told: dict[str, dict[str, int]] = {}
    numbers = {f"{number:x}:": link for number, link in enumerate(links, start=_FIRST)}
    for device in roots():
        for each in json.loads(run(["tc", "-s", "-json", "qdisc", "show", "dev", device])):
            link = numbers.get(each["handle"])
            if link is None or each["kind"] != "netem":
                continue
            known = told.setdefault(link["peer"], {"packets": 0, "lost": 0})
            known["packets"] += each["packets"] + each["drops"]
            known["lost"] += each["drops"]
    told = {peer: known for peer, known in told.items() if known["packets"]}
    for peer, packets in re.findall(r"ip daddr (\S+) .*counter packets ([0-9]+)", _table()):
        known = told.setdefault(peer, {"packets": 0, "lost": 0})
        known["reset"] = known.get("reset", 0) + int(packets)
    return told


class EchoingProcess:
    """Sends echoes while the kernel disturbs links (requests ``set``, ``end`` as a forwarder)."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._links: list[Link] = request["links"]
        try:
            apply(self._links, request["routes"])
        except DaemonError:
            remove()
            raise
        self._echoes = Echoes({link["peer"] for link in self._links})
        self._ended = False

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        told = {"links": counts(self._links), "echoes": self._echoes.take()}
        if request["do"] == "end":
            self._ended = True
            remove()
        else:
            apply(request["links"], request["routes"])
            self._links = request["links"]
            self._echoes.set({link["peer"] for link in self._links})
        return told

    def run(self, listener: socket.socket) -> None:
        while not self._ended:
            ready, _, _ = select.select(
                [listener, self._echoes.socket], [], [], self._echoes.due() + 0.001
            )
            if self._echoes.socket in ready:
                self._echoes.receive()
            if listener in ready:
                serve(listener.accept()[0], self.handle)
