"""Deciding by sorting agrees with the search and with brute force, and shows its reasons."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest

from kraftwreck.checkers.calls import Call, pair
from kraftwreck.checkers.linearizability.decide import check as search
from kraftwreck.checkers.linearizability.models import Model, Register, after, allowed
from kraftwreck.checkers.linearizability.witness import verify
from kraftwreck.checkers.linearizability.zones import decide as deciding
from kraftwreck.checkers.linearizability.zones.registers import Decision, decide
from kraftwreck.histories.operation import Op
from kraftwreck.histories.tables import HISTORY_SCHEMA, to_table
from tests.checkers.rows import did, history

CAS = Register("cas-register")


def random_history(rnd: random.Random, clients: int, calls: int, *, keys: int = 1) -> list[Op]:
    """Clients of real registers; now and then an answer is a lie."""
    ops: list[Op] = []
    state: list[Any] = [None] * keys
    fresh = iter(range(1, 1000))
    written: list[Any] = [None]
    processes = list(range(clients))
    open_calls: dict[int, tuple[str, Any, int]] = {}
    left = calls
    lies = rnd.choice([0.0, 0.1, 0.4])
    unsure = rnd.choice([0.0, 0.2, 0.5])
    while left or open_calls:
        thread = rnd.randrange(clients)
        process = processes[thread]
        if process not in open_calls:
            if not left:
                if rnd.random() < 0.3:
                    break
                continue
            left -= 1
            key = rnd.randrange(keys)
            f = rnd.choice(["read", "read", "write", "cas"])
            value: Any = None
            if f == "write":
                value = next(fresh)
            elif f == "cas":
                value = [rnd.choice([state[key], *written[-3:]]), next(fresh)]
            open_calls[process] = (f, value, key)
            kind = "invoke"
        else:
            f, value, key = open_calls.pop(process)
            kind = "ok"
            if rnd.random() < unsure:
                kind = "info"
                processes[thread] += clients
            happened = kind == "ok" or rnd.random() < 0.5
            if f == "read":
                value = rnd.choice(written) if rnd.random() < lies else state[key]
                value = value if kind == "ok" else None
            elif f == "write":
                written.append(value)
                state[key] = value if happened else state[key]
            else:
                written.append(value[1])
                if state[key] == value[0] or rnd.random() < lies:
                    state[key] = value[1] if happened else state[key]
                elif kind == "ok":
                    kind = "fail"
        ops.append(
            Op(
                index=len(ops) * 3,
                process=process,
                type=kind,  # type: ignore[arg-type]  # one of the four
                f=f,
                key=None if keys == 1 else f"k{key}",
                value=value,
                time=len(ops),
            )
        )
    return ops


def decided(ops: list[Op], **options: Any) -> Decision:
    return decide(to_table(ops, HISTORY_SCHEMA), CAS, **options)


def brute_force(model: Model, calls: list[Call]) -> bool:
    """Try every order of every choice of the indeterminate calls."""
    possible = [c for c in calls if c.type != "fail" and not (c.f == "read" and c.type != "ok")]
    sure = {c.start for c in possible if c.type == "ok"}
    return any(
        sure <= {call.start for call in order} and _legal(model, order)
        for size in range(len(sure), len(possible) + 1)
        for order in permutations(possible, size)
    )


def _legal(model: Model, order: tuple[Call, ...]) -> bool:
    state = model.initial
    latest = -1
    for call in order:
        latest = max(latest, call.start)
        action = model.action(call)
        if call.end < latest or action is None or not allowed(state, action):
            return False
        state = after(state, action)
    return True


def histories(count: int, **shape: Any) -> Iterator[list[Op]]:
    rnd = random.Random(20260731)
    for _ in range(count):
        yield random_history(
            rnd, rnd.randint(1, 4), rnd.randint(1, shape["calls"]), keys=shape.get("keys", 1)
        )


def test_it_agrees_with_the_search_and_proves_accepted_histories() -> None:
    seen = {True: 0, False: 0}
    for ops in histories(1500, calls=9):
        calls = pair(ops)
        expected = search(CAS, calls).valid
        decision = decided(ops)
        found = all(verdict.outcome.valid for verdict in decision.verdicts)
        assert found is expected, ops
        assert decision.sorted_keys == decision.keys
        seen[found] += 1
        if found:
            assert verify(CAS, calls, decision.order()) is None
        else:
            check_explanation(calls, decision)
    assert min(seen.values()) > 100


def check_explanation(calls: list[Call], decision: Decision) -> None:
    """The window cannot be ordered, and before the stuck call's end an order exists."""
    (verdict,) = decision.verdicts
    outcome = verdict.outcome
    assert outcome.stuck is not None
    assert outcome.why
    moment = outcome.stuck.completion
    before = [cut(call, moment - 1) for call in calls if call.start < moment]
    assert search(CAS, before).valid is True
    until = [cut(call, moment) for call in calls if call.start <= moment]
    assert search(CAS, until).valid is False
    if outcome.placed is not None and outcome.placed <= 64:
        assert verify(CAS, before, outcome.order) is None


