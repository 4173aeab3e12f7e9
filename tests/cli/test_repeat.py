"""Repeat commands: the parser reads back exactly the options that they were written from."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Any, get_args

import click
from hypothesis import given, settings
from hypothesis import strategies as some

from kraftwreck.cli.main import cli
from kraftwreck.harness.clusters.providers import NAMES
from kraftwreck.harness.command_line import command_line
from kraftwreck.harness.options import RunOptions, Style, repeat_command
from kraftwreck.nemesis.registry import families
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign

FOLDER = Path(tempfile.gettempdir())
OF_A_CAMPAIGN = {"jobs", "hours", "coverage_file", "corpus", "shrinks", "compiled", "json_output"}
"""Options of ``sim`` about many runs, or about output; one run is the same without them."""

seeds = some.integers(0, 2**63 - 1)
seconds = some.floats(1, 1e7)
intervals = some.floats(0.5, 1e7)
rates = some.floats(0.001, 1e6)
threads = some.integers(1, 1000)
faults = some.lists(some.sampled_from(sorted(families())), unique=True).map(tuple)
names = some.text(some.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
paths = names.map(Path).filter(lambda path: path.name != "")


def parsed(line: str) -> dict[str, Any]:
    """Return what the command's own parser makes of ``line``."""
    program, name, *words = shlex.split(line)
    assert program == "kraftwreck"
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return dict(command.make_context(name, words).params)


@settings(deadline=None)
@given(
    some.builds(
        RunOptions, system=names, workload=names, faults=faults, time_limit_s=seconds,
        cluster=some.sampled_from(["netns", "sim", *NAMES]), nodes=some.integers(1, 200),
        snapshots=some.booleans(), seed=seeds,
        rate=rates, concurrency=threads, mutant=some.none() | names, patch=some.none() | paths,
        other=some.none() | some.just(FOLDER), store=paths, tables=some.booleans(),
        floor=some.none() | names, style=some.sampled_from(get_args(Style)),
        interval_s=some.none() | intervals,
        system_options=some.lists(names.map("name={}".format), max_size=3).map(tuple),
    )
)  # fmt: skip
def test_run_is_repeated_with_every_option(options: RunOptions) -> None:
    read = parsed(repeat_command(options))
    assert read.pop("as_json") is False, "output only"
    assert read.pop("faults") == (",".join(options.faults) or "none")
    assert read.pop("time_limit") == options.time_limit_s
    assert read.pop("with_tables") == options.tables
    assert read.pop("interval") == options.interval_s
    assert read == {name: getattr(options, name) for name in read}
    fields = set(options.as_json()) - {"lacking", "governed"}
    assert fields == {*read, "faults", "time_limit_s", "tables", "interval_s"}, "all are there"


@settings(deadline=None)
@given(
    some.builds(
        KraftCampaign, system=names, workload=names, faults=faults, time_limit_s=seconds,
        nodes=some.integers(0, 99), rate=some.just(0.0) | rates, concurrency=some.just(0) | threads,
        snapshots=some.booleans(),
        style=some.sampled_from(get_args(Style)), interval_s=some.none() | intervals,
        governed=some.booleans(), floor=names,
        store=paths.filter(lambda path: not path.exists()),
    ),
    seeds,
)  # fmt: skip
def test_a_simulated_run_is_repeated_with_every_option(campaign: KraftCampaign, seed: int) -> None:
    read = parsed(campaign.repeat(seed))
    assert set(read) >= OF_A_CAMPAIGN
    read = {name: value for name, value in read.items() if name not in OF_A_CAMPAIGN}
    assert read.pop("seed_text") == f"{seed}..{seed}"
    assert read.pop("faults") == (",".join(campaign.faults) or "none")
    assert read.pop("time_limit") == campaign.time_limit_s
    assert read.pop("interval") == campaign.interval_s
    assert read.pop("patch") is None
    assert read == {name: getattr(campaign, name) for name in read}


@settings(deadline=None)
@given(paths)
def test_a_replay_is_repeated_whatever_its_folder_is_called(path: Path) -> None:
    read = parsed(command_line("replay", path))
    assert read == {"run": path, "node": None, "json_output": False}
