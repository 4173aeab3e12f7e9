"""On a host: find out which network faults are possible, and undo all of them.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from kraftwreck.harness.on_host.daemon import DaemonError
from kraftwreck.harness.on_host.links import NETEM, TUN, heal_links, refusals
from kraftwreck.harness.on_host.names import set_names
from kraftwreck.harness.on_host.netem import run
from kraftwreck.harness.on_host.relay import heal_relay

_PROBES = {
    "drops": "table inet T {\n set s {\n  type ipv4_addr\n  counter\n }\n"
    " chain c {\n  type filter hook input priority -300;\n  ip saddr @s counter drop\n }\n}\n",
    "messages": "table ip T {\n chain c {\n  type nat hook prerouting priority dstnat;\n"
    "  tcp dport 9 counter redirect to :9\n }\n chain d {\n  type filter hook input priority 0;\n"
    "  tcp dport 9 counter reject with tcp reset\n }\n}\n",
    "names": "table inet T {\n chain c {\n  type filter hook output priority 0;\n"
    "  udp dport 53 counter reject\n }\n}\n",
}


def network_means(request: dict[str, Any]) -> dict[str, Any]:
    """Return the driver for each kind of fault, or None and ``why`` there is none.

    Rules are only checked (``nft -c``), devices are created and removed.
    """
    means: dict[str, str | None] = {}
    why: dict[str, str] = {}
    for kind, script in _PROBES.items():
        try:
            run(["nft", "-c", "-f", "-"], script.replace("T {", "kraftwreck_probe {", 1))
            means[kind] = "relay" if kind == "messages" else "nftables"
        except DaemonError as error:
            means[kind], why[kind] = None, str(error)
    refused = refusals()
    means["packets"] = next((each for each in (NETEM, TUN) if not refused[each]), None)
    why |= {f"packets by {name}": line for name, line in refused.items() if line}
    return {"means": means, "why": why}


def settled(request: dict[str, Any]) -> dict[str, Any]:
    """Wait at most ``wait_s`` until no other agent works; return whether that is so.

    An agent ends with its control node, but only after it has carried out its last request.
    Healing must come after that.
    """
    deadline = time.monotonic() + request["wait_s"]
    own = Path("/proc/self/cmdline").read_bytes().split(b"\0")
    while True:
        alone = not any(_is_agent(entry, own[:4]) for entry in Path("/proc").iterdir())
        if alone or time.monotonic() >= deadline:
            return {"alone": alone}
        time.sleep(0.02)


def _is_agent(entry: Path, command: list[bytes]) -> bool:
    """Return whether a directory of /proc is another agent's, and not a helper's."""
    if not entry.name.isdigit() or int(entry.name) == os.getpid():
        return False
    try:
        argv = (entry / "cmdline").read_bytes().split(b"\0")
        name = (entry / "comm").read_text()
    except OSError:
        return False
    same = argv[:4] == command and b"module.main()" in argv[4]
    return same and not name.startswith("kw-")


def heal_network(request: dict[str, Any]) -> dict[str, Any]:
    """Undo everything except drops; ``healed`` names what was in force.

    Each kind is tried even if another one fails.
    """
    healed, errors = [], []
    for kind, heal in (("links", heal_links), ("relay", heal_relay), ("names", _heal_names)):
        try:
            if heal(request)["healed"]:
                healed.append(kind)
        except (DaemonError, OSError) as error:
            errors.append(f"{kind}: {error}")
    if errors:
        raise DaemonError("; ".join(errors))
    return {"healed": healed}


def _heal_names(request: dict[str, Any]) -> dict[str, Any]:
    return set_names({"names": ""})
