"""The messages of a simulated run, as its page shows them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kraftwreck.histories.message import Message
from kraftwreck.nodes.consensus.kraft.messages import VoteRequest, VoteResponse
from kraftwreck.reports.messages import Diagram, diagram
from kraftwreck.reports.node_lanes import clocks
from kraftwreck.reports.run_folder import load_run
from kraftwreck.systems.kraft.simulated.messages import facts, write_messages
from tests.reports.fake_run import write_fake_run

ASKED = VoteRequest(
    cluster_id="c", voter_id=2, epoch=7, candidate_id=1, candidate_directory=b"\x01" * 16,
    voter_directory=b"\x02" * 16, last_epoch=6, last_offset=40, pre_vote=False,
)  # fmt: skip
ANSWER = VoteResponse(error=0, partition_error=0, leader_id=-1, leader_epoch=7, vote_granted=True)


def drawn(folder: Path, messages: list[Message], at: int) -> Diagram:
    """The diagram of ``messages`` around ``at`` µs."""
    write_messages(messages, folder / "messages.jsonl")
    run = load_run(folder)
    return diagram(run, [(at, at)], clocks(run.test, run.traces))


def test_a_vote_goes_from_its_candidate_to_its_voter(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", count=50)
    vote = Message(5_000_900_000, 1, 2, "Vote", ASKED, ANSWER, sent=5_000_000_000)
    client = Message(5_000_000_000, -1, 2, "Metadata", {"topics": []}, {"topics": []})
    result = drawn(folder, [client, vote], 5_000_000)
    assert [(a.sent, a.arrived, a.source, a.target) for a in result.arrows] == [
        (5_000_000, 5_000_900, 0, 1)
    ]
    assert result.arrows[0].label == "vote e7? yes"
    assert "last offset 40" in result.arrows[0].contents
    assert result.known == 1


def test_only_nearby_messages_are_on_the_page(tmp_path: Path) -> None:
    folder = write_fake_run(tmp_path / "run", count=50)
    votes = [
        Message(n * 1_000_000_000, 1, 2, "Vote", ASKED, ANSWER, sent=n * 1_000_000_000 - 1000)
        for n in range(1, 40)
    ]
    result = drawn(folder, votes, 20_000_000)
    assert [a.arrived for a in result.arrows] == [19_000_000, 20_000_000, 21_000_000]
    assert result.known == 39
    assert result.events, "trace events of that time are there"
    assert all(abs(at - 20_000_000) <= 1_500_000 for at, *_ in result.events)


def test_facts_leave_out_bytes_and_unknown_values() -> None:
    told = facts(ANSWER)
    assert told is not None
    assert told["vote_granted"] is True
    assert "leader_id" not in told
    assert b"\x01" not in msgspec.json.encode(facts(ASKED))
    assert facts({"topics": []}) is None
