"""``kraftwreck list``: list every name that the command line accepts."""

from __future__ import annotations

import json

import click

from kraftwreck.checkers import registry as checkers_registry
from kraftwreck.checkers.registry import abouts
from kraftwreck.harness.clusters import providers
from kraftwreck.harness.simulated.core import GROUP as CORES
from kraftwreck.harness.workload import Workload
from kraftwreck.histories.plugins import by_own_name, plugins
from kraftwreck.mutants import catalogue
from kraftwreck.nemesis import registry as nemesis_registry
from kraftwreck.nemesis.registry import families
from kraftwreck.systems import registry as systems_registry
from kraftwreck.systems.registry import systems
from kraftwreck.workloads import registry as workloads_registry
from kraftwreck.workloads.generic import GENERIC, verbs_of
from kraftwreck.workloads.registry import workloads

Entry = dict[str, str]


def everything() -> dict[str, list[Entry]]:
    """Return all names by kind, each with one line of description."""
    return {
        "systems": [_entry(name, s.about) for name, s in sorted(systems().items())],
        "workloads": [
            *(_workload(name, w) for name, w in sorted(workloads().items())),
            *(_workload(name, w) for name, w in GENERIC.items() if name not in workloads()),
        ],
        "faults": [
            _entry(name, f"{family.about} ({', '.join(family.shapes)})")
            for name, family in sorted(families().items())
        ],
        "checkers": [_entry(name, about) for name, about in sorted(abouts().items())],
        "clusters": [
            _entry(name, about)
            for name, about in zip(
                [*providers.NAMES, "sim"],
                [
                    "namespaces on this machine, for any user",
                    "virtual machines of the Vagrantfile",
                    "any hosts with SSH, from an inventory",
                    "virtual time, in this process",
                ],
                strict=True,
            )
        ],
        "mutants": [_entry(bug.id, bug.title) for bug in catalogue().values()],
        **({"broken": broken} if (broken := _broken()) else {}),
    }


def _broken() -> list[Entry]:
    """Return the plug-ins that cannot be imported, with the reason of each."""
    told = [
        by_own_name(systems_registry.GROUP),
        workloads_registry.installed(),
        nemesis_registry.installed(),
        plugins(checkers_registry.GROUP),
        plugins(CORES),
    ]
    return [_entry(name, why) for each in told for name, why in sorted(each.broken.items())]


def _workload(name: str, workload: Workload) -> Entry:
    about, verbs = str(getattr(workload, "about", "")), ", ".join(verbs_of(workload))
    return _entry(name, f"any system with the verbs {verbs}: {about}" if verbs else about)


def _entry(name: str, about: str) -> Entry:
    return {"name": name, "about": about}


@click.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def cli(as_json: bool) -> None:
    """Show systems, workloads, faults, checkers, clusters and mutants."""
    found = everything()
    if as_json:
        click.echo(json.dumps(found))
        return
    for kind, entries in found.items():
        click.echo(f"{kind}:")
        width = max((len(entry["name"]) for entry in entries), default=0)
        for entry in entries:
            click.echo(f"  {entry['name']:<{width}}  {entry['about']}".rstrip())
