"""Small random histories by number: the same seed and number give the same history.

Clients work on a real object that is sometimes wrong, or get a wrong answer. Operations end ``ok``,
``fail`` (did not happen) or ``info`` (half of them happened), some are never answered.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kraftwreck.histories.operation import Op, OpType

Ask = Callable[[], tuple[str, Any]]
Do = Callable[[str, Any, bool, bool], tuple[bool, Any]]
"""``do(f, asked, happens, lie)`` returns whether it was possible, and the answer."""


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
    return _registers(rnd, rnd.choice([1, 1, 1, 2, 3]), rnd.randint(1, 14))


def one_register(seed: int, number: int, *, delete: bool = False) -> list[Op]:
    """Return a shorter history of one register; with ``delete`` it may be deleted."""
    rnd = random.Random(f"one register {delete} {seed} {number}")
    return _registers(rnd, 1, rnd.randint(1, 9), delete)


def _registers(rnd: random.Random, keys: int, calls: int, delete: bool = False) -> list[Op]:
    distinct = rnd.random() < 0.4
    values = rnd.choice([2, 3, 5])
    fresh = iter(range(1, 1000))
    state: dict[Any, Any] = {}
    written: list[Any] = [None]

    def value() -> Any:
        return next(fresh) if distinct else rnd.randrange(values)

    def ask() -> tuple[str, Any]:
        f = rnd.choice(["read", "read", "write", "cas", *["delete"] * delete])
        if f in ("read", "delete"):
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

    return run(rnd, ask, do, calls=calls, clients=rnd.randint(1, 5), keys=keys)


def transactions(seed: int, number: int, lists: bool, *, final: bool = False) -> list[Op]:
    """Return a history of transactions over two keys; ``final``: lists are read at the end."""
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
        fails = rnd.random() < 0.06
        if fails and not lie:
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
        return not fails, seen

    ops = run(rnd, ask, do, calls=rnd.randint(1, 6), clients=rnd.randint(1, 4))
    if lists and (final or rnd.random() < 0.8):
        asked = [["r", key, None] for key in "xy"]
        found = [["r", key, states[key][-1]] for key in "xy"]
        rows: list[tuple[OpType, Any]] = [("invoke", asked), ("ok", found)]
        for kind, value in rows:
            at = len(ops)
            ops.append(Op(index=at, process=999, type=kind, f="txn", value=value, time=at))
    return ops


def machine(model: str, seed: int, number: int) -> list[Op]:
    """Return a history of a lock, queue, set, counter, several registers or a log."""
    rnd = random.Random(f"{model} {seed} {number}")
    make = _MACHINES[model]
    ask, do = make(rnd)
    return run(rnd, ask, do, calls=rnd.randint(1, 8), clients=rnd.randint(1, 4))


def _lock(rnd: random.Random) -> tuple[Ask, Do]:
    held = [False]

    def do(f: str, asked: Any, happens: bool, lie: bool) -> tuple[bool, Any]:
        if held[0] is (f == "acquire") and not lie:
            return False, None
        held[0] = f == "acquire" if happens else held[0]
        return True, None

    return lambda: (rnd.choice(["acquire", "release"]), None), do


def _queue(rnd: random.Random, always: bool = False) -> tuple[Ask, Do]:
    held: list[Any] = []
    number = iter(range(1000))
    distinct, fifo = always or rnd.random() < 0.5, rnd.random() < 0.7

    def ask() -> tuple[str, Any]:
        if rnd.random() < 0.5:
            return "dequeue", None
        value = next(number)
        return "enqueue", value if distinct else value % 2

    def do(f: str, asked: Any, happens: bool, lie: bool) -> tuple[bool, Any]:
        if f == "enqueue":
            held.extend([asked[1]] * happens)
            return True, asked[1]
        if lie:
            return True, rnd.choice([None, *held, 0, 1])
        if not held:
            return True, None
        at = 0 if fifo else rnd.randrange(len(held))
        return True, held.pop(at) if happens else held[at]

    return ask, do


def _set(rnd: random.Random) -> tuple[Ask, Do]:
    held: set[int] = set()
    verbs = rnd.choice([["add", "remove", "contains"], ["add", "remove", "contains", "read"]])

    def ask() -> tuple[str, Any]:
        f = rnd.choice(verbs)
        return f, None if f == "read" else rnd.randrange(2)

    def do(f: str, asked: Any, happens: bool, lie: bool) -> tuple[bool, Any]:
        value = asked[1]
        if f == "read":
            seen = held ^ {rnd.randrange(2)} if lie else held
            return True, sorted(seen)
        if f == "contains":
            return True, (value in held) != lie
        if happens:
            (held.add if f == "add" else held.discard)(value)
        return True, value

    return ask, do


def _counter(rnd: random.Random) -> tuple[Ask, Do]:
    held = [0]

    def ask() -> tuple[str, Any]:
        return ("read", None) if rnd.random() < 0.5 else ("add", rnd.choice([1, 2, -1]))

    def do(f: str, asked: Any, happens: bool, lie: bool) -> tuple[bool, Any]:
        if f == "add":
            held[0] += asked[1] * happens
        return True, held[0] + lie if f == "read" else asked[1]

    return ask, do


def _several(rnd: random.Random) -> tuple[Ask, Do]:
    held: dict[str, Any] = {"x": 0, "y": 0}

    def ask() -> tuple[str, Any]:
        moves = [rnd.choice(["read", "write"]) for _ in range(rnd.randint(1, 2))]
        return "txn", [
            [f, rnd.choice("xy"), rnd.randrange(3) if f == "write" else None] for f in moves
        ]

    def do(f: str, asked: Any, happens: bool, lie: bool) -> tuple[bool, Any]:
        view = dict(held)
        seen = []
        for verb, key, value in asked[1]:
            if verb == "write":
                view[key] = value
            seen.append([verb, key, rnd.randrange(3) if lie and verb == "read" else view[key]])
        if happens:
            held.update(view)
        return True, seen

    return ask, do


def _log(rnd: random.Random) -> tuple[Ask, Do]:
    """Whole reads, or fetches and sizes; appends may return their offset."""
    held: list[tuple[int, int]] = []
    number = iter(range(1000))
    whole = rnd.random() < 0.4
    tells, distinct = rnd.random(), rnd.random() < 0.7
    looks = ["read"] if whole else ["fetch", "fetch", "size"]

    def ask() -> tuple[str, Any]:
        if rnd.random() < 0.5:
            value = next(number)
            return "append", value if distinct else value % 2
        return rnd.choice(looks), None

    def do(f: str, asked: Any, happens: bool, lie: bool) -> tuple[bool, Any]:
        end = held[-1][0] + 1 if held else 0
        if f == "append":
            at = end + (not whole and rnd.random() < 0.2)
            if happens:
                held.append((at, asked[1]))
            if lie:
                at = max(0, at + rnd.choice([-1, 1]))
            return True, [at, asked[1]] if rnd.random() < tells else asked[1]
        if f == "read":
            seen = [value for _, value in held]
            return True, seen[: rnd.randint(0, len(seen))] if lie else seen
        if f == "size":
            return True, max(0, end - lie)
        points: list[Any] = [list(item) for item in held if rnd.random() < 0.6]
        if rnd.random() < 0.5 or not points:
            points.append([end, None])
        if lie:
            points[0][0] = max(0, points[0][0] - 1)
        return True, points

    return ask, do


def _points(rnd: random.Random) -> tuple[Ask, Do]:
    """Appends that return their offset, and fetches of one: both fit columns of numbers."""
    held: list[tuple[int, int]] = []
    number = iter(range(-1, 1000))
    mute, distinct = rnd.choice([0.0, 0.0, 0.2]), rnd.random() < 0.7

    def ask() -> tuple[str, Any]:
        if rnd.random() < 0.5:
            value = next(number)
            return "append", value if distinct else value % 2
        return "fetch", None

    def do(f: str, asked: Any, happens: bool, lie: bool) -> tuple[bool, Any]:
        end = held[-1][0] + 1 if held else 0
        if f == "append":
            at = end + (rnd.random() < 0.2)
            if happens:
                held.append((at, asked[1]))
            if lie:
                at = max(0, at + rnd.choice([-1, 1]))
            return True, asked[1] if rnd.random() < mute else [at, asked[1]]
        point: list[Any] = list(rnd.choice(held)) if held and rnd.random() < 0.8 else [end, None]
        if lie:
            point[rnd.randrange(2)] = rnd.randrange(3)
        return True, [point]

    return ask, do


def _strings(rnd: random.Random, always: bool = False) -> tuple[Ask, Do]:
    held = [""]
    number = iter(range(1000))
    distinct = always or rnd.random() < 0.5
    puts = rnd.choice([0.0, 0.3, 0.6])

    def ask() -> tuple[str, Any]:
        if rnd.random() < 0.5:
            return "get", None
        value = f"{next(number)};" if distinct else rnd.choice(["a", "ab", "b", ""])
        return "put" if rnd.random() < puts else "append", value

    def do(f: str, asked: Any, happens: bool, lie: bool) -> tuple[bool, Any]:
        if f == "get":
            seen = held[-1]
            if lie:
                seen = rnd.choice([*held, seen[:-1], seen[1:], "0;1;", "ab"])
            return True, seen
        if happens:
            held.append(asked[1] if f == "put" else held[-1] + asked[1])
        return True, asked[1]

    return ask, do


_MACHINES: dict[str, Callable[[random.Random], tuple[Ask, Do]]] = {
    "lock": _lock,
    "owned-lock": _lock,
    "fifo-queue": _queue,
    "distinct-queue": lambda rnd: _queue(rnd, True),
    "unordered-queue": _queue,
    "linearizable-set": _set,
    "linearizable-counter": _counter,
    "key-value": _strings,
    "distinct-strings": lambda rnd: _strings(rnd, True),
    "multi-register": _several,
    "log": _log,
    "log of points": _points,
}
