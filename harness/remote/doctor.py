"""``kraftwreck cluster doctor``: find out which faults each host supports, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.state import control_boot_id
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.remote.session import Remote, RemoteError, on_all

ABOUT = {
    "drops": "partitions",
    "packets": "slow, lossy, reordered, changed, throttled links",
    "messages": "single kinds of RPC, repeated requests",
    "names": "name servers that fail",
    "cpu": "nodes with little CPU",
    "memory": "nodes with little memory",
    "clock": "wall clocks that jump",
}
"""The faults that each kind of driver injects."""


def examine(hosts: Sequence[Host]) -> dict[str, dict[str, Any]]:
    """Return, by host name, ``means`` by kind and ``why`` others do not work, or an ``error``.

    Devices and rules are tried and removed; existing ones are not touched.
    """
    by_name = {host.name: host for host in hosts}

    def ask(name: str) -> dict[str, Any]:
        remote = Remote(by_name[name])
        agent = Agent(remote)
        try:
            told = agent.ask("network_means")
            squeezes = agent.ask("squeeze_means")
            clock = _clock(by_name[name], agent)
            return {
                "means": told["means"] | squeezes["means"] | clock["means"],
                "why": told["why"] | squeezes["why"] | clock["why"],
            }
        except RemoteError as error:
            return {"error": str(error)}
        finally:
            agent.close()
            remote.close()

    return dict(on_all(list(by_name), ask))


def _clock(host: Host, agent: Agent) -> dict[str, Any]:
    """Return how wall clocks can jump; the host itself checks whether the clock is its own."""
    means, why = "library", "the inventory does not say that this machine's clock may be set"
    if host.clock == "machine":
        told = agent.ask("clock_means", control=control_boot_id())
        means, why = told["means"], told["why"]
    return {"means": {"clock": means}, "why": {"clock by date": why} if why else {}}


def lines(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return the findings for people; hosts with equal findings share their lines."""
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
