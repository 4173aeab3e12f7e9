"""Converts a list of operations, or a table of them, to columns.

A table's ``value`` column is JSON text, as :data:`histories.tables.HISTORY_SCHEMA` has it.
Where keys and values are whole numbers the text is parsed by array operations
(:mod:`checkers.elle.tokens`). Any other text is decoded row by row, and each distinct key
and value is numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftwreck.checkers.elle.orders import Pairs, number_keys
from kraftwreck.checkers.elle.tokens import tokens_of
from kraftwreck.checkers.elle.transactions import (
    INVOKE,
    KINDS,
    LIST,
    NULL,
    READ,
    SCALAR,
    WRITE,
    Events,
    Ints,
    MicroOps,
    RepeatedAppendError,
    TransactionError,
    Transactions,
    pair,
)
from kraftwreck.histories.operation import Op

WRITES = {"list-append": "append", "rw-register": "w"}
"""A model's name of writes; reads are ``r``."""


def read_transactions(history: Sequence[Op] | pa.Table, model: str) -> Transactions:
    """Return the transactions of ``history`` for ``list-append`` or ``rw-register``.

    Raises :class:`TransactionError` naming the operation that is not a transaction of the
    model.
    """
    if isinstance(history, pa.Table):
        return _from_table(history, model)
    events = Events(
        index=np.array([op.index for op in history], dtype=np.int64),
        process=np.array([op.process for op in history], dtype=np.int64),
        time=np.array([op.time for op in history], dtype=np.int64),
        kind=np.array([KINDS.index(op.type) for op in history], dtype=np.int64),
        show=lambda at: (history[at].f, history[at].value),
    )
    numbering = Numbering(model, lambda at: f"operation {history[at].index}")
    for at, op in enumerate(history):
        numbering.add(at, op.value)
    return _paired(events, numbering.mops(), numbering.names(), model)


def _paired(
    events: Events, mops: MicroOps, names: Sequence[Callable[[int], Any]], model: str
) -> Transactions:
    if model == "list-append":
        asked = np.flatnonzero((mops.f == WRITE) & (events.kind == INVOKE)[mops.event])
        key, value = number_keys(mops.key[asked])[1], mops.elements[mops.start[asked]]
        repeated = Pairs(key, value).repeated()
        if repeated is not None:
            at = int(asked[repeated])
            (shown,) = mops.list_of(at)
            raise RepeatedAppendError(
                f"operation {events.index[mops.event[at]]} appends {names[1](shown)!r} to key "
                f"{names[0](int(mops.key[at]))!r}, as another did before: appended values must "
                "be unique"
            )
    return pair(events, mops, names)


def _from_table(table: pa.Table, model: str) -> Transactions:
    table = table.select(["index", "process", "type", "f", "value", "time"])
    index = _numbers(table, "index")
    if bool((np.diff(index) < 0).any()):
        table = table.take(pa.array(np.argsort(index, kind="stable")))
        index = _numbers(table, "index")
    kind = _kinds(table.column("type"), index)
    f, value = table.column("f"), table.column("value")

    def show(at: int) -> tuple[Any, Any]:
        text = value[at].as_py()
        return f[at].as_py(), None if text is None else msgspec.json.decode(text)

    events = Events(
        index=index,
        process=_numbers(table, "process"),
        time=_numbers(table, "time"),
        kind=kind,
        show=show,
    )
    tokens = tokens_of(value, WRITES[model], model == "list-append")
    if tokens is not None:
        return _paired(events, tokens, [int, int], model)
    numbering = Numbering(model, lambda at: f"operation {events.index[at]}")
    at = 0
    for chunk in value.chunks:
        for text in chunk.to_pylist():
            try:
                numbering.add(at, None if text is None else msgspec.json.decode(text))
            except msgspec.DecodeError as error:
                raise TransactionError(f"operation {events.index[at]}: {error}") from error
            at += 1
    return _paired(events, numbering.mops(), numbering.names(), model)


def _numbers(table: pa.Table, name: str) -> Ints:
    column = table.column(name)
    if column.null_count:
        raise TransactionError(f"column {name} has rows without a number")
    return as_numbers(column)


