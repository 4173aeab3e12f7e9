"""A night steers itself: towards what is not covered yet and what failed, always in one order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from kraftwreck.nightly.cells import Cell, cells, load
from kraftwreck.nightly.config import Config, parse
from kraftwreck.nightly.known import Known, fault_pairs
from kraftwreck.nightly.plan import Order, Plan, Planned, Slot, deciding
from kraftwreck.nightly.record import Record
from kraftwreck.nightly.steering import ROUND

from .conftest import FakeNight

KILLS = list(fault_pairs(["kill"], simulated=True))
PAUSES = list(fault_pairs(["pause"], simulated=True))
BOTH = {"workloads": ["register"], "faults": ["kill", "pause"]}


def configured(*blocks: dict[str, Any], **top: Any) -> tuple[Config, list[Cell]]:
    config = parse({"name": "one", "budget": {"hours": 1}, "matrix": list(blocks or [BOTH])} | top)
    return config, cells(config)


def made(planned: Planned, **fields: Any) -> Record:
    cell = planned.cell
    assert cell is not None
    values: dict[str, Any] = {
        "n": planned.n, "kind": planned.kind, "cell": cell.key, "system": cell.system,
        "workload": cell.workload, "faults": list(cell.faults), "cluster": cell.cluster,
        "tree": cell.tree, "planted": cell.planted, "seed": planned.seed, "valid": True,
    }  # fmt: skip
    return Record(**(values | fields))


class Night:
    """Runs of a plan, ``side_by_side`` at a time; which of them ends first is given."""

    def __init__(self, config: Config, found: Sequence[Cell], known: Known, round_: int) -> None:
        self.config, self.found = config, found
        self.plan = Plan(seed=3, deciding=deciding(config), corpus=[], known=known, round=round_)
        self.records: list[Record] = []
        self.planned: dict[int, Planned] = {}
        self.most_at_once = 0

    def go(
        self,
        came: Callable[[Planned], tuple[dict[str, Any], Iterable[str]]],
        *,
        until: int,
        side_by_side: int = 1,
        ends: Callable[[int], int] = lambda running: 0,
    ) -> Night:
        """Make runs until ``until`` are finished; what is under way then is lost."""
        order = Order(self.plan, self.config, self.found, self.records)
        done = {record.n for record in self.records}
        slots = (slot for slot in order.slots() if slot.n not in done)
        running: list[Planned] = []
        slot: Slot | None = None
        while len(self.records) < until:
            while len(running) < side_by_side:
                slot = slot or next(slots, None)
                if slot is None or not order.ready(slot):
                    break
                running.append(order.planned(slot))
                slot = None
            self.most_at_once = max(self.most_at_once, len(running))
            planned = running.pop(ends(len(running)))
            fields, met = came(planned)
            record = made(planned, **fields)
            order.finished(record, dict.fromkeys(met, 1))
            # As it comes back from the journal.
            self.records.append(msgspec.json.decode(msgspec.json.encode(record), type=Record))
            self.planned[planned.n] = planned
        return self

    @property
    def order(self) -> list[tuple[int, str, int]]:
        return [(n, run.cell.key, run.seed) for n, run in sorted(self.planned.items()) if run.cell]

    def shares(self, numbers: range) -> Counter[str]:
        runs = (self.planned[n].cell for n in numbers)
        return Counter(cell.faults[0] for cell in runs if cell is not None)


def kills_are_met(planned: Planned) -> tuple[dict[str, Any], Iterable[str]]:
    """Every run with kills meets all there is to meet of them, one with pauses nothing."""
    assert planned.cell is not None
    return {}, KILLS if "kill" in planned.cell.faults else ()


def test_coverage_of_a_night_counts_in_it() -> None:
    config, found = configured()
    night = Night(config, found, Known(), 8).go(kills_are_met, until=116)
    # The first two rounds know nothing; then pauses weigh four times as much.
    assert night.shares(range(16)) == {"kill": 8, "pause": 8}
    assert night.shares(range(16, 116))["pause"] == pytest.approx(80, abs=1)


def test_coverage_of_earlier_nights_is_not_new() -> None:
    config, found = configured()
    night = Night(config, found, Known(met={"sim": KILLS}), 8).go(kills_are_met, until=20)
    assert night.shares(range(20))["pause"] == pytest.approx(16, abs=1)
    assert all(record.met == [] for record in night.records)


def test_a_pair_is_written_down_once_it_is_new_only() -> None:
    config, found = configured()
    night = Night(config, found, Known(), 8).go(kills_are_met, until=100)
    assert night.records[0].met == sorted(KILLS) or night.records[1].met == sorted(KILLS)
    assert all(not record.met for record in night.records if record.n >= 24)


def test_failed_cells_of_a_night_are_run_more_often() -> None:
    config, found = configured()
    known = Known(met={"sim": KILLS + PAUSES})

    def came(planned: Planned) -> tuple[dict[str, Any], Iterable[str]]:
        assert planned.cell is not None
        fails = "kill" in planned.cell.faults and planned.n < 8
        return {"valid": False, "klass": "system"} if fails else {}, ()

    night = Night(config, found, known, 8).go(came, until=106)
    assert night.shares(range(16, 106))["kill"] == pytest.approx(60, abs=1)


def test_the_order_does_not_depend_on_the_first_run_to_end() -> None:
    config, found = configured()
    plain = Night(config, found, Known(), 16).go(by_seed, until=200)
    for ends in (lambda running: running - 1, lambda running: running // 2):
        other = Night(config, found, Known(), 16).go(by_seed, until=230, side_by_side=8, ends=ends)
        assert other.most_at_once == 8
        assert other.order[:150] == plain.order[:150]


def by_seed(planned: Planned) -> tuple[dict[str, Any], Iterable[str]]:
    """Return the outcome and the coverage of a planned run, decided by its seed."""
    assert planned.cell is not None
    pairs = KILLS if "kill" in planned.cell.faults else PAUSES
    fails = planned.seed % 23 == 0
    few = pairs[planned.seed % len(pairs)], pairs[planned.seed // 7 % len(pairs)]
    return {"valid": False, "klass": "system"} if fails else {}, few


def test_a_night_stopped_anywhere_continues_unchanged() -> None:
    config, found = configured(BOTH, {"workloads": ["leader"], "weight": 0.5, "runs": 40})
    whole = Night(config, found, Known(), 16).go(by_seed, until=160)
    stopped = Night(config, found, Known(), 16)
    for until in (5, 31, 32, 33, 90, 160):
        stopped.go(by_seed, until=until, side_by_side=4, ends=lambda running: running // 2)
    assert stopped.order[:150] == whole.order[:150]


def test_on_hosts_every_run_decides_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftwreck.nightly.cells.choose_cluster", lambda name: None)
    config, found = configured(BOTH | {"clusters": ["netns"]})
    night = Night(config, found, Known(), 16).go(kills_are_met, until=12, side_by_side=4)
    assert night.most_at_once == 1
    assert night.shares(range(12)) == {"kill": 3, "pause": 9}


def test_simulated_runs_do_not_wait_for_those_on_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftwreck.nightly.cells.choose_cluster", lambda name: None)
    config, found = configured(BOTH | {"clusters": ["sim", "netns"]})
    order = Order(Plan(seed=1, deciding={}, corpus=[], known=Known()), config, found)
    slots = [slot for slot, _ in zip(order.slots(), range(100), strict=False)]
    of = {name: [slot for slot in slots if slot.cluster == name] for name in ("sim", "netns")}
    assert order.ready(of["netns"][0])
    assert not order.ready(of["netns"][1])
    for slot in of["sim"][:40]:
        assert order.ready(slot)
        order.finished(made(order.planned(slot)), {})


def test_a_night_whose_process_was_killed_has_the_order_of_its_plan_and_its_results(
    fake_night: Callable[..., FakeNight],
) -> None:
    rules = {"*": [{"answer": {"coverage": {"follows": dict.fromkeys(KILLS, 1)}}}]}
    top = "[budget]\nruns = 40\n"
    fake = fake_night(rules, seeds="new", block='faults = ["kill", "pause"]', top=top)
    with fake.start() as process:
        assert process.stdout is not None
        while not any(fake.path.glob("runs.jsonl") if fake.calls else ()) or not fake.records:
            assert process.stdout.readline()
        process.kill()
    code, out = fake.run()
    assert code == 0, out
    assert fake.night.sessions == 2
    config, _ = load(fake.config)
    whole = Night(config, cells(config), Known(), ROUND)
    whole.plan = msgspec.json.decode((fake.path / "plan.json").read_bytes(), type=Plan)
    whole.go(lambda planned: ({}, KILLS), until=40)
    made = sorted((record.n, record.cell, record.seed) for record in fake.records)
    assert made == whole.order
    assert whole.shares(range(32, 40))["pause"] > 5
