"""On a host: disturb packets to peers, with netem or else in user space.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
from functools import cache
from pathlib import Path
from typing import Any

from kraftwreck.harness.on_host import netem as netem
from kraftwreck.harness.on_host.daemon import DaemonError, ask, end, pid_of, spawn
from kraftwreck.harness.on_host.forward import DEVICE, ForwardingProcess

SOCKET = "/run/kraftwreck-links.sock"
NETEM, TUN = "netem", "tun"


@cache
def refusals() -> dict[str, str]:
    """Return, for each driver, why it does not work here, "" if it does."""
    return {NETEM: netem.refusal(), TUN: _tun_refusal()}


def _tun_refusal() -> str:
    try:
        # Sends on the packets that come from the device.
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).close()
    except OSError as error:
        return f"a raw socket: {error.strerror}"
    try:
        descriptor = os.open("/dev/net/tun", os.O_RDWR)
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}"
    try:
        fcntl.ioctl(descriptor, 0x4004_54CA, struct.pack("16sH22x", b"kwprobe", 0x1001))
    except OSError as error:
        return f"a tun device: {error.strerror}"
    finally:
        os.close(descriptor)
    for path in Path("/proc/sys/net/ipv4/conf").glob("*/rp_filter"):
        # "default" is for future devices.
        if path.parent.name != "default" and path.read_text().strip() == "1":
            # Responses would arrive on another device than packets seem to leave by.
            return f"{path} is 1 (strict): set it to 2"
    return ""


def means(request: dict[str, Any]) -> str:
    """Return the driver to use: the requested one, otherwise netem, otherwise user space."""
    wanted = request.get("means")
    for each in (wanted,) if wanted else (NETEM, TUN):
        if not refusals()[each]:
            return str(each)
    why = "; ".join(f"{name}: {line}" for name, line in refusals().items())
    raise DaemonError(f"packets cannot be disturbed on this host: {why}")


def routes(peers: set[str]) -> dict[str, dict[str, str]]:
    """Return device and source address of packets to ``peers`` that are not diverted now."""
    found = {}
    for peer in sorted(peers):
        [way] = json.loads(netem.run(["ip", "-json", "route", "get", peer]))
        if way["dev"] == "lo":
            raise DaemonError(f"{peer} is this host itself")
        if way["dev"] != DEVICE:
            found[peer] = {"dev": way["dev"], "src": way["prefsrc"]}
    return found


def set_links(request: dict[str, Any]) -> dict[str, Any]:
    """Apply exactly the ``links`` (see :mod:`harness.on_host.forward`).

    The evidence is the driver, and ``before``: counts of packets, by peer, and echoes since the
    last call.
    """
    links = request["links"]
    if not links:
        return heal_links(request)
    ways = routes({link["peer"] for link in links})
    wanted = {"do": "set", "links": links, "routes": ways, "seed": request["seed"]}
    before = ask(SOCKET, wanted)
    chosen = means(request)
    if before is None:
        process = ForwardingProcess if chosen == TUN else netem.EchoingProcess
        spawn(SOCKET, f"kw-{chosen}", lambda: process(wanted).run)
    return {"means": chosen, "links": links, "before": before or {}}


def heal_links(request: dict[str, Any]) -> dict[str, Any]:
    """Undo all links; return the counts. Harmless when there are none."""
    there = pid_of(SOCKET) is not None
    before = end(SOCKET)
    # A killed process has left the kernel's queues in place.
    there = netem.remove() or there
    if Path(f"/sys/class/net/{DEVICE}").exists():
        raise DaemonError(f"the device {DEVICE} still exists")
    return {"healed": there, "links": [], "before": before}
