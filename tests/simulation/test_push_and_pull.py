"""The measurements of pull against push, on few commits and seeds, and the pages on them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import push_and_pull
from bench.push_and_pull import main
from bench.quorums.client import write
from bench.quorums.commits import measure_commits, measure_idle
from bench.quorums.elections import measure_end, measure_return
from bench.quorums.group import EAGER_PULL, EAGER_PUSH, MS, PULL, PUSH, Kind
from bench.quorums.logs import FIGURE_7, measure_repair
from kraftwreck.nodes.store.machine import encode

pytestmark = pytest.mark.interpreted  # The bench derives from classes of the core.
ROOT = Path(__file__).parents[2]
BOTH = pytest.mark.parametrize("kind", [PUSH, PULL], ids=lambda kind: kind.name)
SEEDS = range(2)


@pytest.mark.parametrize(("kind", "messages"), [(PUSH, 2), (PULL, 4)], ids=["push", "pull"])
@pytest.mark.parametrize("size", [3, 5])
def test_a_lone_commit_costs_a_request_and_a_response_and_pull_tells_of_it_at_once(
    kind: Kind, messages: int, size: int
) -> None:
    found = measure_commits(kind, size, 20, 20, SEEDS)
    assert found.commits == len(found.latencies) == 40
    followers = size - 1
    assert found.messages / found.commits == pytest.approx(messages * followers, rel=0.1)
    # Each follower gets each record at least once.
    assert found.bytes / found.commits > followers * len(encode(write(1)))


@BOTH
def test_a_burst_shares_messages(kind: Kind) -> None:
    assert measure_commits(kind, 3, 5000, 50, [0]).messages < 50 * 4


@BOTH
def test_the_same_seed_gives_the_same_figures(kind: Kind) -> None:
    one, other = (measure_commits(kind, 3, 50, 10, [3]) for _ in range(2))
    assert one == other
    assert one != measure_commits(kind, 3, 50, 10, [4])


def test_idle_groups_exchange_what_their_timers_say() -> None:
    beats = measure_idle(PUSH, 3, 10, [0]).messages
    fetches = measure_idle(PULL, 3, 10, [0]).messages
    assert beats == pytest.approx(2 * 2 / 0.15, rel=0.1)
    assert fetches == pytest.approx(2 * 2 / 0.5, rel=0.1)


@pytest.mark.parametrize("shape", FIGURE_7)
def test_every_log_of_figure_7_is_repaired(shape: str) -> None:
    push, pull = (measure_repair(kind, shape, SEEDS) for kind in (PUSH, PULL))
    # Push begins at the end of the leader's log, which c and d match.
    expected = {"a": (1, 0), "b": (1, 0), "c": (0, 1), "d": (0, 1), "e": (2, 1), "f": (2, 1)}
    assert (push.rejected, pull.rejected) == tuple([n] * 2 for n in expected[shape])


@pytest.mark.parametrize(
    ("kind", "disrupts"),
    [(PUSH, False), (EAGER_PUSH, True), (PULL, False), (EAGER_PULL, True)],
    ids=["push", "push without pre-vote", "pull", "pull without pre-vote"],
)
def test_only_a_member_without_pre_vote_disrupts_on_its_return(kind: Kind, disrupts: bool) -> None:
    found = measure_return(kind, 3, range(1))
    assert [count > 0 for count in found.elections] == [disrupts]
    assert [terms > 0 for terms in found.terms] == [disrupts]
    assert [gap > 500 * MS for gap in found.gaps] == [disrupts]


def test_only_end_quorum_epoch_spares_the_election_timeout() -> None:
    assert max(measure_end(PULL, 3, "stop", SEEDS)) < 500 * MS
    assert min(measure_end(PULL, 3, "kill", SEEDS)) > 1000 * MS
    assert min(measure_end(PUSH, 3, "stop", SEEDS)) > 1000 * MS


def test_the_program_prints_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_and_pull, "return_table", lambda _: "")  # most of it: see below
    done = CliRunner().invoke(main, ["--commits", "2", "--seeds", "1", "--rate", "10"])
    assert done.exit_code == 0, done.output
    headings = [line for line in done.output.splitlines() if line.startswith("#")]
    page = (ROOT / "bench/results/push-and-pull.md").read_text()
    assert headings == [line for line in page.splitlines() if line.startswith("#")]


def test_the_page_has_a_row_for_each_group_to_which_a_follower_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = measure_return(PULL, 3, range(1))
    monkeypatch.setattr(push_and_pull, "measure_return", lambda *_: found)
    rows = push_and_pull.return_table(range(1)).splitlines()[2:]
    page = (ROOT / "bench/results/push-and-pull.md").read_text()
    of_page = page.partition("## A follower returns")[2].partition("## ")[0].splitlines()
    expected = [row for row in of_page if re.match(r"\| \d+ \|", row)]
    assert [row.split("|")[1:4] for row in rows] == [row.split("|")[1:4] for row in expected]


def test_nothing_to_measure_is_refused() -> None:
    done = CliRunner().invoke(main, ["--seeds", "0"])
    assert done.exit_code == 2
    assert "at least 1" in done.output


def test_the_document_quotes_the_results() -> None:
    results = (ROOT / "bench/results/push-and-pull.md").read_text().splitlines()
    text = (ROOT / "docs/push-and-pull.md").read_text()
    rows = re.findall(r"^\| \w+ \| (?:push|pull)(?:,.*?)? \|.*$", text, re.M)
    assert len(rows) > 20
    assert [row for row in rows if row not in results] == []
