"""Histories of transactions, made from a seed.

    python -m bench.checkers.transactions FILE [--model M] [--count N] [--concurrency C]
        [--seed S] [--planted ANOMALY]

writes one as Parquet. Clients run transactions of 1 to 4 micro-operations, half of them reads,
against a store that does each at one moment between its invocation and its end. Without
``--planted`` the history is therefore strictly serializable. Ten keys are in use at a time, the
first twice as often as the second and so on, and a key is replaced after 32 writes (the shape of
Elle's own generator). 5 % of the transactions end indeterminate (half of them happened), 1 % fail.
A planted anomaly comes after nine tenths of the history and has two keys of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kraftwreck.histories.tables import HISTORY_SCHEMA
from kraftwreck.nodes.draw import draw

KEYS, WRITES_PER_KEY, MAX_LENGTH = 10, 32, 4
INFO, FAIL = 0.05, 0.01
_BATCH = 1 << 16
Event = tuple[int, int, str, str]
"""Time in ns, process, type, value as JSON."""
Planted = list[tuple[str, int, str]]

# "i" begins, "o" ends: (what, client, micro-operations); a: append or write, r: read.
PLANTED: dict[str, list[tuple[str, int, str]]] = {
    "G1c": [("i", 0, "ax1 ry1"), ("i", 1, "ay1 rx1"), ("o", 0, "ax1 ry1"), ("o", 1, "ay1 rx1")],
    "G-single-item": [
        ("i", 0, "ax1 ay1"), ("i", 1, "rx_ ry1"), ("o", 0, "ax1 ay1"), ("o", 1, "rx_ ry1"),
    ],
    "G2-item": [
        ("i", 0, "ry_ ax1"), ("i", 1, "rx_ ay1"), ("o", 0, "ry_ ax1"), ("o", 1, "rx_ ay1"),
    ],
    "lost-update": [
        ("i", 0, "ax1"), ("o", 0, "ax1"), ("i", 0, "rx1 ax2"), ("i", 1, "rx1 ax3"),
        ("o", 0, "rx1 ax2"), ("o", 1, "rx1 ax3"),
    ],
    "G-single-item-realtime": [
        ("i", 0, "ax1"), ("o", 0, "ax1"), ("i", 1, "rx_"), ("o", 1, "rx_"),
    ],
}  # fmt: skip


class _Choices:
    """Numbers in [0, 1) from a seed, in blocks."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(draw(seed, "transactions"))
        self._block: Iterator[float] = iter(())

    def unit(self) -> float:
        for number in self._block:
            return float(number)
        self._block = iter(self._generator.random(1 << 16).tolist())
        return self.unit()

    def below(self, bound: int) -> int:
        return int(self.unit() * bound)


class _Store:
    """The keys in use, and their values."""

    def __init__(self, lists: bool, choices: _Choices) -> None:
        self.lists = lists
        self.choices = choices
        self.active = list(range(KEYS))
        self.next_key = KEYS
        self.written = dict.fromkeys(self.active, 0)
        self.state: dict[int, list[int]] = {}

    def ask(self) -> list[tuple[bool, int, int]]:
        """Return a transaction: (is a write, key, value written)."""
        mops = []
        for _ in range(1 + self.choices.below(MAX_LENGTH)):
            # Key i with a chance of 1 / 2^(i+1), the last one with the rest.
            place = min(KEYS - 1, int(-np.log2(1 - self.choices.unit())))
            key = self.active[place]
            if self.choices.unit() < 0.5:
                mops.append((False, key, 0))
                continue
            self.written[key] += 1
            mops.append((True, key, self.written[key]))
            if self.written[key] == WRITES_PER_KEY:
                self.active[place] = self.next_key
                self.written[self.next_key] = 0
                self.next_key += 1
        return mops

    def run(self, mops: list[tuple[bool, int, int]]) -> str:
        """Execute a transaction and return its results, as JSON."""
        return "[" + ",".join(self._run_one(*mop) for mop in mops) + "]"

    def _run_one(self, write: bool, key: int, value: int) -> str:
        state = self.state.setdefault(key, [])
        if write:
            state.append(value)
            return f'["{self.verb}",{key},{value}]'
        if not state:
            return f'["r",{key},null]'
        shown = "[" + ",".join(map(str, state)) + "]" if self.lists else str(state[-1])
        return f'["r",{key},{shown}]'

    @property
    def verb(self) -> str:
        return "append" if self.lists else "w"

    def asked(self, mops: list[tuple[bool, int, int]]) -> str:
        """Return a transaction as it is invoked, as JSON."""
        words = (
            f'["{self.verb}",{key},{value}]' if write else f'["r",{key},null]'
            for write, key, value in mops
        )
        return f"[{','.join(words)}]"


