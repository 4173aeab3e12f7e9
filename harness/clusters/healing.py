"""Healing hosts from outside a run: drops, stopped nodes, wrong clocks, bad disks are undone."""

from __future__ import annotations

from collections.abc import Sequence

from harness.agent import Agent
from harness.clusters.cluster import Host
from harness.remote import Remote, RemoteError, on_all
from harness.service import CLOCK, DISK, SERVICE

SETTLE_S = 3.0
"""How long healing waits for what others still do to a host; a run that lives is not waited for."""


def heal_hosts(hosts: Sequence[Host]) -> dict[str, dict[str, object]]:
    """Undo every drop, pause, wrong clock and bad disk; return, by host name, what was undone.

    A host that cannot be healed has ``error`` (one line) in its place; the others are
    healed all the same.
    """
    by_name = {host.name: host for host in hosts}

    def heal_one(name: str) -> dict[str, object]:
        remote = Remote(by_name[name])
        agent = Agent(remote)
        try:
            # A control node that was killed may have asked for something that is under way.
            agent.ask("settled", wait_s=SETTLE_S)
            evidence: dict[str, object] = dict(agent.ask("heal"))
            if network := agent.ask("heal_network")["healed"]:
                evidence["network"] = network
            if agent.ask("status", service=SERVICE).get("state") == "T":
                evidence["resumed"] = agent.ask("resume", service=SERVICE)
            if agent.ask("right_clock", path=CLOCK)["wrong"]:
                evidence["clock"] = "right again"
            if disk := agent.ask("heal_disk", service=SERVICE, disk=DISK)["healed"]:
                evidence["disk"] = disk
            if released := agent.ask("release", service=SERVICE):
                evidence["released"] = released
            return evidence
        except RemoteError as error:
            return {"error": str(error)}
        finally:
            agent.close()
            remote.close()

    return dict(on_all(list(by_name), heal_one))
