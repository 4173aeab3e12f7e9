"""The operations on registers of a whole history, as columns.

Times are positions of events in the history, so no two are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftwreck.checkers.calls import OPEN, Call, HistoryShapeError
from kraftwreck.checkers.linearizability.models import ModelError, freeze
from kraftwreck.histories.operation import INFO
from kraftwreck.histories.tables import from_text

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
TYPES = ("invoke", "ok", "fail", "info")
READ, WRITE, CAS, DELETE = 0, 1, 2, 3
_COMPILED = 4_000_000
"""From this many events on a compiled loop is faster in spite of its loading time."""
FS = ("read", "write", "cas", "delete")


@dataclass(frozen=True)
class Operations:
    """Reads that ended ``ok``, and mutators that ended ``ok`` or may have happened.

    ``start`` and ``end`` are positions of events (``end`` is ``never`` for an operation without
    a certain end). ``value`` was read or written, ``expected`` was expected by a compare-and-set,
    both as codes where 0 is the initial value. ``key`` numbers ``keys``.
    """

    start: Ints
    end: Ints
    kind: npt.NDArray[np.int8]
    key: Ints
    value: Ints
    expected: Ints
    keys: list[str]
    values: int
    never: int

    def __len__(self) -> int:
        return len(self.start)

    def where(self, mask: Any) -> Operations:
        """Return the operations that ``mask`` (or positions) selects."""
        picked = {
            field.name: getattr(self, field.name)[mask]
            for field in fields(self)
            if field.name not in ("keys", "values", "never")
        }
        return Operations(**picked, keys=self.keys, values=self.values, never=self.never)


@dataclass(frozen=True)
class Pairs:
    """Invocations by position, their completions (-1 for none) and how they ended."""

    begun: Ints
    done: Ints
    outcome: npt.NDArray[np.int8]


def pair_rows(table: pa.Table) -> Pairs:
    """Join invocations with completions, as :func:`checkers.calls.pair` does.

    Raises :class:`~checkers.calls.HistoryShapeError`.
    """
    kind = codes_in(table.column("type"), TYPES)
    f = _words(table.column("f"))
    numbers = table.column("process").to_numpy()
    if len(kind) >= _COMPILED and numbers.min() >= 0 and numbers.max() < 2 * len(kind):
        from kraftwreck.checkers.linearizability.zones.kernels import partners

        partner, wrong = partners(numbers, kind, f, int(numbers.max()) + 1)
        if wrong >= 0:
            _refuse(table, int(wrong))
    else:
        partner = _partners(table, kind, f)
    starts = np.flatnonzero(kind == 0)
    ends = partner[starts]
    outcome = np.where(ends >= 0, kind[ends], TYPES.index("info")).astype(np.int8)
    return Pairs(starts, ends, outcome)


def _partners(table: pa.Table, kind: npt.NDArray[np.int8], f: Ints) -> Ints:
    process = _ranks(table.column("process"))
    order = np.argsort(process, kind="stable")
    ordered = process[order]
    same = np.zeros(len(order) + 1, np.bool_)
    same[1:-1] = ordered[1:] == ordered[:-1]
    invokes = kind[order] == 0
    follows = np.zeros(len(order), np.bool_)
    follows[1:] = invokes[:-1]
    wrong = np.where(invokes, same[:-1] & follows, ~(same[:-1] & follows))
    paired = np.flatnonzero(~invokes & ~wrong)
    begun, done = order[paired - 1], order[paired]
    unlike = f[begun] != f[done]
    if wrong.any() or unlike.any():
        rows = np.concatenate([order[wrong], done[unlike]])
        _refuse(table, int(rows.min()))
    partner = np.full(len(order), -1, np.int64)
    partner[begun] = done
    return partner


def _words(column: pa.ChunkedArray) -> Ints:
    """Number the distinct words of a column."""
    whole = column.combine_chunks()
    encoded = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    indices: Ints = encoded.indices.to_numpy()
    return indices


def _refuse(table: pa.Table, row: int) -> None:
    at = {name: table.column(name)[row].as_py() for name in ("index", "process", "type", "f")}
    if at["type"] == "invoke":
        raise HistoryShapeError(
            f"operation {at['index']}: process {at['process']} invokes {at['f']} "
            "while another operation of it is open"
        )
    raise HistoryShapeError(
        f"operation {at['index']}: process {at['process']} completes a {at['f']} "
        "that it did not invoke"
    )


def codes_in(column: pa.ChunkedArray, names: tuple[str, ...]) -> npt.NDArray[np.int8]:
    if pa.types.is_dictionary(column.type):
        # Of a dictionary only its few words are looked up.
        parts = [
            pc.index_in(chunk.dictionary, pa.array(names))
            .fill_null(-1)
            .to_numpy()[chunk.indices.to_numpy()]
            for chunk in column.chunks
        ]
        codes = np.concatenate(parts) if parts else np.zeros(0, np.int8)
    else:
        codes = pc.index_in(column, pa.array(names)).fill_null(-1).to_numpy()
    found: npt.NDArray[np.int8] = codes.astype(np.int8)
    return found


def _ranks(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Number the distinct values; in 16 bits where they fit, which sorts in linear time."""
    numbers: npt.NDArray[Any] = column.to_numpy()
    if len(numbers) and numbers.min() >= 0 and numbers.max() < 1 << 16:
        return numbers.astype(np.uint16)
    found = column.combine_chunks().dictionary_encode()
    ranks: npt.NDArray[Any] = found.indices.to_numpy()
    if len(found.dictionary) <= 1 << 16:
        ranks = ranks.astype(np.uint16)
    return ranks


