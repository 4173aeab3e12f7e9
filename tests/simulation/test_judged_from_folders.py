"""A run judged from its folder: less evidence than in memory, and never another anomaly.

A folder lacks the order of events between nodes, the batches that no disk image holds, and the
captured messages. Hosts record of those what each node received, and its answers to clients and
brokers; that is tried with every second seed, and no messages at all with the others.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kraftwreck.campaigns.campaign import run_schedule
from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import check
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.histories.message import Message
from kraftwreck.histories.verdict import Verdict
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign as Campaign
from kraftwreck.systems.kraft.simulated.store import save
from kraftwreck.systems.simulators import simulator
from kraftwreck.workloads.registry import find

CAMPAIGN = Campaign(time_limit_s=4.0)
SLICE = 5
FEW = 30
"""The first runs, which `make test` judges, too."""

QUORUM_APIS = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot")


def as_hosts_record(capture: Capture) -> Capture:
    """Return what input logs of real nodes hold: requests and responses of the quorum apart, other
    requests with their answers, and the batches."""
    recorded = Capture()
    recorded.batches = capture.batches
    for message in capture.messages:
        of_quorum = message.api in QUORUM_APIS
        if not of_quorum and message.request is not None and message.response is not None:
            recorded.messages.append(message)
        elif message.request is not None:
            received = (message.sent + message.time) // 2 if message.sent >= 0 else message.time
            request = message.request
            asker = message.asker if of_quorum else -1
            if isinstance(request, dict):
                asker = request.get("broker_id", -1)
            recorded.messages.append(
                Message(received, asker, message.replier, message.api, request)
            )
        if message.response is not None and message.asker > 0:
            api = message.api if of_quorum else ""
            recorded.messages.append(
                Message(
                    message.time,
                    message.asker,
                    message.replier,
                    api,
                    None,
                    message.response,
                    message.records,
                )
            )
    recorded.messages.sort(key=lambda message: message.time)
    return recorded


def from_folder(result: SimResult, folder: Path, *, messages: bool) -> RunData:
    data = RunData.from_folder(folder)
    if messages:
        assert isinstance(result.capture, Capture)
        data.__dict__["capture"] = as_hosts_record(result.capture)
    return data


def findings(verdict: Verdict) -> set[tuple[str, str, str]]:
    return {
        (name, anomaly.type, anomaly.explanation)
        for name, result in verdict.checkers.items()
        if result.valid is False
        for anomaly in result.anomalies
    }


def judge_both_ways(campaign: Campaign, seed: int, store: Path) -> None:
    options = replace(campaign.options(seed), store=store)
    workload = find(options.workload)
    judged = run_schedule(options, workload, campaign.knobs(seed), campaign.schedule(seed))
    folder = save(options, workload, judged.result)
    names = dict.fromkeys([*workload.checkers, *simulator("kraft").checkers])
    data = from_folder(judged.result, folder, messages=seed % 2 == 1)
    verdict = check(data, names)
    assert findings(verdict) <= findings(judged.verdict), f"seed {seed}"
    errors = " ".join(result.error or "" for result in verdict.checkers.values())
    assert "could not be judged" not in errors, f"seed {seed}"
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=[pytest.mark.many_runs] if first >= FEW else [])
        for first in range(0, 500, SLICE)
    ],
)
def test_a_folder_shows_no_anomaly_that_memory_does_not(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + SLICE):
        judge_both_ways(CAMPAIGN, seed, tmp_path)


def test_a_topic_of_which_the_log_shows_some_partitions_only(tmp_path: Path) -> None:
    judge_both_ways(replace(CAMPAIGN, time_limit_s=15.0), 2179, tmp_path)
