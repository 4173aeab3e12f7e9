"""``kraftwreck cluster``: manage clusters by hand."""

from __future__ import annotations

import json
import sys
import time

import click

from kraftwreck.harness.clusters.by_hand import (
    bring_up,
    described,
    every_cluster,
    host_names,
    hosts_of,
    row,
    running,
    take_down,
    undone,
)
from kraftwreck.harness.clusters.cluster import ClusterError
from kraftwreck.harness.clusters.providers import choose_cluster
from kraftwreck.harness.clusters.vagrant import VagrantCluster
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS, FAILED

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
_CLUSTER = click.option(
    "-c", "--cluster", "spec", default="netns", metavar="netns|vagrant|hosts:FILE",
    show_default=True, help="Where the hosts come from.",
)  # fmt: skip


@click.group()
def cluster() -> None:
    """Bring hosts up, show them, heal them, take them down."""


@cluster.command()
@_CLUSTER
@click.option("--nodes", type=click.IntRange(1, 200), help="Number of hosts [default: 5].")
@_JSON
def up(spec: str, nodes: int | None, as_json: bool) -> None:
    """Bring hosts up and leave them running; print how to use them."""
    began = time.monotonic()
    hosts, inventory = bring_up(spec, nodes)
    took = time.monotonic() - began
    if as_json:
        click.echo(json.dumps({"inventory": str(inventory), "seconds": round(took, 3),
                               "hosts": [described(host) for host in hosts]}))  # fmt: skip
        return
    for host in hosts:
        address, port = host.ssh_endpoint
        click.echo(f"{host.name}  {host.ip}  ssh {host.user}@{address}:{port}", err=True)
    click.echo(f"{len(hosts)} hosts up in {took:.2f} s", err=True)
    click.echo(f"use them:       kraftwreck run -c hosts:{inventory}", err=True)
    if not spec.startswith("hosts:"):
        which = inventory.parent.name if spec == "netns" else f"-c {spec}"
        click.echo(f"take them down: kraftwreck cluster down {which}", err=True)


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
    found = every_cluster()
    if as_json:
        click.echo(json.dumps({"clusters": [row(*each) for each in found]}))
        return
    if not found:
        click.echo("no namespace clusters", err=True)
    for directory, state, condition in found:
        words = [directory.name, condition]
        if state is not None:
            if condition == "in use":
                words.append(f"by process {state.control.pid}")
            words += [state.subnet, *host_names(state)]
        click.echo("  ".join(words), err=True)


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
        evidence = {spec: chosen.heal()} if running(chosen) else {}
    else:
        evidence = {name: heal_hosts(hosts) for name, hosts in hosts_of(identifier).items()}
    if as_json:
        click.echo(json.dumps(evidence))
    failed = False
    for name, hosts in evidence.items():
        for host, done in hosts.items():
            failed |= "error" in done
            click.echo(f"{name}  {host}  {undone(done)}", err=True)
    if not evidence:
        click.echo("nothing to heal", err=True)
    if failed:
        sys.exit(FAILED)


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
        there = running(choose_cluster(spec))
        found = {spec: examine(there)} if there else {}
        if not found:
            raise ClusterError(
                "no machine is running; start them with kraftwreck cluster up -c vagrant",
                BAD_ARGUMENTS,
            )
    else:
        clusters = hosts_of(identifier)
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
    ended = take_down(identifier, everything)
    if as_json:
        click.echo(json.dumps({"ended": ended}))
        return
    for each in ended:
        click.echo(f"{each['id']}  {'removed' if each['was'] == 'dead' else 'down'}", err=True)
    if not ended:
        click.echo("nothing to take down", err=True)