def _kinds(column: pa.ChunkedArray, index: Ints) -> Ints:
    """Return the kinds of events. Raises :class:`TransactionError` for a word that is none."""
    parts = [np.zeros(0, dtype=np.int64)]
    for chunk in column.chunks:
        words = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        names = words.dictionary.to_pylist()
        codes = np.array([KINDS.index(n) if n in KINDS else -1 for n in names] or [-1])
        place = np.full(len(words), -1) if words.null_count else codes[as_numbers(words.indices)]
        bad = np.flatnonzero(place < 0)
        if len(bad):
            at = int(index[sum(map(len, parts)) + bad[0]])
            got = words[int(bad[0])].as_py()
            raise TransactionError(
                f"operation {at}: type must be one of {', '.join(KINDS)}, got {got!r}"
            )
        parts.append(place)
    return np.concatenate(parts)


def as_numbers(column: pa.ChunkedArray | pa.Array) -> Ints:
    """Return a column of numbers without nulls; ``to_numpy`` would import pandas for it."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [
        np.frombuffer(wide.buffers()[1], dtype=np.int64, count=len(wide), offset=8 * wide.offset)
        for wide in (pc.cast(chunk, pa.int64()) for chunk in chunks if len(chunk))
    ]
    if not parts:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate(parts)


class Numbering:
    """Micro-operations of any values, taken one transaction at a time."""

    def __init__(self, model: str, where: Callable[[int], str]) -> None:
        self._model = model
        self._write = WRITES[model]
        self._where = where
        self._keys: dict[Any, int] = {}
        self._values: dict[Any, int] = {}
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._elements: list[int] = []

    def add(self, at: int, value: Any) -> None:
        """Add the value of the event at position ``at``."""
        if value is None:
            return
        if not isinstance(value, list | tuple):
            raise self._error(at, f"a transaction is a list of micro-operations, got {value!r}")
        for mop in value:
            self._add_mop(at, mop)

    def _add_mop(self, at: int, mop: Any) -> None:
        if not isinstance(mop, list | tuple) or len(mop) not in (2, 3):
            raise self._error(at, f"a micro-operation is [f, key, value], got {mop!r}")
        f, key, value = mop if len(mop) == 3 else (*mop, None)
        if f not in ("r", self._write):
            raise self._error(at, f'{self._model} knows "r" and "{self._write}", got {f!r}')
        number = self._number(self._keys, key)
        code = READ if f == "r" else WRITE
        if value is None and (code == READ or self._model == "rw-register"):
            self._rows.append((at, code, number, NULL, 0))
        elif code == READ and self._model == "list-append":
            if not isinstance(value, list | tuple):
                raise self._error(at, f"a read of a list returns a list or null, got {value!r}")
            self._rows.append((at, code, number, LIST, len(value)))
            self._elements.extend(self._number(self._values, item) for item in value)
        else:
            self._rows.append((at, code, number, SCALAR, 1))
            self._elements.append(self._number(self._values, value))

    @staticmethod
    def _number(known: dict[Any, int], value: Any) -> int:
        # 1, 1.0 and true are equal in Python, but not in a history.
        name: tuple[type[Any], Any] = (type(value), value)
        if not isinstance(value, int | float | str):
            name = (type(value), msgspec.json.encode(value, order="deterministic"))
        return known.setdefault(name, len(known))

    def _error(self, at: int, what: str) -> TransactionError:
        return TransactionError(f"{self._where(at)}: {what}")

    def mops(self) -> MicroOps:
        """Return all micro-operations."""
        columns = np.array(self._rows, dtype=np.int64).reshape(-1, 5).T
        count = np.ascontiguousarray(columns[4])
        return MicroOps(
            event=np.ascontiguousarray(columns[0]),
            f=np.ascontiguousarray(columns[1]),
            key=np.ascontiguousarray(columns[2]),
            kind=np.ascontiguousarray(columns[3]),
            start=np.cumsum(count) - count,
            count=count,
            elements=np.array(self._elements, dtype=np.int64),
        )

    def names(self) -> list[Callable[[int], Any]]:
        """Return functions from the numbers of keys, and of values, to the originals."""
        return [_names(self._keys), _names(self._values)]


def _names(known: dict[Any, int]) -> Callable[[int], Any]:
    listed = [
        msgspec.json.decode(value) if isinstance(value, bytes) else value for _, value in known
    ]
    return lambda number: listed[number]
