"""The order of a night: the corpus, past failures, then cells by weight; the same every time."""

from __future__ import annotations

import tomllib
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nightly.cells import Cell, cells
from kraftwreck.nightly.config import Config, parse
from kraftwreck.nightly.known import Known, fault_pairs, gather, uncovered
from kraftwreck.nightly.plan import Plan, Planned, deciding, length, order, weights
from kraftwreck.nightly.record import Failure, Record

BASE: dict[str, Any] = {
    "name": "one",
    "budget": {"hours": 1},
    "matrix": [{"workloads": ["register"], "faults": ["kill", "pause", "kill,pause"]}],
}


def configured(**changes: Any) -> tuple[Config, list[Cell]]:
    config = parse(BASE | changes)
    return config, cells(config)


def planned(
    config: Config, found: list[Cell], known: Known | None = None, seed: int = 1, **fields: Any
) -> list[Planned]:
    plan = Plan(
        seed=seed, deciding=deciding(config), corpus=fields.get("corpus", []),
        known=known or Known(),
    )  # fmt: skip
    return list(islice(order(plan, config, found), fields.get("most", 90)))


def red(cell: Cell, seed: int, n: int = 0, **fields: Any) -> Record:
    values: dict[str, Any] = {
        "n": n, "kind": "cell", "cell": cell.key, "system": cell.system,
        "workload": cell.workload, "faults": list(cell.faults), "cluster": cell.cluster,
        "tree": cell.tree, "planted": cell.planted, "seed": seed, "valid": False,
        "klass": "system", "failures": [Failure(checker="committed", type="lost")],
    }  # fmt: skip
    return Record(**(values | fields))


def write_night(folder: Path, records: list[Record], met: list[str]) -> Path:
    folder.mkdir(parents=True)
    lines = [msgspec.json.encode(record) + b"\n" for record in records]
    (folder / "runs.jsonl").write_bytes(b"".join(lines))
    counted = {"sim": Coverage(runs=1, follows=dict.fromkeys(met, 1))}
    (folder / "coverage.json").write_bytes(msgspec.json.encode(counted))
    return folder


def test_the_corpus_comes_first_then_past_failures_then_cells() -> None:
    config, found = configured(budget={"runs": 6})
    known = Known(again=[(found[2].key, 77), (found[0].key, 5)])
    runs = planned(config, found, known, corpus=["a.json", "b.json"])
    assert [run.kind for run in runs] == ["corpus", "corpus", "again", "again", "cell", "cell"]
    assert [run.case for run in runs[:2]] == ["a.json", "b.json"]
    assert [(run.cell, run.seed) for run in runs[2:4]] == [(found[2], 77), (found[0], 5)]
    assert [run.n for run in runs] == list(range(6))


def test_the_order_depends_only_on_the_seed_and_known_failures() -> None:
    config, found = configured()
    first = planned(config, found, seed=1)
    assert planned(config, found, seed=1) == first
    other = planned(config, found, seed=2)
    assert [run.seed for run in other] != [run.seed for run in first]


def test_cells_get_their_share_at_any_time() -> None:
    config, found = configured()
    known = Known(met={"sim": list(fault_pairs(["kill"], simulated=True))}, failed=[found[1].key])
    start = weights(Plan(seed=1, deciding={}, corpus=[], known=known), config, found)
    assert start[found[0].key] == 1.0
    assert start[found[1].key] == 5.0
    assert 3.0 < start[found[2].key] < 4.0
    for most in (7, 70, 700):
        shares = Counter(run.cell for run in planned(config, found, known, most=most))
        for cell in found:
            share = most * start[cell.key] / sum(start.values())
            assert shares[cell] == pytest.approx(share, abs=1)


def test_new_seeds_differ_and_given_ones_come_once_in_order() -> None:
    config, found = configured()
    seeds = [run.seed for run in planned(config, found)]
    assert len(set(seeds)) == len(seeds)
    block = {"workloads": ["register"], "seeds": "3..6"}
    config, found = configured(matrix=[block])
    assert [run.seed for run in planned(config, found)] == [3, 4, 5, 6]


