"""The matrix of runs on hosts: which tests it has, and the page that is made of their records."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from click.testing import CliRunner

from bench.hosts_matrix import ALL, DYNAMIC, NONE, SLICE, Cell, cell, cells, possible, records
from bench.hosts_matrix_page import CAUSES, page
from kraftwreck.nemesis.registry import families
from kraftwreck.workloads.registry import workloads
from tests.test_tidy import ROOT

CELLS = [cell(number) for number in range(300)]


def test_every_workload_meets_every_family_none_and_all() -> None:
    pairs = {(each.workload, each.faults) for each in CELLS}
    expected = {(w, f) for w in workloads() for f in (*families(), NONE, ALL)}
    lossy = {("produce", "power"), ("produce", "host")}
    assert pairs == expected - lossy, "records are lost with the power of all their replicas"


@pytest.mark.parametrize("name", ["seconds", "quorum", "nodes"])
def test_every_value_comes_often(name: str) -> None:
    values = [getattr(each, name) for each in CELLS]
    assert len(set(values)) >= 2
    assert min(values.count(value) for value in set(values)) >= 10


def test_equal_numbers_are_equal_cells_of_their_own_seed() -> None:
    assert [cell(number) for number in range(300)] == CELLS
    assert len({each.seed for each in CELLS}) == 300


@pytest.mark.parametrize("each", [*SLICE, *CELLS[:40]])
def test_every_cell_can_be_asked_for(each: Cell) -> None:
    from kraftwreck.cli.run import cli

    assert each.faults in (NONE, ALL) or possible(
        each.faults, each.workload, each.quorum, each.nodes
    )
    assert each.faults != "membership" or each.quorum == DYNAMIC
    words = each.arguments("hosts:nosuch.toml")
    result = CliRunner().invoke(cli, words[1:])
    assert "nosuch.toml" in result.output + str(result.exception), "only the hosts are refused"


def test_the_slice_begins_without_faults_and_has_a_long_run() -> None:
    assert len(SLICE) == 10
    assert sum(each.faults == NONE for each in SLICE) >= 3
    assert max(each.seconds for each in SLICE) == 120
    assert sum(each.seconds for each in SLICE) <= 360


def record(exit_code: int, **more: Any) -> dict[str, Any]:
    each = {
        "number": 0,
        "cell": {
            "workload": "register",
            "faults": "kill",
            "seconds": 20,
            "quorum": "static",
            "nodes": "without",
            "seed": 1,
        },
        "cluster": "netns",
        "command": "kraftwreck run -w register",
        "exit": exit_code,
        "strength": {"share": 0.75, "led": 0.9},
        "anomalies": [],
        "errors": [],
        "said": [],
        "load": 2.0,
    }
    return {**each, **more}


def test_the_page_counts_verdicts_and_names_the_cause_of_each_alarm() -> None:
    alarm = record(1, anomalies=["invariants: I31: n1 counts by | another set"])
    causes = [{"finding": "I31: n1", "cause": "a rule that was too strict"}]
    text = page([("hosts", [record(0, number=1), alarm])], causes)
    assert "2 runs on netns" in text
    assert "1 valid, 1 invalid, 0 unknown, 0 failed" in text
    assert "| kill | 2 | 1 | 1 | 0 | 75% | 90% |" in text
    assert "n1 counts by \\| another set | a rule that was too strict | no |" in text
    assert "not known yet" in page([("hosts", [alarm])], [])


def test_a_repeated_run_counts_once_and_its_alarm_stays_on_the_page() -> None:
    text = page([("hosts", [record(1, anomalies=["x: y: z"]), record(0)])], [])
    assert "1 runs on netns" in text
    assert "1 valid, 0 invalid, 0 unknown, 0 failed" in text
    assert "| x: y: z | not known yet | valid |" in text


def test_the_page_in_docs_is_made_of_the_records() -> None:
    stores = sorted((ROOT / "bench/results/hosts-matrix").iterdir())
    causes = tomllib.loads(CAUSES.read_text())["alarm"]
    made = page([(store.name, records(store / "matrix.jsonl")) for store in stores], causes)
    assert (ROOT / "docs/hosts-matrix.md").read_text() == made, (
        "run python -m bench.hosts_matrix_page bench/results/hosts-matrix/* > docs/hosts-matrix.md"
    )


def test_machines_that_lack_faults_get_other_cells() -> None:
    chosen = cells(0, 60, 3, ("host", "clock"))
    assert len(chosen) == 60
    assert all(each.faults not in {"host", "clock"} for _, each in chosen)
    words = [each.arguments("vagrant") for _, each in chosen]
    assert all(line[line.index("--nodes") + 1] == "3" for line in words)
    everything = next(each for _, each in cells(0, 300, 3, ("host",)) if each.faults == ALL)
    families = everything.arguments("vagrant")[4].split(",")
    assert "host" not in families
    assert "kill" in families
