"""On a host: DNS queries that time out, or are refused.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent. Names in
/etc/hosts still resolve.
"""

from __future__ import annotations

import re
from typing import Any

from kraftwreck.harness.on_host.daemon import DaemonError
from kraftwreck.harness.on_host.netem import run

TABLE = "kraftwreck_names"
_WAYS = {
    # Drop the responses: a query dropped on its way out would fail immediately.
    "silent": ("input", "sport", "counter drop"),
    "refused": ("output", "dport", "counter reject"),
}


def _listed() -> str:
    if f"inet {TABLE}\n" not in run(["nft", "list", "tables"]) + "\n":
        return ""
    return run(["nft", "list", "table", "inet", TABLE])


def _packets(rules: str) -> int:
    return sum(map(int, re.findall(r"counter packets ([0-9]+)", rules)))


def set_names(request: dict[str, Any]) -> dict[str, Any]:
    """Make DNS ``silent``, ``refused`` or, with "", normal; ``before`` counts the packets with
    queries or responses that were dropped."""
    how = request["names"]
    if how and how not in _WAYS:
        raise DaemonError(f"{how!r} is not a way in which DNS can fail")
    rules = _listed()
    if how or rules:
        script = f"table inet {TABLE}\ndelete table inet {TABLE}\n"
        if how:
            hook, end, verdict = _WAYS[how]
            script += (
                f"table inet {TABLE} {{\n chain names {{\n"
                f"  type filter hook {hook} priority 0; policy accept;\n"
                f"  udp {end} 53 {verdict}\n  tcp {end} 53 {verdict}\n }}\n}}\n"
            )
        run(["nft", "-f", "-"], script)
    return {"names": how, "before": {"packets": _packets(rules)}, "healed": bool(rules)}
