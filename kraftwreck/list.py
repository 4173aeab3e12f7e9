"""``kraftwreck list``: everything that can be named on the command line."""

from __future__ import annotations

import json

import click

from checkers.registry import CHECKERS
from harness.clusters import providers
from harness.patched_nodes import MUTANTS
from nemesis.registry import families
from systems.registry import systems
from workloads.registry import workloads

Entry = dict[str, str]


def everything() -> dict[str, list[Entry]]:
    """Return all names by kind, each with a line about it."""
    return {
        "systems": [_entry(name, s.about) for name, s in sorted(systems().items())],
        "workloads": [
            _entry(name, str(getattr(w, "about", ""))) for name, w in sorted(workloads().items())
        ],
        "faults": [
            _entry(name, f"{family.about} ({', '.join(family.shapes)})")
            for name, family in sorted(families().items())
        ],
        "checkers": [_entry(name, _first_line(check)) for name, check in sorted(CHECKERS.items())],
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
        "mutants": [_entry(path.stem, "") for path in sorted(MUTANTS.glob("*.patch"))],
    }


def _entry(name: str, about: str) -> Entry:
    return {"name": name, "about": about}


def _first_line(thing: object) -> str:
    """Return the first line of the module a checker lives in."""
    import sys

    module = sys.modules.get(getattr(thing, "__module__", ""))
    text = (module.__doc__ if module is not None else None) or ""
    return text.strip().splitlines()[0] if text.strip() else ""


@click.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def cli(as_json: bool) -> None:
    """Show systems, workloads, faults, checkers, clusters and mutants."""
    found = everything()
    if as_json:
        click.echo(json.dumps(found))
        return
    for kind, entries in found.items():
        click.echo(f"{kind}:", err=True)
        width = max((len(entry["name"]) for entry in entries), default=0)
        for entry in entries:
            click.echo(f"  {entry['name']:<{width}}  {entry['about']}".rstrip(), err=True)
