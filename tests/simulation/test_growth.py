"""Dynamic quorums that begin with one voter and grow, as people set them up (KIP-853)."""

from __future__ import annotations

import pytest

from kraftwreck.campaigns.campaign import run_schedule
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign as Campaign
from kraftwreck.workloads.registry import find

CAMPAIGN = Campaign()
GROWING = [
    seed
    for seed in range(200)
    if CAMPAIGN.knobs(seed).dynamic
    and CAMPAIGN.knobs(seed).first_voters == 1 < CAMPAIGN.options(seed).nodes
]


def is_cut(seed: int) -> bool:
    """Whether the leader that was alone is cut off before anything else happens."""
    second = CAMPAIGN.schedule(seed)[1:2]
    return [(f.kind, f.shape, f.duration) for f in second] == [("partition", "leader", 8 * 10**9)]


def test_some_quorums_grow() -> None:
    assert 8 < len(GROWING) < 40
    assert {is_cut(seed) for seed in GROWING} == {True, False}


@pytest.mark.parametrize("seed", GROWING)
def test_the_only_voter_is_neither_voted_out_nor_loses_its_disk(seed: int) -> None:
    faults = CAMPAIGN.schedule(seed)
    assert [f.shape for f in faults if f.kind == "membership"] == ["grow"]
    assert not [f for f in faults if f.kind == "disk"]
    assert faults == sorted(faults, key=lambda fault: fault.at)


def test_without_changes_of_voters_no_quorum_grows() -> None:
    campaign = Campaign(faults=("kill",))
    assert all(campaign.knobs(s).first_voters == campaign.options(s).nodes or
               campaign.knobs(s).first_voters >= 3 for s in GROWING)  # fmt: skip


@pytest.mark.parametrize("cut", [True, False])
def test_in_the_end_all_vote(cut: bool) -> None:
    seed = next(seed for seed in GROWING if is_cut(seed) == cut)
    options, knobs = CAMPAIGN.options(seed), CAMPAIGN.knobs(seed)
    judged = run_schedule(options, find(options.workload), knobs, CAMPAIGN.schedule(seed))
    assert judged.tested.found == []
    elected = [event for event in judged.result.events if event.kind == "elected"]
    assert elected[0].detail["voters"] == [1]
    last = [event for event in judged.result.events if event.kind == "voters"][-1]
    assert len(last.detail["voters"]) == options.nodes
