"""The generic workloads on a system in memory: valid when it is correct, invalid with a bug."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kraftwreck.checkers.modelled import by_model, parse
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.harness.generator import Planned
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.workload import Load
from kraftwreck.histories.operation import INVOKE, OK, Op
from kraftwreck.histories.plugins import Plugins
from kraftwreck.systems.kraft.simulated import campaign
from kraftwreck.systems.registry import find, simulated_workload, workload_of
from kraftwreck.workloads import registry
from kraftwreck.workloads.generic import GENERIC, Spoken
from kraftwreck.workloads.planned import PlannedWorkload
from tests.workloads.memory import VERBS, Bench


@pytest.mark.parametrize("workload", GENERIC)
def test_a_correct_system_is_valid(workload: str) -> None:
    for seed in (1, 2):
        verdict = Bench(workload, seed, bug=False).run()
        assert verdict.valid is True, verdict


@pytest.mark.parametrize("workload", GENERIC)
def test_a_planted_bug_is_found(workload: str) -> None:
    found = [Bench(workload, seed, bug=True).run() for seed in (1, 2, 3)]
    assert False in [verdict.valid for verdict in found]
    invalid = next(verdict for verdict in found if verdict.valid is False)
    assert any(result.anomalies for result in invalid.checkers.values())


@pytest.mark.parametrize("workload", GENERIC)
def test_leaving_out_operations_does_not_change_the_others(workload: str) -> None:
    one = GENERIC[workload]
    bench = Bench(workload, 5, bug=False, seconds=5)
    bench.run()
    again = Bench(workload, 5, bug=False, seconds=5)
    again.run()
    assert bench.ops == again.ops
    assert {op.f for op in bench.ops} <= {*one.verbs, "txn"} - {"append"} | {"drain"}


def test_a_lock_of_unknown_holder_is_abandoned_and_a_long_run_stays_valid() -> None:
    bench = Bench("lock", 1, bug=False, seconds=300)
    assert bench.run().valid is True
    ended = [op for op in bench.ops if op.type != "invoke"]
    unknown = [op for op in ended if op.type == "info"]
    assert len(unknown) > 50
    locks = [op.key for op in bench.ops if op.type == "invoke"]
    assert locks == sorted(locks), "one lock after the other"
    assert locks[-1] > 20
    late = [op for op in ended[len(ended) * 3 // 4 :] if op.f == "acquire"]
    assert sum(op.type == "ok" for op in late) > len(late) / 10


def test_two_holders_of_one_lock_are_found_and_holders_of_two_locks_are_not() -> None:
    judge = parse(by_model("lock", owned=True))
    for second, valid in ((1, False), (2, True)):
        acquired = [
            Op(index=i, process=i // 2, type=OK if i % 2 else INVOKE, f="acquire", key=key, time=i)
            for i, key in enumerate((1, 1, second, second))
        ]
        assert judge(RunData.from_memory(acquired, [], [], [], {})).valid is valid


@pytest.mark.parametrize("workload", ["txn", "append"])
def test_transactions_are_as_large_as_the_user_asks(workload: str) -> None:
    load = Load(10, 25.0, 60)
    bench = Bench(workload, 1, bug=False, seconds=4, load=load)
    assert bench.run().valid is True
    sizes = [len(op.value) for op in bench.ops if op.type == "invoke" and not op.final]
    assert 50 < max(sizes) <= 60
    assert min(sizes) < 10
    written = [v for op in bench.ops if op.type == "invoke" for f, _, v in op.value if f != "r"]
    assert len(written) == len(set(written)) > 500
    larger = Load(5, 25.0, 12)
    found = [Bench(workload, n, bug=True, seconds=12, load=larger).run().valid for n in range(5)]
    assert False in found


@pytest.mark.parametrize("workload", ["txn", "append"])
def test_transactions_are_small_unless_the_user_asks(workload: str) -> None:
    bench = Bench(workload, 1, bug=False, load=Load(20, 50.0))
    bench.run()
    assert {len(op.value) for op in bench.ops if not op.final} == {1, 2, 3, 4}


def test_all_verbs_together_are_those_of_the_page() -> None:
    assert {verb for each in GENERIC.values() for verb in each.verbs} == set(VERBS)


class OfVerbs:
    name = "mine"
    workloads = ("own",)

    def __init__(self, *verbs: str) -> None:
        self.verbs = verbs


def test_a_workload_of_one_system_comes_before_others_of_its_name() -> None:
    system: Any = OfVerbs("read", "write")
    mine: Any = object()
    system.own_workloads = {"register": mine, "leader": mine}
    assert workload_of(system, "register") is mine
    assert workload_of(system, "leader") is mine
    assert workload_of(OfVerbs("read", "write"), "register") == GENERIC["register"]  # type: ignore[arg-type]


def test_a_workload_whose_verbs_are_missing_is_refused_in_one_line() -> None:
    system: Any = OfVerbs("read", "write")
    assert workload_of(system, "register") == GENERIC["register"]
    with pytest.raises(OptionError) as refused:
        workload_of(system, "queue")
    assert str(refused.value) == (
        "the system mine cannot run the workload queue: it lacks enqueue, dequeue, drain"
    )


def test_a_systems_own_workload_wins_over_the_generic_one() -> None:
    own = workload_of(find("kraft"), "register")
    assert type(own).__module__.startswith("kraftwreck.systems.kraft")
    with pytest.raises(OptionError, match="cannot run the workload bank: it lacks transfer, read"):
        workload_of(find("kraft"), "bank")


class Counted(PlannedWorkload):
    name = "counted"
    checkers = ("stats",)

    def plan(self, seed: int, thread: int, count: int) -> Planned:
        return Planned("read", 0)

    def final(self, nodes: Sequence[str]) -> Sequence[Planned]:
        return []


class Verbal(Counted):
    name = "verbal"
    verbs = ("read", "write")


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the workloads ``counted`` and ``verbal`` of another package."""
    found = {each.name: each for each in (Counted(), Verbal())} | dict(registry.workloads())
    monkeypatch.setattr(registry, "installed", lambda: Plugins(found, {}))


