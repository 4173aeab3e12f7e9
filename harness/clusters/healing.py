"""Heal hosts from outside a run: undo drops, pauses, wrong clocks and bad disks."""

from __future__ import annotations

from collections.abc import Sequence

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.state import control_boot_id
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.remote.preloads import CLOCK
from kraftwreck.harness.remote.session import Remote, RemoteError, on_all

SETTLE_S = 5.0
"""How long healing waits for operations of a dead run; it does not wait for a live run."""


def heal_hosts(hosts: Sequence[Host]) -> dict[str, dict[str, object]]:
    """Undo every drop, pause, wrong clock and bad disk; return the undone faults by host name.

    A host that cannot be healed completely has ``error`` (one line) instead. The other steps and
    the other hosts are still tried.
    """
    by_name = {host.name: host for host in hosts}

    def heal_one(name: str) -> dict[str, object]:
        remote = Remote(by_name[name])
        agent = Agent(remote)
        evidence: dict[str, object] = {}
        errors = []
        try:
            # A killed control node may have sent requests that are still under way.
            agent.ask("settled", wait_s=SETTLE_S)
            for step in _STEPS:
                try:
                    evidence |= step(agent)
                except RemoteError as error:
                    errors.append(str(error))
        except RemoteError as error:
            errors.append(str(error))
        finally:
            agent.close()
            remote.close()
        return {"error": "; ".join(errors)} if errors else evidence

    return dict(on_all(list(by_name), heal_one))


def _drops(agent: Agent) -> dict[str, object]:
    return dict(agent.ask("heal"))


def _network(agent: Agent) -> dict[str, object]:
    network = agent.ask("heal_network")["healed"]
    return {"network": network} if network else {}


def _clock(agent: Agent) -> dict[str, object]:
    return {"clock": "right again"} if agent.ask("right_clock", path=CLOCK)["wrong"] else {}


def _date(agent: Agent) -> dict[str, object]:
    wrong = agent.ask("right_date", control=control_boot_id())["wrong"]
    return {"clock": "right again"} if wrong else {}


def _services(agent: Agent) -> dict[str, object]:
    told = agent.ask("heal_services")
    kinds = {"resumed": "resumed", "released": "released", "mended": "disk"}
    return {kind: told[name] for name, kind in kinds.items() if told[name]}


_STEPS = (_drops, _network, _services, _clock, _date)
"""The steps on a host; each is tried even if others fail."""
