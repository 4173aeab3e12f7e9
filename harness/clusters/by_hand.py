"""Clusters that were brought up by hand, and stay up between commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from kraftwreck.harness.clusters import state as states
from kraftwreck.harness.clusters.cluster import Cluster, ClusterError, Host
from kraftwreck.harness.clusters.hosts import format_inventory
from kraftwreck.harness.clusters.providers import DEFAULT_NODES, choose_cluster
from kraftwreck.harness.clusters.state import State
from kraftwreck.harness.clusters.vagrant import VagrantCluster
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS

_INVENTORY = "hosts.toml"


def bring_up(spec: str, nodes: int | None) -> tuple[list[Host], Path]:
    """Bring up the hosts of ``spec`` (``netns``, ``vagrant``, ``hosts:FILE``) and leave them
    running; return them and their inventory. Raises ClusterError."""
    if spec.startswith("hosts:"):
        return choose_cluster(spec, nodes).up(), Path(spec.partition(":")[2])
    if spec == "netns":
        from kraftwreck.harness.clusters.netns import NetnsCluster

        namespaces = NetnsCluster(nodes or DEFAULT_NODES, detached=True)
        hosts = namespaces.up()
        assert namespaces.directory is not None
        inventory = namespaces.directory / _INVENTORY
    else:
        chosen = choose_cluster(spec, nodes)
        assert isinstance(chosen, VagrantCluster)
        hosts = chosen.up()
        inventory = chosen.state / "kraftwreck" / _INVENTORY
    inventory.write_text(format_inventory(hosts))
    return hosts, inventory


def take_down(identifier: str | None, everything: bool) -> list[dict[str, str]]:
    """Take down the cluster ``identifier``, or all except those in use (unless ``everything``).

    Return the id of each with its condition before. Raises ClusterError.
    """
    ended = []
    for directory, _, condition in selected(identifier, everything):
        try:
            if condition != "dead":
                states.end(directory)
            ended.append({"id": directory.name, "was": condition})
        except TimeoutError as error:
            raise ClusterError(str(error)) from error
    states.sweep()
    return ended


def described(host: Host) -> dict[str, Any]:
    """Return a host as plain values."""
    address, port = host.ssh_endpoint
    return {
        "name": host.name,
        "node_id": host.node_id,
        "ip": host.ip,
        "ssh": f"{host.user}@{address}:{port}",
        "key": str(host.key) if host.key else None,
        "host_key": host.host_key,
    }


def every_cluster() -> list[tuple[Path, State | None, str]]:
    """Return the clusters on this machine: directory, state, and condition.

    The condition is ``up`` (detached, can be taken down), ``in use`` (owned by a run) or ``dead``.
    """
    found = []
    for directory in states.directories():
        state = State.read(directory)
        if not states.lives(directory):
            condition = "dead"
        else:
            condition = "up" if state is not None and state.detached else "in use"
        found.append((directory, state, condition))
    return found


def host_names(state: State | None) -> list[str]:
    """Return the names of the hosts of a cluster."""
    return [host["name"] for host in (state.hosts or [])] if state else []


def running(chosen: Cluster) -> list[Host]:
    """Return the hosts of a cluster that is up; do not start machines that are down."""
    return chosen.attach() if isinstance(chosen, VagrantCluster) else chosen.up()


def hosts_of(identifier: str | None) -> dict[str, list[Host]]:
    """Return the hosts of live clusters, by cluster id."""
    return {
        directory.name: [Host.from_json(host) for host in state.hosts]
        for directory, state, condition in selected(identifier)
        if condition != "dead" and state is not None and state.hosts
    }


def selected(
    identifier: str | None, everything: bool = False
) -> list[tuple[Path, State | None, str]]:
    """Return one cluster by its id, or all except those in use (unless ``everything``)."""
    found = every_cluster()
    if identifier is not None:
        chosen = [entry for entry in found if entry[0].name == identifier]
        if not chosen:
            known = ", ".join(entry[0].name for entry in found) or "none"
            raise ClusterError(
                f"cluster {identifier!r} not found on this machine; clusters: {known}",
                BAD_ARGUMENTS,
            )
        return chosen
    return [entry for entry in found if everything or entry[2] != "in use"]


def row(directory: Path, state: State | None, condition: str) -> dict[str, Any]:
    """Return a cluster as plain values."""
    return {
        "id": directory.name,
        "condition": condition,
        "subnet": state.subnet if state else "",
        "hosts": host_names(state),
        "control_pid": state.control.pid if state else None,
        "directory": str(directory),
    }


def undone(done: dict[str, object]) -> str:
    """Return what was undone on a host, in words."""
    if "error" in done:
        return str(done["error"])
    words = [f"{done['packets']} packets had been dropped"]
    words += [f"network: {each}" for each in cast(list[str], done.get("network", []))]
    words += [what for what in ("resumed", "clock", "disk") if what in done]
    return ", ".join(words)
