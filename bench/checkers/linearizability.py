"""How fast histories of registers are judged by our search.

    python -m bench.checkers.linearizability [ROUNDS]

Median CPU seconds of several rounds, one thread, one process; generating and pairing the
history is not counted. Histories are made by running clients against one atomic register
per key: half reads, a quarter writes, a quarter compare-and-set on five values (``small``),
or half reads and half writes of values that are never used twice (``distinct``); 5 % of the
operations end indeterminate. ``stale`` plants one read of a value that was overwritten.
Results: bench/results/linearizability.md.
A verdict that needs more than the limit is shown as such: it is ``unknown`` to the checker.
"""

from __future__ import annotations

import heapq
import platform
import statistics
import sys
import time
from typing import Any

from checkers.calls import OPEN, Call, by_key
from checkers.linearizability import check
from checkers.models import MODELS
from histories.verdict import Validity
from nodes.draw import draw_below, draw_unit

LIMIT_S = 10.0
INFO = 0.05
SETTINGS = [
    (family, count, keys, concurrency, planted)
    for family in ("distinct", "small")
    for count in (1_000, 10_000)
    for keys, concurrency in ((1, 5), (1, 10), (100, 10))
    for planted in ("valid", "stale")
    # Values that come again make most stale reads legal; few operations per key have none.
    if planted == "valid" or (family == "distinct" and count // keys >= 50)
]


def history(family: str, count: int, keys: int, concurrency: int, seed: int) -> list[Call]:
    """Simulate ``concurrency`` closed-loop clients; return their calls by invocation."""
    registers: list[Any] = [None] * keys
    calls: list[Call] = []
    taken: list[bool] = []
    events = [(draw_below(1000, seed, "start", c), "invoke", c, -1) for c in range(concurrency)]
    heapq.heapify(events)
    processes = list(range(concurrency))
    index = 0
    while events:
        now, what, client, number = heapq.heappop(events)
        if what == "invoke":
            if len(calls) == count:
                continue
            number = len(calls)
            calls.append(_call(family, keys, seed, number, processes[client], index, now))
            taken.append(True)
            index += 1
            length = 2000 + draw_below(1_000_000, seed, "length", number)
            at = now + 1 + draw_below(length - 1, seed, "point", number)
            heapq.heappush(events, (at, "effect", client, number))
            heapq.heappush(events, (now + length, "return", client, number))
        elif what == "effect":
            _take_effect(calls, taken, registers, number, seed)
        else:
            call = calls[number]
            call.completion, call.completed = index, now
            if draw_unit(seed, "info", number) < INFO:
                call.type, processes[client] = "info", processes[client] + concurrency
            else:
                call.type, call.end = ("ok" if taken[number] else "fail"), index
            index += 1
            heapq.heappush(events, (now + 1, "invoke", client, -1))
    return calls


def _call(
    family: str, keys: int, seed: int, number: int, process: int, index: int, now: int
) -> Call:
    kind = draw_unit(seed, "kind", number)
    argument: Any = None
    f = "read"
    if kind >= 0.5:
        f = "cas" if family == "small" and kind >= 0.75 else "write"
        old, new = (draw_below(5, seed, part, number) for part in ("old", "new"))
        argument = [old, new] if f == "cas" else new if family == "small" else number
    key = draw_below(keys, seed, "key", number)
    return Call(
        f=f, key=key, process=process, type="info", argument=argument, value=None, start=index,
        end=OPEN, completion=-1, invoked=now, completed=None, node=None, error=None, final=False,
    )  # fmt: skip


def _take_effect(
    calls: list[Call], taken: list[bool], registers: list[Any], number: int, seed: int
) -> None:
    call = calls[number]
    if draw_unit(seed, "info", number) < INFO and draw_below(2, seed, "lost", number):
        return
    if call.f == "read":
        call.value = registers[call.key]
    elif call.f == "write":
        registers[call.key] = call.argument
    elif registers[call.key] == call.argument[0]:
        registers[call.key] = call.argument[1]
    else:
        taken[number] = False


def plant_stale_read(calls: list[Call]) -> None:
    """Let a late read see what a completed write had replaced before the read began."""
    for read in calls[len(calls) * 9 // 10 :]:
        if read.f != "read" or read.type != "ok" or read.value is None:
            continue
        older = [
            c for c in calls
            if c.key == read.key and c.f == "write" and c.type == "ok" and c.end < read.start
        ]  # fmt: skip
        if len(older) >= 2 and older[0].argument != read.value:
            read.value = older[0].argument
            return
    raise AssertionError("no read to make stale")


def measure(calls: list[Call], rounds: int) -> tuple[set[Validity], float, int]:
    """Return the verdicts of all keys, the median CPU seconds, and the configurations."""
    groups = by_key(calls)
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        outcomes = [check(MODELS["cas-register"], g, time_limit_s=LIMIT_S) for g in groups.values()]
        times.append(time.process_time() - begin)
    return (
        {outcome.valid for outcome in outcomes},
        statistics.median(times),
        sum(outcome.steps for outcome in outcomes),
    )


def main() -> None:
    """Print one line per setting."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"Python {platform.python_version()}, {rounds} rounds, limit {LIMIT_S:g} s")
    print("| family | operations | keys | clients | history | verdict | CPU s | configurations |")
    print("|---|---|---|---|---|---|---|---|")
    for family, count, keys, concurrency, planted in SETTINGS:
        calls = history(family, count, keys, concurrency, seed=1)
        if planted == "stale":
            plant_stale_read(calls)
        verdicts, seconds, steps = measure(calls, rounds)
        word = "invalid" if False in verdicts else "unknown" if "unknown" in verdicts else "valid"
        print(
            f"| {family} | {count} | {keys} | {concurrency} | {planted} | {word} "
            f"| {seconds:.3f} | {steps} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
