"""On a host: questions for names (DNS) that get no answer, or are refused.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent. What a
host knows by itself (/etc/hosts) it goes on knowing.
"""

from __future__ import annotations

import re
from typing import Any

from harness.on_host.daemon import DaemonError
from harness.on_host.netem import run

TABLE = "kraftwreck_names"
_WAYS = {
    # Whoever asks must not notice: a question that is dropped here is an error at once.
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
    """Let names be ``silent``, ``refused`` or, with "", found again; ``before``: how many
    packets with questions, or answers to them, were stopped."""
    how = request["names"]
    if how and how not in _WAYS:
        raise DaemonError(f"{how!r} is no way in which names fail")
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
