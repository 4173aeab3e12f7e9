"""Healing hosts from outside a run: drops, stopped controllers and wrong clocks are undone."""

from __future__ import annotations

from collections.abc import Sequence

from harness.agent import Agent
from harness.clusters.cluster import Host
from harness.deployment import CLOCK, SERVICE
from harness.remote import Remote, RemoteError, on_all


def heal_hosts(hosts: Sequence[Host]) -> dict[str, dict[str, object]]:
    """Undo every drop, pause and wrong clock; return, by host name, what was undone.

    A host that cannot be healed has ``error`` (one line) in its place; the others are
    healed all the same.
    """
    by_name = {host.name: host for host in hosts}

    def heal_one(name: str) -> dict[str, object]:
        remote = Remote(by_name[name])
        agent = Agent(remote)
        try:
            evidence: dict[str, object] = dict(agent.ask("heal"))
            if agent.ask("status", service=SERVICE).get("state") == "T":
                evidence["resumed"] = agent.ask("resume", service=SERVICE)
            if agent.ask("right_clock", path=CLOCK)["wrong"]:
                evidence["clock"] = "right again"
            return evidence
        except RemoteError as error:
            return {"error": str(error)}
        finally:
            agent.close()
            remote.close()

    return dict(on_all(list(by_name), heal_one))