@pytest.mark.usefixtures("outside")
def test_workload_of_another_package_runs_on_every_system_with_its_verbs() -> None:
    system: Any = OfVerbs("read", "write")
    assert isinstance(workload_of(system, "verbal"), Verbal)
    assert isinstance(simulated_workload("raft", "verbal"), Spoken)
    with pytest.raises(OptionError, match="cannot run the workload verbal: it lacks read, write"):
        workload_of(find("kraft"), "verbal")
    with pytest.raises(OptionError, match="kraft cannot run the workload verbal: it has no client"):
        simulated_workload("kraft", "verbal")


@pytest.mark.usefixtures("outside")
def test_workload_without_verbs_runs_on_systems_that_name_it() -> None:
    system: Any = OfVerbs("read")
    with pytest.raises(OptionError, match="`workloads`, or declare the workload's `verbs`"):
        workload_of(system, "counted")
    system.workloads = ("counted",)
    assert isinstance(workload_of(system, "counted"), Counted)


@pytest.mark.usefixtures("outside")
def test_seeds_choose_no_workload_of_another_package() -> None:
    campaign.drawn.cache_clear()
    assert {"counted", "verbal"} <= set(registry.workloads())
    assert campaign.drawn() == [
        "leader",
        "metadata",
        "partitions",
        "produce",
        "register",
        "requests",
    ]


def test_an_unknown_workload_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match="nosuch"):
        workload_of(find("kraft"), "nosuch")


def test_options_of_a_model_are_part_of_its_name() -> None:
    name = by_model("bank", total_amount=50, accounts=[0, 1])
    assert name == "model/bank:accounts=[0,1];total-amount=50"
    run = RunData.from_memory([], [], [], [], {})
    assert parse(name)(run).valid is True


@pytest.mark.parametrize("name", ["model/nosuch", "model/bank:nosuch=1", "model/bank:accounts=["])
def test_a_name_that_is_no_model_is_a_key_error(name: str) -> None:
    with pytest.raises(KeyError):
        parse(name)