def read_operations(
    table: pa.Table, pairs: Pairs, *, initial: Any = None, cas: bool = True
) -> Operations:
    """Return the operations of ``table`` that constrain the order.

    Raises :class:`~checkers.linearizability.models.ModelError` for an operation that is not
    one of a register.
    """
    kind = codes_in(table.column("f").take(pa.array(pairs.begun)), FS)
    allowed = kind >= 0 if cas else (kind == READ) | (kind == WRITE)
    if not allowed.all():
        row = int(pairs.begun[np.flatnonzero(~allowed)[0]])
        f, index = table.column("f")[row].as_py(), table.column("index")[row].as_py()
        model = "cas-register" if cas else "register"
        raise ModelError(f"operation {index}: model {model} has no operation {f!r}")
    certain = pairs.outcome == TYPES.index("ok")
    possible = certain | (pairs.outcome == TYPES.index("info"))
    kept = np.flatnonzero(np.where(kind == READ, certain, possible))
    kind, certain = kind[kept], certain[kept]
    begun, done = pairs.begun[kept], pairs.done[kept]
    told = np.where(kind == READ, done, begun)
    value, expected, null, size = _values(table, told, kind, begun, initial)
    keep = np.ones(len(kept), np.bool_)
    if initial is not None:
        keep = ~((kind == READ) & null)
    keys, key = _keys(table, begun)
    never = len(table)
    found = Operations(
        start=begun,
        end=np.where(certain, done, never),
        kind=np.where(kind == DELETE, WRITE, kind).astype(np.int8),
        key=key,
        value=value,
        expected=expected,
        keys=keys,
        values=size,
        never=never,
    )
    return found if keep.all() else found.where(keep)


def _keys(table: pa.Table, begun: Ints) -> tuple[list[str], Ints]:
    column = table.column("key")
    if column.null_count == len(column):
        return ["null"], np.zeros(len(begun), np.int64)
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    names = [text if text is not None else "null" for text in encoded.dictionary.to_pylist()]
    return names, encoded.indices.to_numpy()[begun].astype(np.int64)


def _values(
    table: pa.Table,
    told: Ints,
    kind: npt.NDArray[np.int8],
    begun: Ints,
    initial: Any,
) -> tuple[Ints, Ints, Flags, int]:
    """Return values and expected values as codes, where values are null, and how many codes."""
    texts = table.column("value").take(pa.array(told)).combine_chunks()
    is_cas = kind == CAS
    size = len(told)
    null = np.zeros(size, np.bool_)
    value, expected = np.zeros(size, np.int64), np.full(size, -1, np.int64)
    halves: tuple[pa.Array, ...] = ()
    if is_cas.any():
        halves = _halves(table, texts.filter(pa.array(is_cas)), begun[is_cas])
        texts = texts.filter(pa.array(~is_cas))
    if (kind == DELETE).any():
        gone = (kind == DELETE)[~is_cas]
        texts = pc.if_else(pa.array(gone), pa.scalar(None, pa.string()), texts)
    codes, count = _codes([texts, *halves], initial)
    value[~is_cas] = codes[0]
    null[~is_cas] = texts.is_null().to_numpy(zero_copy_only=False)
    if halves:
        expected[is_cas], value[is_cas] = codes[1], codes[2]
    return value, expected, null, count


