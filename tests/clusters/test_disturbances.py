"""Disturbances as a nemesis requests them: the disturbed hosts, the evidence, and the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.remote.session import Remote, RemoteError
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.systems.kraft.remote.deployment import Deployment
from kraftwreck.systems.kraft.remote.environment import RemoteEnvironment
from kraftwreck.systems.kraft.remote.settings import Settings

pytestmark = pytest.mark.cluster

SLOW = Disturbance(senders=("n1",), receivers=("n2", "n3"), delay=50_000)
SWALLOWED = Disturbance(senders=("n4",), receivers=("n5",), apis=("Fetch",), drop=100)
NAMELESS = Disturbance(senders=("n3",), receivers=(), names="refused")


class AgentWithoutMeans(Agent):
    """The agent of a host whose kernel can hold no packet."""

    def __init__(self, remote: Remote) -> None:
        super().__init__(remote)
        self.asked: list[str] = []

    def ask(self, do: str, timeout_s: float = 30.0, **fields: Any) -> dict[str, Any]:
        self.asked.append(do)
        if do != "network_means":
            return super().ask(do, timeout_s, **fields)
        why = {"packets by netem": "no qdisc", "packets by tun": "no device"}
        return {"means": {"messages": "relay", "packets": None}, "why": why}


@pytest.mark.wall_clock("echoes are sent twice a second")
def test_evidence_is_by_name_and_measured_until_the_fault_ends(
    environment: RemoteEnvironment,
) -> None:
    begun = environment.disturb([SLOW])
    assert begun.keys() == {"n1"}
    packets = begun["n1"]["packets"]
    assert packets["means"] in ("netem", "tun")
    assert packets["now"] == [{"delay": 50_000, "peers": ["n2", "n3"]}]
    time.sleep(3)  # It asks for echoes twice a second.
    ended = environment.disturb([])
    before = ended["n1"]["packets"]["before"]
    assert before.keys() == {"n2", "n3"}
    for peer in ("n2", "n3"):
        assert before[peer]["echoes"]["came"] >= 1
        assert before[peer]["echoes"]["round_trip_us"][0] >= 50_000
        assert before[peer]["packets"] >= before[peer]["echoes"]["came"]


def test_a_change_concerns_only_hosts_that_have_to_do_something_else(
    environment: RemoteEnvironment,
) -> None:
    assert environment.disturb([SLOW]).keys() == {"n1"}
    added = environment.disturb([SLOW, SWALLOWED, NAMELESS])
    assert {name: set(told) for name, told in added.items()} == {
        "n3": {"names"},
        "n4": {"messages"},
        "n5": {"messages"},
    }
    asked = {"part": "request", "apis": ["Fetch"], "drop": 100, "peers": ["n4"]}
    assert added["n5"]["messages"]["now"] == [asked]
    assert environment.disturb([SWALLOWED]).keys() == {"n1", "n3"}
    assert environment.disturb([]).keys() == {"n4", "n5"}
    assert environment.disturb([]) == {}


def test_failed_disturbances_are_requested_again(
    environment: RemoteEnvironment, remotes: dict[str, Remote]
) -> None:
    environment.disturb([SLOW])
    # Somebody else has a device of that name: the forwarder cannot be made any more.
    environment.disturb([])
    remotes["n1"].run(["ip", "link", "add", "kwlinks", "type", "bridge"])
    try:
        if environment.deployment.agents["n1"].ask("network_means")["means"]["packets"] == "tun":
            with pytest.raises(RemoteError, match=r"^n1: set_links: "):
                environment.disturb([SLOW])
    finally:
        remotes["n1"].run(["ip", "link", "del", "kwlinks"])
    assert environment.disturb([SLOW]).keys() == {"n1"}
    assert environment.disturb([]).keys() == {"n1"}


def test_restoring_ends_disturbances_left_behind(
    environment: RemoteEnvironment, remotes: dict[str, Remote]
) -> None:
    environment.disturb([SLOW, SWALLOWED, NAMELESS])
    assert environment.restore() == []
    for name in ("n1", "n3", "n4", "n5"):
        told = environment.deployment.agents[name].ask("heal_network")
        assert told == {"healed": []}
        assert remotes[name].run(["nft", "list", "ruleset"]).text == ""


def test_a_host_without_means_is_refused_before_anything_is_installed(
    five: list[Host], service_tree: Path
) -> None:
    deployment = Deployment(
        five[:1], Settings(seed=7, tree=service_tree, means=frozenset({"packets"}))
    )
    deployment.check_hosts()
    agent = deployment.agents["n1"] = AgentWithoutMeans(deployment.remotes["n1"])
    with pytest.raises(RemoteError) as refusal:
        deployment.install()
    why = "no qdisc; packets by tun: no device"
    assert (
        str(refusal.value)
        == f"n1: packets cannot be disturbed on this host: packets by netem: {why}"
    )
    assert "wipe" not in agent.asked
    deployment.close()
