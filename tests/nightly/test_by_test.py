"""The coverage of each test of a night is kept, also over a kill, for the store's heat maps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kraftwreck.nemesis.coverage import Coverage
from kraftwreck.nightly.by_test import FILE, ByTest
from kraftwreck.nightly.record import Record

from .conftest import FakeNight


def record(workload: str, tree: str = "clean") -> Record:
    return Record(
        n=0, kind="cell", cell="a cell", system="kraft", workload=workload, faults=["kill"],
        cluster="sim", tree=tree, planted=tree != "clean", seed=1, valid=True,
    )  # fmt: skip


def test_tests_are_distinguished_and_read_again(tmp_path: Path) -> None:
    found = ByTest.read(tmp_path)
    met = Coverage(runs=1, follows={"kill/one > kill/one": 1}, struck={"leader kill/one": 1})
    for workload in ("register", "leader", "register"):
        found.add(record(workload), met)
    found.add(record("register", "mutant:R02"), Coverage(runs=1))
    found.write(tmp_path)
    again = ByTest.read(tmp_path)
    again.add(record("leader"), met)
    again.write(tmp_path)
    told = json.loads((tmp_path / FILE).read_text())
    assert [(t["workload"], t["tree"], t["runs"]) for t in told] == [
        ("register", "clean", 2), ("leader", "clean", 2), ("register", "mutant:R02", 1),
    ]  # fmt: skip
    assert told[0]["follows"] == {"kill/one > kill/one": 2}
    assert told[2]["struck"] == {}


def test_beyond_so_many_tests_others_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftwreck.nightly.by_test.MOST_TESTS", 2)
    found = ByTest.read(tmp_path)
    for number in range(4):
        found.add(record(f"w{number % 3}"), Coverage(runs=1))
    found.write(tmp_path)
    told = json.loads((tmp_path / FILE).read_text())
    assert [(t["workload"], t["runs"]) for t in told] == [("w0", 2), ("w1", 1)]


def test_a_night_writes_it(fake_night: Callable[..., FakeNight]) -> None:
    counted = {"runs": 1, "follows": {"kill/one > pause/one": 1}}
    night = fake_night({"*": [{"answer": {"coverage": counted}}]}, seeds="0..1")
    night.run()
    [told] = json.loads((night.path / FILE).read_text())
    assert (told["workload"], told["runs"], told["follows"]) == (
        "register", 2, {"kill/one > pause/one": 2},
    )  # fmt: skip