def _halves(table: pa.Table, texts: pa.Array, begun: Ints) -> tuple[pa.Array, pa.Array]:
    """Split texts ``[old,new]``."""
    simple = pc.fill_null(
        pc.match_substring_regex(texts, r"^\[[^\[\]{},\"]+,[^\[\]{},\"]+\]$"), False
    )
    if bool(pc.all(simple).as_py()):
        parts = pc.split_pattern(pc.utf8_trim(texts, "[] "), ",").flatten()
        parts = pc.utf8_trim_whitespace(parts)
        parts = pc.if_else(pc.equal(parts, "null"), pa.scalar(None, pa.string()), parts)
        return parts.take(pa.array(np.arange(0, len(parts), 2))), parts.take(
            pa.array(np.arange(1, len(parts), 2))
        )
    olds, news = [], []
    for text, row in zip(texts.to_pylist(), begun, strict=True):
        pair = from_text(text)
        if not isinstance(pair, list) or len(pair) != 2:
            index = table.column("index")[int(row)].as_py()
            raise ModelError(
                f"operation {index}: the value of cas must be [old, new], got {pair!r}"
            )
        olds.append(_text(pair[0]))
        news.append(_text(pair[1]))
    return pa.array(olds, pa.string()), pa.array(news, pa.string())


def _text(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value, order="deterministic").decode()


def _codes(parts: list[pa.Array], initial: Any) -> tuple[list[Ints], int]:
    """Number the values in ``parts``, JSON texts or null, and return how many numbers there are.

    Equal values have equal numbers, and 0 is ``initial``. Every history has a table of its own.
    """
    if initial is None or (isinstance(initial, int) and not isinstance(initial, bool)):
        found = _whole_numbers(parts, initial)
        if found is not None:
            return found
    known: dict[Any, int] = {freeze(initial): 0}
    codes = []
    for part in parts:
        encoded = part.dictionary_encode(null_encoding="encode")
        table = [
            known.setdefault(freeze(from_text(text)), len(known))
            for text in encoded.dictionary.to_pylist()
        ]
        codes.append(np.array(table or [0], np.int64)[encoded.indices.to_numpy()])
    return codes, len(known)


def _whole_numbers(parts: list[pa.Array], initial: int | None) -> tuple[list[Ints], int] | None:
    """Number values that are all whole numbers or null; None where any is something else."""
    try:
        numbers = [pc.cast(part, pa.int64()) for part in parts]
    except pa.ArrowInvalid:
        return None
    nulls = [part.is_null().to_numpy(zero_copy_only=False) for part in numbers]
    plain: list[Ints] = [part.fill_null(0).to_numpy() for part in numbers]
    whole = np.concatenate([part[~null] for part, null in zip(plain, nulls, strict=True)])
    low = int(whole.min()) if len(whole) else 0
    span = int(whole.max()) - low if len(whole) else 0
    if span <= 4 * len(whole) + 1024:
        coded = [part - low + 1 for part in plain]
    else:
        known = np.unique(whole)
        span = len(known)
        coded = [np.searchsorted(known, part) + 1 for part in plain]
    size = span + 3
    for part, code, null in zip(plain, coded, nulls, strict=True):
        code[null] = 0 if initial is None else size - 1
        if initial is not None:
            code[~null & (part == initial)] = 0
    return coded, size


def call_at(table: pa.Table, begun: int, done: int, certain: bool) -> Call:
    """Return one operation as an object, for an explanation."""

    def cell(name: str, row: int) -> Any:
        return table.column(name)[row].as_py()

    ended = done >= 0
    return Call(
        f=cell("f", begun),
        key=from_text(cell("key", begun)),
        process=cell("process", begun),
        type=cell("type", done) if ended else INFO,
        argument=from_text(cell("value", begun)),
        value=from_text(cell("value", done)) if ended else None,
        start=cell("index", begun),
        end=cell("index", done) if certain else OPEN,
        completion=cell("index", done) if ended else -1,
        invoked=cell("time", begun),
        completed=cell("time", done) if ended else None,
        node=cell("node", begun),
        error=cell("error", done) if ended else None,
        final=bool(cell("final", begun)),
    )
