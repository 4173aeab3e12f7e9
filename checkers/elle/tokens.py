"""Parses the JSON text of transactions by array operations.

The text is as :func:`histories.tables.to_text` writes it, or with spaces:
``[["r",3,[1,2]],["append",5,7],["r",4,null]]``. Every number is found at once. The mark
``["`` begins a micro-operation, its first number is the key, and the others are the value. Every
other byte is held against its place. Text of another shape (keys or values that are not whole
numbers, or no JSON) is left to the decoder: :func:`tokens_of` then returns None.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kraftwreck.checkers.elle.transactions import LIST, NULL, READ, SCALAR, WRITE, Ints, MicroOps

_CHUNK_ROWS = 1 << 14  # texts of about a megabyte: they stay in the cache
_MAX_DIGITS = 18
_SPACE = 32
_QUOTE, _OPEN, _CLOSE, _COMMA, _MINUS = (ord(c) for c in '"[],-')
_NULL = b"null"

Bytes = NDArray[np.uint8]
_PLAIN = np.zeros(256, dtype=bool)
_PLAIN[list(b'"[],-0123456789abcdefghijklmnopqrstuvwxyz')] = True
"""By byte, whether it may be in the text."""
_JOINED = _PLAIN.copy()
_JOINED[list(b"[],")] = False
"""By byte, whether a space between it and another such byte has a meaning."""


def tokens_of(column: pa.ChunkedArray, write: str, lists: bool) -> MicroOps | None:
    """Return the micro-operations of a column of JSON texts, None if the texts are not plain.

    ``write`` is the name of writes; with ``lists`` reads return lists, else single values.
    """
    parts: list[MicroOps] = []
    row = taken = 0
    for chunk in column.chunks:
        for begin in range(0, len(chunk), _CHUNK_ROWS):
            piece = chunk.slice(begin, _CHUNK_ROWS)
            part = _tokens(piece, write, lists)
            if part is None:
                return None
            np.add(part.event, row, out=part.event)
            np.add(part.start, taken, out=part.start)
            parts.append(part)
            row += len(piece)
            taken += len(part.elements)
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return MicroOps(none, none, none, none, none, none, none)
    names = ("event", "f", "key", "kind", "start", "count", "elements")
    return MicroOps(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _tokens(rows: pa.Array, write: str, lists: bool) -> MicroOps | None:
    texts, offsets = _buffers(rows)
    if np.count_nonzero(np.diff(offsets) == 0) != rows.null_count:
        return None
    if len(texts) == 0:
        none = np.zeros(0, dtype=np.int64)
        return MicroOps(none, none, none, none, none, none, none.copy())
    if (texts == _SPACE).any():
        closed = _without_spaces(texts, offsets)
        if closed is None:
            return None
        texts, offsets = closed
    quotes = np.flatnonzero(texts == _QUOTE)
    if len(quotes) % 2 or not _PLAIN[texts].all():
        return None
    begin = quotes[0::2] - 1
    spelled = _spelled(texts, begin, quotes[1::2], write)
    if spelled is None:
        return None
    code, key_at = spelled
    digit = ((texts - np.uint8(48)) < 10) | (texts == _MINUS)
    edge = np.flatnonzero(digit[1:] != digit[:-1]) + 1
    if len(edge) % 2:
        return None
    number_at, number_end = edge[0::2], edge[1::2]
    numbers = _values(texts, number_at, number_end)
    key_number = np.searchsorted(number_at, key_at)
    if numbers is None or not _begin(number_at, key_number, key_at):
        return None
    count = np.diff(np.append(key_number, len(number_at))) - 1
    value_at = number_end[key_number] + 1
    if int(value_at.max(initial=0)) >= len(texts):
        return None
    mark = texts[value_at]
    kind = np.full(len(begin), SCALAR, dtype=np.int64)
    kind[mark == ord("n")] = NULL
    kind[mark == _OPEN] = LIST
    element = np.ones(len(numbers), dtype=bool)
    element[key_number] = False
    event = np.searchsorted(offsets, begin, side="right") - 1
    texts = np.append(texts, np.zeros(len(_NULL) * 2, dtype=np.uint8))  # Lets us look beyond it.
    if not _fits(kind, count, code, lists) or not _separated(texts, number_at, number_end, element):
        return None
    ends = _ends(texts, kind, value_at, number_at, number_end, key_number, count)
    if ends is None or not _tiled(texts, offsets, event, begin, ends):
        return None
    return MicroOps(
        event=event,
        f=code,
        key=numbers[key_number],
        kind=kind,
        start=np.cumsum(count) - count,
        count=count,
        elements=numbers[element],
    )


def _buffers(rows: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes of all texts, and where each begins (nulls are empty)."""
    large = rows.cast(pa.large_string())
    _, offsets, data = large.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[large.offset : large.offset + len(rows) + 1]
    if data is None or len(starts) == 0:
        return np.zeros(0, dtype=np.uint8), np.zeros(len(rows) + 1, dtype=np.int64)
    texts = np.frombuffer(data, dtype=np.uint8)[int(starts[0]) : int(starts[-1])]
    return texts, starts - starts[0]