def test_the_clusters_of_a_block_share_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftwreck.nightly.cells.choose_cluster", lambda name: None)
    block = {"workloads": ["register"], "clusters": ["sim", "netns"], "faults": ["kill", "pause"]}
    config, found = configured(matrix=[block | {"seeds": "0..9", "runs": 13}])
    runs = planned(config, found)
    assert len(runs) == length(Plan(seed=1, deciding={}, corpus=[], known=Known()), config, found)
    shares = Counter(run.cell.cluster for run in runs if run.cell)
    assert sorted(shares.values()) == [6, 7]


def test_a_block_gets_no_more_runs_than_it_may_have() -> None:
    blocks = [
        {"workloads": ["register"], "faults": ["kill", "pause"], "runs": 5},
        {"workloads": ["leader"], "weight": 3},
    ]
    config, found = configured(matrix=blocks)
    shares = Counter(run.cell.block for run in planned(config, found) if run.cell)
    assert shares == {0: 5, 1: 85}


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("[budget]\nhours = 1\n[[matrix]]\n", None),
        ("[budget]\nruns = 9\n[[matrix]]\n", 9),
        ("[budget]\nruns = 9\n[[matrix]]\nseeds = '0..1'\n", 5),
        ("[budget]\nhours = 9\n[[matrix]]\nseeds = '0..3'\nfaults = ['kill', 'none']\n", 11),
        ("[budget]\nhours = 9\n[[matrix]]\nseeds = '0..9'\nruns = 4\n", 7),
    ],
)
def test_the_number_of_runs_is_known_where_there_is_an_end(text: str, runs: int | None) -> None:
    config = parse(tomllib.loads(f"name = 'x'\n{text}"))
    found = cells(config)
    plan = Plan(
        seed=1, deciding=deciding(config), corpus=["a", "b"],
        known=Known(again=[(found[0].key, 7)]),
    )  # fmt: skip
    assert length(plan, config, found) == runs
    if runs is not None:
        assert len(list(order(plan, config, found))) == runs


# --- what is known ------------------------------------------------------------------------------


def test_uncovered_pairs_and_past_failures_are_taken_from_earlier_nights(tmp_path: Path) -> None:
    _, found = configured()
    pairs = list(fault_pairs(["kill"], simulated=True))
    nights = [
        write_night(
            tmp_path / "1", [red(found[1], 3), red(found[1], 4, 1)], pairs[: len(pairs) // 2]
        ),
        write_night(tmp_path / "2", [red(found[1], 3), red(found[2], 9, 1, klass=None)], []),
    ]
    known = gather(nights, found, most_again=10)
    assert known.met == {"sim": sorted(pairs[: len(pairs) // 2])}
    met = set(known.met["sim"])
    assert uncovered(found[0], met) == pytest.approx(0.5, abs=0.02)
    assert uncovered(found[1], met) == 1.0
    assert 0.5 < uncovered(found[2], met) < 1.0
    assert known.failed == [found[1].key]
    assert known.again == [(found[1].key, 3), (found[1].key, 4)]
    assert gather(nights, found, most_again=1).again == [(found[1].key, 3)]


def test_planted_bugs_are_not_run_again_and_lost_cells_are_forgotten(tmp_path: Path) -> None:
    _, found = configured()
    gone = msgspec.structs.replace(found[0], key="kraft other kill sim clean")
    records = [red(found[0], 3, planted=True), red(gone, 4, 1)]
    known = gather([write_night(tmp_path / "1", records, [])], found, most_again=10)
    assert known.again == []
    assert known.failed == [found[0].key]


def test_an_unreadable_night_is_ignored(tmp_path: Path) -> None:
    _, found = configured()
    night = write_night(tmp_path / "1", [red(found[0], 3)], [])
    (night / "runs.jsonl").write_text("{}\n")
    (night / "coverage.json").write_text("[")
    assert gather([night], found, most_again=10).again == []


def test_pairs_are_those_that_counters_name() -> None:
    pairs = list(fault_pairs(["kill", "pause"], simulated=True))
    assert len(set(pairs)) == len(pairs)
    assert any(pair.startswith("kill/") and " > pause/" in pair for pair in pairs)
    assert list(fault_pairs(["wire"], simulated=True)) == []
    assert list(fault_pairs(["wire"], simulated=False))
