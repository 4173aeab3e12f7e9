"""Small random histories by number: the same seed and number give the same history.

Clients work on a real object that is wrong now and then, or answer with a lie. Operations end
``ok``, ``fail`` (did not happen) or ``info`` (half of them happened), some are never answered.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from histories.operation import Op, OpType

Ask = Callable[[], tuple[str, Any]]
Do = Callable[[str, Any, bool, bool], tuple[bool, Any]]
"""``do(f, asked, happens, lie)`` returns whether it could be done, and the answer."""


def run(
    rnd: random.Random, ask: Ask, do: Do, *, calls: int, clients: int, keys: int = 1
) -> list[Op]:
    """Run closed-loop clients; each operation takes effect at its end, or at its begin."""
    ops: list[Op] = []
    waiting: dict[int, tuple[str, Any, Any, tuple[bool, Any] | None]] = {}
    processes = list(range(clients))
    lies = rnd.choice([0.0, 0.0, 0.1, 0.3])
    doubt = rnd.choice([0.0, 0.15, 0.4])
    left = calls

    def tell(process: int, kind: OpType, f: str, key: Any, value: Any) -> None:
        at = len(ops)
        ops.append(Op(index=at, process=process, type=kind, f=f, key=key, value=value, time=at))

    while left or waiting:
        thread = rnd.randrange(clients)
        process = processes[thread]
        if process not in waiting:
            if left:
                left -= 1
                f, asked = ask()
                key = None if keys == 1 else f"k{rnd.randrange(keys)}"
                early = None
                if rnd.random() < 0.4:
                    early = do(f, (key, asked), True, rnd.random() < lies)
                waiting[process] = (f, key, asked, early)
                tell(process, "invoke", f, key, asked)
            elif rnd.random() < 0.2:
                break
            continue
        f, key, asked, did = waiting.pop(process)
        kind: OpType = "info" if rnd.random() < doubt else "ok"
        if did is None:
            happens = kind == "ok" or rnd.random() < 0.5
            did = do(f, (key, asked), happens, rnd.random() < lies)
        done, answer = did
        if kind == "ok" and not done:
            kind = "fail"
        tell(process, kind, f, key, answer if kind == "ok" else asked)
        if kind == "info":
            processes[thread] += clients
    return ops


def registers(seed: int, number: int) -> list[Op]:
    """Return a history of one to three registers, with few values or distinct ones."""
    rnd = random.Random(f"register {seed} {number}")
    keys = rnd.choice([1, 1, 1, 2, 3])
    distinct = rnd.random() < 0.4
    values = rnd.choice([2, 3, 5])
    fresh = iter(range(1, 1000))
    state: dict[Any, Any] = {}
    written: list[Any] = [None]

    def value() -> Any:
        return next(fresh) if distinct else rnd.randrange(values)

    def ask() -> tuple[str, Any]:
        f = rnd.choice(["read", "read", "write", "cas"])
        if f == "read":
            return f, None
        if f == "write":
            return f, value()
        return f, [rnd.choice([*state.values(), None, written[-1]]), value()]

    def do(f: str, asked: Any, happens: bool, lie: bool) -> tuple[bool, Any]:
        key, wanted = asked
        held = state.get(key)
        if f == "read":
            return True, rnd.choice(written) if lie else held
        new = wanted
        if f == "cas":
            if held != wanted[0] and not lie:
                return False, wanted
            new = wanted[1]
        written.append(new)
        if happens:
            state[key] = new
        return True, wanted

    return run(rnd, ask, do, calls=rnd.randint(1, 14), clients=rnd.randint(1, 5), keys=keys)


def transactions(seed: int, number: int, lists: bool) -> list[Op]:
    """Return a history of transactions over two keys; lists are read at the end, mostly."""
    rnd = random.Random(f"transactions {lists} {seed} {number}")
    verb = "append" if lists else "w"
    fresh = iter(range(1, 1000))
    states: dict[str, list[Any]] = {"x": [None], "y": [None]}

    def ask() -> tuple[str, Any]:
        moves = []
        for _ in range(rnd.randint(1, 3)):
            key = rnd.choice("xy")
            moves.append(["r", key, None] if rnd.random() < 0.5 else [verb, key, next(fresh)])
        return "txn", moves

    def do(f: str, asked: Any, happens: bool, lie: bool) -> tuple[bool, Any]:
        if rnd.random() < 0.05:
            return False, None
        view = {key: rnd.choice(held) if lie else held[-1] for key, held in states.items()}
        seen = []
        for kind, key, value in asked[1]:
            if kind == "r":
                seen.append(["r", key, view[key]])
                continue
            seen.append([kind, key, value])
            view[key] = [*(view[key] or ()), value] if lists else value
            if happens:
                states[key].append([*(states[key][-1] or ()), value] if lists else value)
        return True, seen

    ops = run(rnd, ask, do, calls=rnd.randint(1, 6), clients=rnd.randint(1, 4))
    if lists and rnd.random() < 0.8:
        asked = [["r", key, None] for key in "xy"]
        found = [["r", key, states[key][-1]] for key in "xy"]
        for kind, value in (("invoke", asked), ("ok", found)):
            at = len(ops)
            ops.append(
                Op(index=at, process=999, type=kind, f="txn", value=value, time=at)  # type: ignore[arg-type]
            )
    return ops
