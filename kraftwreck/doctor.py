"""``kraftwreck cluster doctor``: what can be done to hosts, and by which means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.agent import Agent
from harness.clusters.cluster import Host
from harness.remote import Remote, RemoteError, on_all

ABOUT = {
    "drops": "partitions",
    "packets": "slow, lossy, reordered, changed, throttled links",
    "messages": "single kinds of RPC, repeated requests",
    "names": "name servers that fail",
}
"""What each kind of means is for."""


def examine(hosts: Sequence[Host]) -> dict[str, dict[str, Any]]:
    """Return, by host name, ``means`` by kind and ``why`` others do not work, or ``error``.

    Devices and rules are tried and removed; nothing that is in force is touched.
    """
    by_name = {host.name: host for host in hosts}

    def ask(name: str) -> dict[str, Any]:
        remote = Remote(by_name[name])
        agent = Agent(remote)
        try:
            return agent.ask("network_means")
        except RemoteError as error:
            return {"error": str(error)}
        finally:
            agent.close()
            remote.close()

    return dict(on_all(list(by_name), ask))


def lines(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return the findings for people; hosts that are alike share their lines."""
    groups: list[tuple[dict[str, Any], list[str]]] = []
    for name, told in found.items():
        names = next((names for known, names in groups if known == told), None)
        if names is None:
            groups.append((told, names := []))
        names.append(name)
    shown = []
    for told, names in groups:
        shown.append(", ".join(names))
        if "error" in told:
            shown.append(f"  {told['error']}")
            continue
        for kind, means in told["means"].items():
            shown.append(f"  {kind:10}{means or 'impossible':11}{ABOUT.get(kind, '')}")
        shown += [f"  not {what}: {why}" for what, why in told["why"].items()]
    return shown
