"""``kraftwreck cluster``: manage clusters by hand."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, cast

import click

from kraftwreck.harness.clusters import state as states
from kraftwreck.harness.clusters.cluster import Cluster, ClusterError, Host
from kraftwreck.harness.clusters.providers import DEFAULT_NODES, choose_cluster
from kraftwreck.harness.clusters.state import State
from kraftwreck.harness.clusters.vagrant import VagrantCluster
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS, FAILED

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
_CLUSTER = click.option(
    "-c", "--cluster", "spec", default="netns", metavar="netns|vagrant|hosts:FILE",
    show_default=True, help="Where the hosts come from.",
)  # fmt: skip
_INVENTORY = "hosts.toml"


@click.group()
def cluster() -> None:
    """Bring hosts up, show them, heal them, take them down."""


@cluster.command()
@_CLUSTER
@click.option("--nodes", type=click.IntRange(1, 200), help="Number of hosts [default: 5].")
@_JSON
def up(spec: str, nodes: int | None, as_json: bool) -> None:
    """Bring hosts up and leave them running; print how to use them."""
    from kraftwreck.harness.clusters.hosts import format_inventory

    began = time.monotonic()
    if spec == "netns":
        from kraftwreck.harness.clusters.netns import NetnsCluster

        namespaces = NetnsCluster(nodes or DEFAULT_NODES, detached=True)
        hosts = namespaces.up()
        assert namespaces.directory is not None
        inventory = namespaces.directory / _INVENTORY
    else:
        chosen = choose_cluster(spec, nodes)
        hosts = chosen.up()
        if isinstance(chosen, VagrantCluster):
            inventory = chosen.state / "kraftwreck" / _INVENTORY
        else:
            inventory = Path(spec.partition(":")[2])
    if not spec.startswith("hosts:"):
        inventory.write_text(format_inventory(hosts))
    took = time.monotonic() - began
    if as_json:
        click.echo(json.dumps({"inventory": str(inventory), "seconds": round(took, 3),
                               "hosts": [_plain(host) for host in hosts]}))  # fmt: skip
        return
    for host in hosts:
        address, port = host.ssh_endpoint
        click.echo(f"{host.name}  {host.ip}  ssh {host.user}@{address}:{port}", err=True)
    click.echo(f"{len(hosts)} hosts up in {took:.2f} s", err=True)
    click.echo(f"use them:       kraftwreck run -c hosts:{inventory}", err=True)
    if not spec.startswith("hosts:"):
        which = inventory.parent.name if spec == "netns" else f"-c {spec}"
        click.echo(f"take them down: kraftwreck cluster down {which}", err=True)


def _plain(host: Host) -> dict[str, Any]:
    address, port = host.ssh_endpoint
    return {
        "name": host.name,
        "node_id": host.node_id,
        "ip": host.ip,
        "ssh": f"{host.user}@{address}:{port}",
        "key": str(host.key) if host.key else None,
        "host_key": host.host_key,
    }


def _found() -> list[tuple[Path, State | None, str]]:
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


@cluster.command()
@click.option("-c", "--cluster", "spec", metavar="vagrant|hosts:FILE", help="Show these hosts.")
@_JSON
def status(spec: str | None, as_json: bool) -> None:
    """Show the namespace clusters on this machine, or the Vagrant machines."""
    if spec is not None and spec != "netns":
        chosen = choose_cluster(spec)
        if isinstance(chosen, VagrantCluster):
            states_by_name = chosen.status()
        else:
            states_by_name = {host.name: "answers" for host in chosen.up()}
        if as_json:
            click.echo(json.dumps({"hosts": states_by_name}))
        for name, condition in states_by_name.items():
            click.echo(f"{name}  {condition}", err=True)
        return
    found = _found()
    if as_json:
        rows = [
            {
                "id": directory.name,
                "condition": condition,
                "subnet": state.subnet if state else "",
                "hosts": _host_names(state),
                "control_pid": state.control.pid if state else None,
                "directory": str(directory),
            }
            for directory, state, condition in found
        ]
        click.echo(json.dumps({"clusters": rows}))
        return
    if not found:
        click.echo("no namespace clusters", err=True)
    for directory, state, condition in found:
        words = [directory.name, condition]
        if state is not None:
            if condition == "in use":
                words.append(f"by process {state.control.pid}")
            words += [state.subnet, *_host_names(state)]
        click.echo("  ".join(words), err=True)


def _host_names(state: State | None) -> list[str]:
    return [host["name"] for host in (state.hosts or [])] if state else []


@cluster.command()
@click.argument("identifier", required=False)
@click.option(
    "-c", "--cluster", "spec", metavar="vagrant|hosts:FILE", help="Heal these hosts instead."
)
@_JSON
def heal(identifier: str | None, spec: str | None, as_json: bool) -> None:
    """Undo drops, pauses and other faults on hosts brought up by hand.

    IDENTIFIER selects one cluster.
    """
    from kraftwreck.harness.clusters.healing import heal_hosts

    if spec is not None:
        chosen = choose_cluster(spec)
        evidence = {spec: chosen.heal()} if _running(chosen) else {}
    else:
        evidence = {name: heal_hosts(hosts) for name, hosts in _hosts_of(identifier).items()}
    if as_json:
        click.echo(json.dumps(evidence))
    failed = False
    for name, hosts in evidence.items():
        for host, done in hosts.items():
            failed |= "error" in done
            click.echo(f"{name}  {host}  {_undone(done)}", err=True)
    if not evidence:
        click.echo("nothing to heal", err=True)
    if failed:
        sys.exit(FAILED)


def _running(chosen: Cluster) -> list[Host]:
    """Return the hosts of a cluster that is up; do not start machines that are down."""
    return chosen.attach() if isinstance(chosen, VagrantCluster) else chosen.up()


def _undone(done: dict[str, object]) -> str:
    """Return what was undone on a host, in words."""
    if "error" in done:
        return str(done["error"])
    words = [f"{done['packets']} packets had been dropped"]
    words += [f"network: {each}" for each in cast(list[str], done.get("network", []))]
    words += [what for what in ("resumed", "clock", "disk") if what in done]
    return ", ".join(words)


def _hosts_of(identifier: str | None) -> dict[str, list[Host]]:
    """Return the hosts of live clusters, by cluster id."""
    return {
        directory.name: [Host.from_json(host) for host in state.hosts]
        for directory, state, condition in _selected(identifier)
        if condition != "dead" and state is not None and state.hosts
    }


@cluster.command()
@click.argument("identifier", required=False)
@click.option("-c", "--cluster", "spec", metavar="vagrant|hosts:FILE", help="Examine these hosts.")
@_JSON
def doctor(identifier: str | None, spec: str | None, as_json: bool) -> None:
    """Show which faults each host supports, and why not the others.

    If no hosts are up, one is brought up on this machine for the test.
    """
    from kraftwreck.harness.remote.doctor import examine, lines

    if spec is not None:
        running = _running(choose_cluster(spec))
        found = {spec: examine(running)} if running else {}
        if not found:
            raise ClusterError(
                "no machine is running; start them with kraftwreck cluster up -c vagrant",
                BAD_ARGUMENTS,
            )
    else:
        clusters = _hosts_of(identifier)
        found = {name: examine(hosts) for name, hosts in clusters.items()}
        if not clusters:
            passing = choose_cluster("netns", 1)
            try:
                found["netns"] = examine(passing.up())
            finally:
                passing.down()
    if as_json:
        click.echo(json.dumps(found))
    for name, hosts in found.items():
        click.echo("\n".join([name, *lines(hosts)]), err=True)
    if any("error" in answer for hosts in found.values() for answer in hosts.values()):
        sys.exit(FAILED)


def _selected(
    identifier: str | None, everything: bool = False
) -> list[tuple[Path, State | None, str]]:
    """Return one cluster by its id, or all except those in use (unless ``everything``)."""
    found = _found()
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


@cluster.command()
@click.argument("identifier", required=False)
@click.option("-c", "--cluster", "spec", metavar="vagrant", help="Halt the Vagrant machines.")
@click.option(
    "--all", "everything", is_flag=True, help="Also take down clusters that a run is using."
)
@_JSON
def down(identifier: str | None, spec: str | None, everything: bool, as_json: bool) -> None:
    """Take down clusters brought up by hand, and clean up after dead ones.

    IDENTIFIER selects one cluster.
    """
    if spec is not None:
        chosen = choose_cluster(spec)
        if isinstance(chosen, VagrantCluster):
            chosen.halt()
        else:
            raise ClusterError(
                "only netns and vagrant hosts can be taken down; those of an inventory are yours",
                BAD_ARGUMENTS,
            )
        return
    ended = []
    for directory, _, condition in _selected(identifier, everything):
        try:
            if condition != "dead":
                states.end(directory)
            ended.append({"id": directory.name, "was": condition})
        except TimeoutError as error:
            raise ClusterError(str(error)) from error
    states.sweep()
    if as_json:
        click.echo(json.dumps({"ended": ended}))
        return
    for row in ended:
        click.echo(f"{row['id']}  {'removed' if row['was'] == 'dead' else 'down'}", err=True)
    if not ended:
        click.echo("nothing to take down", err=True)
