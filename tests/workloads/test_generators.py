"""Every combinator, in a simulation without a system. Modelled on jepsen.generator-test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.generator import Context, Generator, Planned
from kraftwreck.histories.operation import OK
from kraftwreck.workloads.generators import (
    Cycle,
    Delay,
    EachThread,
    Filter,
    Limit,
    Map,
    OnThreads,
    Plans,
    Repeat,
    Sleep,
    Stagger,
    Synchronize,
    TimeLimit,
    UntilOk,
    any_of,
    mix,
    once,
    phases,
    reserve,
    then,
)
from kraftwreck.workloads.independent import ConcurrentKeys, SequentialKeys
from tests.workloads.conftest import crashing, imperfect

A, B, C = once("a"), once("b"), once("c")
ENDLESS = Plans(lambda seed, thread, count: Planned("w", value=count))
FOREVER = Repeat(A)


def fs(lines: list[Any]) -> str:
    return "".join(line[3] for line in lines)


def times(lines: list[Any]) -> list[int]:
    return [line[0] for line in lines]


def by_thread(lines: list[Any]) -> dict[int, str]:
    return {
        t: "".join(line[3] for line in lines if line[1] == t) for t in sorted({x[1] for x in lines})
    }


@pytest.mark.parametrize(
    ("generator", "expected"),
    [
        (A, "a"),
        (then(A, B, C), "abc"),
        (then(), ""),
        (then(then(A, B), then(), C), "abc"),
        (phases(then(A, A, A), B), "aaab"),
        (Limit(FOREVER, 3), "aaa"),
        (Limit(A, 3), "a"),
        (Limit(FOREVER, 0), ""),
        (then(Limit(FOREVER, 2), B), "aab"),
        (Repeat(then(A, B), 3), "aaa"),
        (Cycle(then(A, B), 2), "abab"),
        (Limit(Cycle(then(A, B)), 5), "ababa"),
        (Filter(Cycle(then(A, B, C), 2), lambda planned: planned.f != "b"), "acac"),
        (Filter(then(A, B), lambda planned: False), ""),
        (Map(then(A, B), lambda planned: Planned(planned.f * 2)), "aabb"),
        (then(A, Synchronize(B)), "ab"),
        (Synchronize(then(A, B)), "ab"),
    ],
)
def test_the_operations_in_their_order(rehearse: Any, generator: Generator, expected: str) -> None:
    assert fs(rehearse(generator).run()) == expected


def test_threads_that_are_free_invoke_at_once(rehearse: Any) -> None:
    lines = rehearse(Limit(FOREVER, 5), threads=2).run()
    assert times(lines) == [0, 0, 10, 10, 20]
    assert {line[1] for line in lines} == {0, 1}


def test_phases_wait_for_all_threads_but_then_does_not(rehearse: Any) -> None:
    assert times(rehearse(then(A, B)).run()) == [0, 0]
    assert times(rehearse(phases(A, B)).run()) == [0, 10]
    assert times(rehearse(phases(Limit(FOREVER, 3), B), threads=2).run()) == [0, 0, 10, 20]


def test_a_delay_is_kept_exactly_and_counts_from_the_operation_before(rehearse: Any) -> None:
    assert times(rehearse(Delay(Limit(FOREVER, 4), 3e-9)).run()) == [0, 3, 10, 13]
    assert times(rehearse(Delay(Limit(FOREVER, 3), 25e-9)).run()) == [0, 25, 50]


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_staggered_operations_keep_their_rate(rehearse: Any, seed: int) -> None:
    lines = rehearse(Stagger(FOREVER, 0.001), threads=3, seed=seed).run(most=2000)
    assert lines[-1][0] / len(lines) == pytest.approx(1_000_000, rel=0.1)
    assert times(lines) == sorted(times(lines))


def test_time_is_limited_from_the_first_request_on(rehearse: Any) -> None:
    limited = TimeLimit(Delay(FOREVER, 10e-9), 35e-9)
    assert times(rehearse(limited, threads=5).run()) == [0, 10, 20, 30]
    again = then(Sleep(100e-9), limited)
    assert times(rehearse(again, threads=5).run()) == [100, 110, 120, 130]


def test_sleep_is_no_operation(rehearse: Any) -> None:
    assert times(rehearse(then(A, Sleep(50e-9), B)).run()) == [0, 50]


def test_until_ok_ends_with_the_first_success(rehearse: Any) -> None:
    again = UntilOk(FOREVER)
    assert (
        fs(rehearse(then(again, B), threads=1, ending=lambda n: OK if n == 2 else "fail").run())
        == "aaab"
    )
    assert fs(rehearse(then(again, B), threads=1).run()) == "ab"
    assert len(rehearse(again, threads=1, ending=crashing).run(most=20)) == 20


def test_crashed_processes_are_replaced_and_threads_go_on(rehearse: Any) -> None:
    run = rehearse(Limit(FOREVER, 6), threads=2, ending=crashing)
    assert len(run.run()) == 6
    assert sorted({op.process for op in run.events}) == [0, 1, 2, 3, 4, 5]


def test_imperfect_endings_change_no_plan(rehearse: Any) -> None:
    plain = rehearse(EachThread(Limit(ENDLESS, 9)), threads=2).run()
    rough = rehearse(EachThread(Limit(ENDLESS, 9)), threads=2, ending=imperfect).run()
    assert plain == rough


def test_each_thread_runs_the_whole_by_itself(rehearse: Any) -> None:
    lines = rehearse(EachThread(then(A, B)), threads=3).run()
    assert by_thread(lines) == {0: "ab", 1: "ab", 2: "ab"}
    assert times(lines) == [0, 0, 0, 10, 10, 10]
    after = rehearse(phases(EachThread(then(A, B)), C), threads=3).run()
    assert fs(after) == "aaabbbc"


def test_a_generator_can_be_kept_to_some_threads(rehearse: Any) -> None:
    lines = rehearse(OnThreads(Limit(FOREVER, 4), {1}.__contains__), threads=3).run()
    assert by_thread(lines) == {1: "aaaa"}


def test_reserved_threads_do_nothing_else(rehearse: Any) -> None:
    both = reserve((2, Limit(Repeat(A), 4)), (1, Limit(Repeat(B), 3)), rest=Limit(Repeat(C), 2))
    lines = by_thread(rehearse(both, threads=5).run())
    assert lines[0] + lines[1] == "aaaa"
    assert lines[2] == "bbb"
    assert lines.get(3, "") + lines.get(4, "") == "cc"


def test_any_takes_what_is_due_first(rehearse: Any) -> None:
    slow, fast = Delay(Limit(Repeat(A), 2), 40e-9), Delay(Limit(Repeat(B), 4), 15e-9)
    assert fs(rehearse(any_of(slow, fast), threads=3).run()) == "abbbab"


def test_a_mix_keeps_its_weights_and_ends_with_its_parts(rehearse: Any) -> None:
    lines = fs(rehearse(mix((3, Repeat(A)), (1, Repeat(B))), threads=1).run(most=4000))
    assert lines.count("a") / 4000 == pytest.approx(0.75, abs=0.03)
    rest = fs(rehearse(mix((1, Limit(Repeat(A), 2)), (9, Limit(Repeat(B), 3)))).run())
    assert sorted(rest) == list("aabbb")


def test_the_choices_of_a_mix_depend_on_the_position_only(rehearse: Any) -> None:
    mixed = EachThread(Limit(mix((1, Repeat(A)), (1, Repeat(B))), 20))
    few = by_thread(rehearse(mixed, threads=2).run(most=1000))
    many = by_thread(rehearse(mixed, threads=5, ending=imperfect).run(most=1000))
    assert few[0] == many[0]
    assert few[1] == many[1]
    assert few[0] != few[1]
    assert by_thread(rehearse(mixed, threads=2, seed=46).run(most=1000)) != few


def test_plans_count_each_thread_by_itself(rehearse: Any) -> None:
    plans = Plans(lambda seed, thread, count: Planned("w", value=(seed, thread, count)))
    lines = rehearse(plans, threads=3).run(most=60)
    for thread in range(3):
        values = [line[4] for line in lines if line[1] == thread]
        assert values == [(45, thread, count) for count in range(len(values))]


def test_keys_one_after_the_other(rehearse: Any) -> None:
    run = rehearse(SequentialKeys(["x", "y"], lambda key: then(A, B)))
    run.run()
    assert [(op.key, op.f) for op in run.events if op.type == "invoke"] == [
        ("x", "a"), ("x", "b"), ("y", "a"), ("y", "b"),
    ]  # fmt: skip


def test_keys_at_the_same_time_have_threads_of_their_own(rehearse: Any) -> None:
    run = rehearse(ConcurrentKeys(range(5), 2, lambda key: Limit(FOREVER, 6)), threads=5)
    run.run()
    begun = [op for op in run.events if op.type == "invoke"]
    assert {key: sum(op.key == key for op in begun) for key in range(5)} == dict.fromkeys(
        range(5), 6
    )
    for key in range(5):
        groups = {op.process // 2 for op in begun if op.key == key}
        assert len(groups) == 1
        assert groups <= {0, 1}
    assert {op.key for op in begun if op.time == 0} == {0, 1}


def test_until_ok_works_per_key(rehearse: Any) -> None:
    keys = ConcurrentKeys(range(3), 1, lambda key: UntilOk(Limit(FOREVER, 5)))
    assert len(rehearse(keys, threads=2).run()) == 3
    assert len(rehearse(keys, threads=2, ending=crashing).run()) == 15


def test_a_generator_is_a_value(rehearse: Any) -> None:
    """Asking twice gives the same answer, and nothing is remembered."""
    context = Context(time=5, seed=1, threads=(0, 1), free=(0, 1))
    for generator in (
        Stagger(mix((1, Repeat(A)), (2, Repeat(B))), 0.5),
        EachThread(TimeLimit(ENDLESS, 3.0)),
        ConcurrentKeys(range(4), 1, lambda key: Limit(FOREVER, 2)),
    ):
        first, second = generator.op(context), generator.op(context)
        assert first is not None
        assert second is not None
        assert first[0] == second[0]


def test_the_example_of_the_page_does_what_its_comments_say(rehearse: Any) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/workloads.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    assert len(example.splitlines()) <= 12
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102
    run = rehearse(names["generator"], threads=4)
    run.run(most=1000)
    begun = [op for op in run.events if op.type == "invoke"]
    assert {op.f for op in [*begun[:4], begun[-1]]} == {"read"}
    by_threads = {t: [op.f for op in begun[4:-1] if op.process == t] for t in range(4)}
    assert by_threads[0] + by_threads[1] == ["write"] * 20
    assert {len(by_threads[2]), len(by_threads[3])} == {10}
    assert "read" in by_threads[2] + by_threads[3]