def cut(call: Call, moment: int) -> Call:
    """Return what was known of a call at a moment."""
    if call.completion <= moment:
        return call
    import msgspec

    return msgspec.structs.replace(call, type="info", end=1 << 62, completion=-1, value=None)


def test_it_agrees_with_brute_force() -> None:
    for ops in histories(200, calls=5):
        decision = decided(ops)
        found = all(verdict.outcome.valid for verdict in decision.verdicts)
        assert found is brute_force(CAS, pair(ops)), ops


def test_keys_are_decided_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    for direct in (1 << 24, 0):
        monkeypatch.setattr(deciding, "_DIRECT", direct)
        for ops in histories(100, calls=24, keys=3):
            calls = pair(ops)
            decision = decided(ops)
            wrong = {v.key for v in decision.verdicts if v.outcome.valid is False}
            groups = {f'"{key}"' for key in {call.key for call in calls}}
            expected = {
                key
                for key in groups
                if search(CAS, [c for c in calls if f'"{c.key}"' == key]).valid is False
            }
            assert wrong == expected
            good = set(decision.order())
            for key in groups - wrong:
                mine = [c for c in calls if f'"{c.key}"' == key]
                order = [start for start in decision.order() if start in {c.start for c in mine}]
                assert verify(CAS, mine, order) is None
            assert good <= {call.start for call in calls}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (did(0, "read", 7), "read → 7 (process 0, operation 0–1) cannot be explained: no call"),
        ([*did(0, "read", 7), *did(1, "write", 7)], "no call ever wrote the value it needs"),
        (
            [*did(0, "write", 1), *did(0, "cas", [1, 2]), *did(0, "cas", [1, 3])],
            "both replaced the same value",
        ),
        ([*did(0, "cas", [1, 2]), *did(0, "cas", [2, 1])], "no call ever wrote the value it needs"),
        (
            [*did(0, "write", 1), *did(0, "write", 2), *did(1, "read", 1)],
            "write 1 (process 0, operation 0–1) ended before write 2 (process 0, operation 2–3) "
            "began, so 1 comes first; write 2 (process 0, operation 2–3) ended before read → 1",
        ),
        (
            [*did(0, "write", 1), (1, "invoke", "cas", [1, 2]), *did(0, "read", 2),
             *did(0, "read", 1), (1, "ok", "cas", [1, 2])],
            "but comes after it in the chain of compare-and-sets",
        ),
    ],
)  # fmt: skip
def test_the_reason_names_the_operations(rows: list[tuple[int, str, str, Any]], said: str) -> None:
    (verdict,) = decided(history(rows)).verdicts
    assert verdict.outcome.valid is False
    assert said in (verdict.outcome.why or "")


def test_the_window_is_small() -> None:
    rows = [row for value in range(1, 400) for row in did(0, "write", value)]
    rows += did(1, "read", 390)
    (verdict,) = decided(history(rows)).verdicts
    assert len(verdict.outcome.window) <= 6
    assert verdict.outcome.placed == 399
    assert verdict.outcome.stuck is not None
    assert verdict.outcome.stuck.value == 390


@pytest.mark.parametrize(
    ("rows", "initial", "valid"),
    [
        (did(0, "read", 0), 0, True),
        (did(0, "read", None), 0, True),
        (did(0, "read", None), None, True),
        (did(0, "read", 1), 0, False),
        (did(0, "cas", [0, 1]), 0, True),
        (did(0, "cas", [None, 1]), 0, False),
        ([*did(0, "write", 1), *did(1, "read", 0)], 0, False),
    ],
)
def test_the_initial_value(
    rows: list[tuple[int, str, str, Any]], initial: Any, valid: bool
) -> None:
    decision = decided(history(rows), initial=initial)
    assert all(v.outcome.valid for v in decision.verdicts) is valid


def test_values_of_any_kind_are_distinguished() -> None:
    rows = [*did(0, "write", "1"), *did(0, "write", [1, {"a": 2}]), *did(0, "write", True)]
    assert decided(history([*rows, *did(1, "read", True)])).verdicts == []
    for wrong in ("true", 1, [1, {"a": 2}]):
        assert decided(history([*rows, *did(1, "read", wrong)])).verdicts != []


def test_a_value_written_twice_is_left_to_the_search() -> None:
    rows = [*did(0, "write", 1), *did(0, "write", 2), *did(0, "write", 1), *did(1, "read", 1)]
    decision = decided(history(rows))
    assert (decision.sorted_keys, [v.outcome.valid for v in decision.verdicts]) == (0, [True])
    # Twice, but the second may not have happened and nobody needs it.
    rows = [*did(0, "write", 1), (5, "invoke", "write", 9), (6, "invoke", "write", 9)]
    assert decided(history(rows)).sorted_keys == 1