def _without_spaces(texts: Bytes, offsets: Ints) -> tuple[Bytes, Ints] | None:
    """Drop spaces; None if one of them is inside of a name, a number or a word."""
    kept = texts != _SPACE
    at = np.flatnonzero(kept)
    closed = texts[at]
    joined = (np.diff(at) > 1) & _JOINED[closed[:-1]] & _JOINED[closed[1:]]
    if joined.any():
        return None
    left = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(kept, out=left[1:])
    return closed, left[offsets]


def _spelled(texts: Bytes, begin: Ints, closing: Ints, write: str) -> tuple[Ints, Ints] | None:
    """Return the code of every micro-operation and where its key begins; None for others."""
    if len(begin) == 0 or begin[0] < 0 or (texts[begin] != _OPEN).any():
        return (begin, begin) if len(begin) == 0 else None
    width = closing - begin - 2
    read = (width == 1) & (texts[begin + 2] == ord("r"))
    written = width == len(write)
    last = len(texts) - 1
    for offset, letter in enumerate(write.encode()):
        written &= texts[np.minimum(begin + 2 + offset, last)] == letter
    if not (read | written).all() or int(closing[-1]) + 2 > last:
        return None
    if (texts[closing + 1] != _COMMA).any():
        return None
    code = np.where(read, READ, WRITE).astype(np.int64)
    return code, closing + 2


def _values(texts: Bytes, begin: Ints, end: Ints) -> Ints | None:
    """Return the numbers in ``texts[begin:end]``; None if one is too long or not a number."""
    negative = texts[begin] == _MINUS
    signed = bool(negative.any())
    if np.count_nonzero(texts == _MINUS) != np.count_nonzero(negative):
        return None
    at = begin + negative if signed else begin
    width = end - at
    if len(width) and (int(width.max()) > _MAX_DIGITS or int(width.min()) < 1):
        return None
    numbers = (texts[at] - np.uint8(48)).astype(np.int64)
    longer = np.flatnonzero(width > 1)
    if (numbers[longer] == 0).any():
        return None
    for place in range(1, int(width.max(initial=0))):
        numbers[longer] = numbers[longer] * 10 + (texts[at[longer] + place] - np.uint8(48))
        longer = longer[width[longer] > place + 1]
    if signed:
        numbers[negative] *= -1
    return numbers


def _begin(number_at: Ints, key_number: Ints, key_at: Ints) -> bool:
    """Return whether a number begins wherever a key should."""
    if len(key_number) == 0:
        return True
    return int(key_number[-1]) < len(number_at) and bool((number_at[key_number] == key_at).all())


def _fits(kind: Ints, count: Ints, code: Ints, lists: bool) -> bool:
    """Return whether values have as many numbers as their kinds, and the kinds are the model's."""
    if (count[kind == SCALAR] != 1).any() or (count[kind == NULL] != 0).any():
        return False
    reads, writes = kind[code == READ], kind[code == WRITE]
    wanted = LIST if lists else SCALAR
    return bool(((reads == wanted) | (reads == NULL)).all() and (writes == SCALAR).all())


def _separated(texts: Bytes, number_at: Ints, number_end: Ints, element: NDArray[np.bool_]) -> bool:
    """Return whether a comma follows each key, and nothing else is between elements of a list."""
    if (texts[number_end[~element]] != _COMMA).any():
        return False
    first = np.flatnonzero(element[:-1] & element[1:])
    at = number_end[first]
    return bool((texts[at] == _COMMA).all() and (number_at[first + 1] == at + 1).all())


def _ends(
    texts: Bytes,
    kind: Ints,
    value_at: Ints,
    number_at: Ints,
    number_end: Ints,
    key_number: Ints,
    count: Ints,
) -> Ints | None:
    """Return where each micro-operation must end with a bracket; None if a value is not whole."""
    ends: Ints = number_end[key_number + count]  # Of those whose value has a number.
    scalar, null, listed = kind == SCALAR, kind == NULL, kind == LIST
    if (number_at[key_number[scalar] + 1] != value_at[scalar]).any():
        return None
    for place, letter in enumerate(_NULL):
        if (texts[value_at[null] + place] != letter).any():
            return None
    ends[null] = value_at[null] + len(_NULL)
    filled, empty = listed & (count > 0), listed & (count == 0)
    if (number_at[key_number[filled] + 1] != value_at[filled] + 1).any():
        return None
    ends[empty] = value_at[empty] + 1
    if (texts[ends[listed]] != _CLOSE).any():
        return None
    ends[listed] += 1
    return ends


def _tiled(texts: Bytes, offsets: Ints, event: Ints, begin: Ints, ends: Ints) -> bool:
    """Return whether micro-operations, with a comma between two, fill the brackets of each row."""
    row, size = offsets[:-1], np.diff(offsets)
    if (texts[row[size > 0]] != _OPEN).any() or (texts[ends] != _CLOSE).any():
        return False
    without = size > 0
    without[event] = False
    if (size[without] != 2).any() or (texts[row[without] + 1] != _CLOSE).any():
        return False
    if len(event) == 0:
        return True
    more = event[1:] == event[:-1]
    first, last = np.append(True, ~more), np.append(~more, True)
    if (begin[first] != row[event[first]] + 1).any():
        return False
    if (ends[last] + 2 != offsets[event[last] + 1]).any() or (
        texts[ends[last] + 1] != _CLOSE
    ).any():
        return False
    inner = ends[:-1][more]
    return bool((texts[inner + 1] == _COMMA).all() and (inner + 2 == begin[1:][more]).all())
