"""Disturbances of packets: which host does what to packets to which peers, and how DNS fails.

They apply on the host that sends the packets; netem or a forwarder in user space carries them out
(:mod:`harness.on_host.links`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kraftwreck.histories.disturbance import Disturbance, Names

Spec = dict[str, Any]
_NOTHING = {"delay": 0, "jitter": 0, "window": 0, "rate": 0}


def links(
    wanted: Sequence[Disturbance], sender: str, ips: Mapping[str, str], ports: Mapping[str, int]
) -> list[Spec]:
    """Return the disturbances of packets from ``sender``, a link per receiver and port.

    The link of a port includes the effects on all packets to its receiver, and comes first.
    """
    mine = [each for each in wanted if sender in each.senders and _is_link(each)]
    found = []
    for receiver in ips:
        here = [each for each in mine if receiver in each.receivers and receiver != sender]
        names = sorted({each.port for each in here}, reverse=True)
        for name in names:
            if name and name not in ports:
                continue  # No node has such a port.
            together = [each for each in here if each.port in ("", name)]
            port = ports[name] if name else 0
            found.append({"peer": ips[receiver], "port": port, **_sum(together)})
    return found


def _is_link(each: Disturbance) -> bool:
    return not each.of_messages and not each.names


def _sum(together: Iterable[Disturbance]) -> Spec:
    """Return the combined effects: probabilities are independent, delays add up."""
    spec: Spec = dict(_NOTHING)
    survives = {"loss": 1.0, "corrupt": 1.0, "twice": 1.0}
    resets = chances = 0.0
    for each in together:
        for name in ("delay", "jitter", "window"):
            spec[name] += getattr(each, name)
        if each.rate:
            spec["rate"] = min(spec["rate"] or each.rate, each.rate)
        for name in ("loss", "corrupt", "twice"):
            survives[name] *= 1 - getattr(each, name) / 100
        # Packets have no messages: a dropped message is a lost packet.
        survives["loss"] *= 1 - each.drop / 100
        chances += each.loss + each.drop
        resets += each.loss * each.reset
    for name, chance in survives.items():
        spec[name] = round((1 - chance) * 100, 4)
    spec["reset"] = round(resets / chances, 4) if chances else 0.0
    return spec


def names(wanted: Sequence[Disturbance], host: str) -> Names:
    """Return how DNS fails on ``host``: silence is worse than a refusal."""
    ways = {each.names for each in wanted if host in each.senders}
    return "silent" if "silent" in ways else "refused" if "refused" in ways else ""
