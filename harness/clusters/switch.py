"""The network of a namespace cluster: a bridge in its own namespace, and cables to the hosts.

The machine only sees one end of the uplink (``kw<x>``), which disappears with the bridge's
namespace. The name also claims the subnet 10.77.<x>.0/24.
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kraftwreck.harness.clusters.kernel import CLONE_NEWNET, setns, unshare

PREFIX = "10.77"
CONTROL_SUFFIX = 254
MAX_NODES = 200
GONE_S = 10.0
"""How long a link of an ended host may stay."""


@dataclass(frozen=True, slots=True)
class Subnet:
    """One claimed subnet; ``number`` is its third byte."""

    number: int

    @property
    def cidr(self) -> str:
        return f"{PREFIX}.{self.number}.0/24"

    @property
    def uplink(self) -> str:
        """Name of the control node's end of the uplink."""
        return f"kw{self.number}"

    @property
    def control_ip(self) -> str:
        return self.ip(CONTROL_SUFFIX)

    def ip(self, node_id: int) -> str:
        return f"{PREFIX}.{self.number}.{node_id}"

    def mac(self, node_id: int) -> str:
        """A deterministic address, so that no neighbour table is outdated after a restart."""
        return f"02:00:0a:4d:{self.number:02x}:{node_id:02x}"


def ip_batch(commands: str, netns: int | None = None) -> None:
    """Run ``ip -batch`` in the network namespace ``netns``; raises OSError with its message."""
    result = subprocess.run(
        ["ip", "-batch", "-"],
        input=commands,
        text=True,
        capture_output=True,
        preexec_fn=None if netns is None else lambda: setns(netns, CLONE_NEWNET),
    )
    if result.returncode != 0:
        raise OSError(f"ip: {result.stderr.strip().splitlines()[0]}")


def new_network_namespace() -> int:
    """Return a handle to a new network namespace, which lives as long as the handle."""
    ready_read, ready_write = os.pipe()
    stop_read, stop_write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            unshare(CLONE_NEWNET)
            os.write(ready_write, b"u")
            os.close(stop_write)
            os.read(stop_read, 1)
        finally:
            os._exit(0)
    os.close(ready_write)
    os.close(stop_read)
    try:
        if not os.read(ready_read, 1):
            raise OSError("unshare: a new network namespace was refused")
        return os.open(f"/proc/{child}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready_read)
        os.close(stop_write)
        os.waitpid(child, 0)


def taken_networks() -> list[ipaddress.IPv4Network]:
    """Return every IPv4 network to which this machine has a route, except the default one."""
    result = subprocess.run(
        ["ip", "-json", "-4", "route", "show", "table", "all"],
        capture_output=True,
        text=True,
        check=True,
    )
    networks = []
    for route in json.loads(result.stdout or "[]"):
        if route.get("dst", "default") != "default":
            networks.append(ipaddress.IPv4Network(route["dst"], strict=False))
    return networks


def free_subnets() -> list[Subnet]:
    """Return the subnets that overlap no route of this machine."""
    taken = taken_networks()
    candidates = [Subnet(number) for number in range(256)]
    return [
        subnet
        for subnet in candidates
        if not any(ipaddress.IPv4Network(subnet.cidr).overlaps(other) for other in taken)
    ]


def claim_subnet(switch: int) -> Subnet:
    """Take the first free subnet by creating its uplink into the namespace ``switch``.

    Creating the interface is the claim. If two clusters start at once, the kernel gives the name
    to one, and the other tries the next subnet.
    """
    for subnet in free_subnets():
        try:
            ip_batch(
                f"link add {subnet.uplink} address {subnet.mac(CONTROL_SUFFIX)}"
                f" type veth peer name uplink netns /proc/{os.getpid()}/fd/{switch}\n"
            )
        except OSError as error:
            if "File exists" in str(error):
                continue
            raise
        return subnet
    raise OSError(
        f"no free subnet in {PREFIX}.0.0/16: end some clusters with kraftwreck cluster down"
    )


def connect(subnet: Subnet, switch: int, pids: Sequence[int]) -> None:
    """Connect the control node and the hosts (``pids`` in node order) by the bridge."""
    outside = [
        f"addr add {subnet.control_ip}/24 dev {subnet.uplink}",
        f"link set {subnet.uplink} up",
    ]
    inside = [
        "link add name br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        "link set br0 up",
        "link set uplink master br0 up",
    ]
    for node_id, pid in enumerate(pids, start=1):
        outside += [
            f"link add p{node_id} netns /proc/{os.getpid()}/fd/{switch}"
            f" type veth peer name eth0 address {subnet.mac(node_id)} netns {pid}",
            # The control node never needs to resolve a host's address.
            f"neigh replace {subnet.ip(node_id)} lladdr {subnet.mac(node_id)}"
            f" nud permanent dev {subnet.uplink}",
        ]
        inside.append(f"link set p{node_id} master br0 up")
    ip_batch("\n".join(outside) + "\n")
    ip_batch("\n".join(inside) + "\n", netns=switch)
    disable = Path(f"/proc/sys/net/ipv6/conf/{subnet.uplink}/disable_ipv6")
    if disable.exists():
        disable.write_text("1")


def disconnect(switch: int, node_id: int) -> None:
    """Remove the wire of a crashed host. The kernel removes its network namespace later; until
    then it would refuse connections in the host's name."""
    try:
        ip_batch(f"link del p{node_id}\n", netns=switch)
    except OSError as error:
        if "Cannot find device" not in str(error):
            raise


def reconnect(subnet: Subnet, switch: int, node_id: int, pid: int) -> None:
    """Connect a rebooted host; its old link disappears soon, with its old namespace."""
    script = (
        f"link add p{node_id} netns /proc/{os.getpid()}/fd/{switch}"
        f" type veth peer name eth0 address {subnet.mac(node_id)} netns {pid}\n"
    )
    deadline = time.monotonic() + GONE_S
    while True:
        try:
            ip_batch(script)
            break
        except OSError as error:
            if "File exists" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
    ip_batch(f"link set p{node_id} master br0 up\n", netns=switch)