def history(
    model: str, count: int, concurrency: int, seed: int, planted: str | None = None
) -> Iterator[Event]:
    """Yield the events of ``count`` transactions of a ``model``, in order."""
    choices = _Choices(seed)
    store = _Store(model == "list-append", choices)
    queue = [(choices.below(1_000_000), 0, client, -1) for client in range(concurrency)]
    heapq.heapify(queue)
    process = list(range(concurrency))
    running: dict[int, tuple[list[tuple[bool, int, int]], str]] = {}
    saw: dict[int, str] = {}
    begun, now = 0, 0
    while queue:
        due, what, client, number = heapq.heappop(queue)
        now = max(due, now + 1)
        if what == 0:
            if begun == count:
                continue
            if planted is not None and begun == count * 9 // 10:
                yield from _plant(planted, store, concurrency, now)
                planted = None
            fate = choices.unit()
            kind = "info" if fate < INFO else "fail" if fate < INFO + FAIL else "ok"
            mops = store.ask()
            length = 2000 + int(-np.log(1 - choices.unit()) * 1e6) * (4 if kind == "info" else 1)
            running[begun] = (mops, kind)
            yield now, process[client], "invoke", store.asked(mops)
            if kind == "ok" or (kind == "info" and choices.unit() < 0.5):
                heapq.heappush(queue, (now + 1 + choices.below(length - 2), 1, client, begun))
            heapq.heappush(queue, (now + length, 2, client, begun))
            begun += 1
        elif what == 1:
            saw[number] = store.run(running[number][0])
        else:
            mops, kind = running.pop(number)
            seen = saw.pop(number, "")
            yield now, process[client], kind, seen if kind == "ok" else store.asked(mops)
            if kind == "info":
                process[client] += concurrency
            heapq.heappush(queue, (now + 1 + choices.below(20_000), 0, client, -1))


def _plant(name: str, store: _Store, concurrency: int, now: int) -> Iterator[Event]:
    # Clients with numbers of their own.
    keys = {"x": 1_000_000_000, "y": 1_000_000_001}
    for what, client, text in PLANTED[name]:
        words = []
        for word in text.split():
            verb = store.verb if word[0] == "a" else "r"
            value = word[2:]
            if word[0] == "r" and (what == "i" or value == "_"):
                value = "null"
            elif word[0] == "r" and store.lists:
                value = f"[{value}]"
            words.append(f'["{verb}",{keys[word[1]]},{value}]')
        kind = "invoke" if what == "i" else "ok"
        yield now, 2_000_000_000 + client, kind, f"[{','.join(words)}]"


def write(path: Path, events: Iterator[Event]) -> int:
    """Write events as a history in Parquet; return their number."""
    total = 0
    rows: list[Event] = []
    with pq.ParquetWriter(path, HISTORY_SCHEMA, compression="zstd") as writer:

        def flush() -> int:
            writer.write_table(_table(rows, total))
            return total + len(rows)

        for event in events:
            rows.append(event)
            if len(rows) == _BATCH:
                total = flush()
                rows.clear()
        return flush()


def write_lines(path: Path, events: Iterator[Event]) -> None:
    """Write events as a history of JSON lines."""
    with path.open("w") as file:
        for index, (time, process, kind, value) in enumerate(events):
            file.write(
                f'{{"index":{index},"type":"{kind}","process":{process},"f":"txn",'
                f'"value":{value},"time":{time}}}\n'
            )


def _table(rows: list[Event], first: int) -> pa.Table:
    count = len(rows)
    columns = {
        "index": pa.array(range(first, first + count), pa.int64()),
        "process": pa.array([row[1] for row in rows], pa.int64()),
        "type": pa.array([row[2] for row in rows], pa.string()),
        "f": pa.array(["txn"] * count, pa.string()),
        "value": pa.array([row[3] for row in rows], pa.string()),
        "time": pa.array([row[0] for row in rows], pa.int64()),
        "final": pa.array([False] * count, pa.bool_()),
    }
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in HISTORY_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=HISTORY_SCHEMA)


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--model", type=click.Choice(["list-append", "rw-register"]), default="list-append")
@click.option("--count", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--concurrency", type=click.IntRange(1), default=20, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--planted", type=click.Choice(sorted(PLANTED)))
def main(
    path: Path, model: str, count: int, concurrency: int, seed: int, planted: str | None
) -> None:
    """Write a history of transactions to PATH as Parquet."""
    events = write(path, history(model, count, concurrency, seed, planted))
    click.echo(f"{path}: {events} events")


if __name__ == "__main__":
    main()
