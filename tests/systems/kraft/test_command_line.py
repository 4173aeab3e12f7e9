"""The options of KRaft on the command line: mistakes, effects, and repeat commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kraftwreck.harness.options import RunOptions, repeat_command
from kraftwreck.harness.own_options import texts
from kraftwreck.systems.kraft.options import OPTIONS, Draws
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign
from tests.cli.test_repeat import parsed

Command = Callable[..., Any]


MISTAKES = [
    ("run --quorum mixed", "--quorum: 'mixed' is not one of 'static', 'dynamic'"),
    ("run --combined --brokers 1", "cannot be combined"),
    (
        "run -n kill,membership --quorum static",
        "voters of a static quorum are fixed; add --quorum",
    ),
    ("run -w produce --client kcat", "--client: 'kcat' is not one of 'own', 'librdkafka'"),
    ("run -w produce --min-insync 9", "--min-insync: '9' is not one of"),
    ("run -w produce --commit-mode majority", "--commit-mode: 'majority' is not one of"),
    ("run -w produce --client librdkafka --properties no-such-file", "no-such-file"),
    ("sim --brokers ²", "give 0 to"),
    (f"sim --brokers {'9' * 5000}", "give 0 to"),
    ("sim --quorum none", "--quorum: 'none'"),
    ("sim --records none", "--records: 'none'"),
    ("sim raft --brokers 2", "--brokers has no meaning for raft"),
]


@pytest.mark.parametrize(("line", "said"), MISTAKES, ids=lambda text: text[:40])
def test_a_mistake_is_one_line_and_254(kraftwreck: Command, line: str, said: str) -> None:
    ended = kraftwreck(*line.split())
    assert (ended.code, ended.err.count("\n"), ended.out) == (254, 1, "")
    assert said in ended.err


def test_every_option_with_a_value_has_a_case_of_bad_input() -> None:
    tried = {(line.split()[0], word) for line, _ in MISTAKES for word in line.split()}
    for command, options in (("run", OPTIONS.run), ("sim", OPTIONS.campaign)):
        for option in options:
            assert option.flag or (command, f"--{option.name}") in tried, option.name


def test_the_voters_of_a_dynamic_quorum_change_in_the_simulator_too(
    kraftwreck: Any, tmp_path: Path
) -> None:
    ended = kraftwreck(
        "run", "-c", "sim", "-n", "membership", "--quorum", "dynamic", "-t", 12, "--seed", 3,
        "--store", tmp_path, "--json",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    said = json.loads(ended.out)
    assert " --quorum dynamic " in said["repeat"]
    test = json.loads((Path(said["run"]) / "test.json").read_text())
    assert test["fault_model"]["quorum"] == "dynamic"


@settings(deadline=None)
@given(some.integers(0, 200), some.booleans(), some.sampled_from(["static", "dynamic"]))
def test_options_of_a_system_are_repeated_by_their_flags(
    brokers: int, combined: bool, quorum: str
) -> None:
    plain = {"brokers": brokers, "combined": combined and not brokers, "quorum": quorum}
    options = RunOptions(system="kraft", system_options=texts(OPTIONS.run, plain))
    line = repeat_command(options)
    assert parsed(line)["system_options"] == options.system_options
    assert (f"--brokers {brokers}" in line) is (brokers > 0)
    assert ("--combined" in line) is plain["combined"]
    assert "--option" not in line


@settings(deadline=None)
@given(some.none() | some.integers(0, 200), some.sampled_from(["static", "dynamic", "mixed"]))
def test_options_of_a_system_s_campaign_are_repeated(brokers: int | None, quorum: str) -> None:
    own = texts(OPTIONS.campaign, {"brokers": brokers, "quorum": quorum})
    campaign = KraftCampaign(system="kraft", system_options=own)
    assert parsed(campaign.repeat(3))["system_options"] == own
    assert Draws.parsed(own) == Draws(brokers=brokers, quorum=quorum)  # type: ignore[arg-type]
