"""The operations of a JSON file, one by one: a file of gigabytes is never in memory as a whole.

The file is an array of operations, as Jepsen's tools export it, or a single value.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import msgspec

from kraftwreck.histories import json_lines
from kraftwreck.histories.json_lines import UNREADABLE, reason
from kraftwreck.histories.tables import HistoryError

_BLOCK = 1 << 20
_SPACE = re.compile(rb"[ \t\r\n]*+")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[\[\]{}]', re.DOTALL)
"""A bracket, or a string; its last quote is missing where the part that was read ends."""
_SIMPLE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^",\]\s]++', re.DOTALL)
"""A string, a number or a word."""
_BYTE = re.compile(r" \(byte (\d+)\)")
_LIKELY_END = re.compile(rb"\}[ \t\r\n]*+[,\]]")
_SHORT = 1 << 14
"""Bytes; ends of longer operations are not guessed."""
_decode = msgspec.json.Decoder().decode
_STEPS = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}


def read_json(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the elements of the array in ``path``, or its only value, with the line of each.

    Raises :class:`HistoryError` with the line of an element that is not JSON, is nested too deeply
    or has more than :data:`~histories.json_lines.MAX_LINE` bytes, and OSError.
    """
    with path.open("rb") as file:
        part = _Part(path, file)
        if part.next_byte() != b"[":
            value = _value(part)
            yield part.line, value
        else:
            yield from _elements(part)
        if part.next_byte():
            part.refuse(part.at, "JSON is malformed: trailing characters")


def _elements(part: _Part) -> Iterator[tuple[int, Any]]:
    part.at += 1
    following = part.next_byte()
    while following != b"]":
        value = _value(part)
        yield part.line, value
        following = part.next_byte()
        if following == b",":
            part.at += 1
            if part.next_byte() == b"]":
                part.refuse(part.at, "JSON is malformed: trailing comma in array")
        elif following != b"]":
            part.refuse(part.at, "JSON is malformed: expected ',' or ']'")
    part.at += 1


def _value(part: _Part) -> Any:
    """Return the value that begins at ``part.at``, and go to its end."""
    likely = _LIKELY_END.search(part.data, part.at, part.at + _SHORT)
    if likely is not None:
        # Whole JSON that starts here is the value. Anything else is scanned for its end.
        with suppress(*UNREADABLE):
            value = _decode(part.data[part.at : likely.start() + 1])
            part.take(likely.start() + 1)
            return value
    element = part.take(_end(part))
    try:
        return _decode(element)
    except UNREADABLE as error:
        byte = _BYTE.search(str(error))
        why = _BYTE.sub("", reason(error))  # The byte is one of the element, not of the file.
        part.refuse(part.at - len(element) + (0 if byte is None else int(byte[1])), why)


def _end(part: _Part) -> int:
    """Return the end of the value that begins at ``part.at``, and have it read as a whole."""
    if part.next_byte() not in (b"[", b"{"):
        while True:
            found = _SIMPLE.match(part.data, part.at)
            if found is not None and (found.end() < len(part.data) or part.ended):
                return found.end()
            part.extend()
    depth, done, deepest = 0, 0, sys.getrecursionlimit()
    while True:
        for token in _TOKEN.finditer(part.data, part.at + done):
            step = _STEPS.get(token[0])
            if step is None:
                if not token[1]:
                    done = token.start() - part.at
                    break
                continue
            depth += step
            if depth > deepest:
                part.refuse(token.start(), "nested too deeply")
            if depth == 0:
                return token.end()
        else:
            done = len(part.data) - part.at
        part.extend()


class _Part:
    """The part of a file that was read and is needed; ``at`` is the position of the next value."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self._counted = 0
        self.data = b""
        self.at = 0
        self.line = 1
        """The line of the value that was taken last."""
        self.ended = False

    def next_byte(self) -> bytes:
        """Skip white space; return the byte that follows, or nothing at the end of the file."""
        while True:
            space = _SPACE.match(self.data, self.at)
            assert space is not None
            self.at = space.end()
            if self.at < len(self.data) or self.ended:
                return self.data[self.at : self.at + 1]
            self._read()

    def take(self, end: int) -> bytes:
        """Return the value that ends at ``end``, and set the position to its end."""
        self._count(self.at)
        if end - self.at > json_lines.MAX_LINE:
            self._refuse_long()
        value = self.data[self.at : end]
        self.at = end
        return value

    def extend(self) -> None:
        """Read more of the value at ``at``, at least as much as there is.

        Raises :class:`HistoryError` at the end of the file, and for a value that is too long.
        """
        if self.ended:
            self.refuse(len(self.data.rstrip()), "Input data was truncated")
        if len(self.data) - self.at > json_lines.MAX_LINE:
            self._refuse_long()
        self._read()

    def refuse(self, at: int, why: str) -> NoReturn:
        """Raise :class:`HistoryError` with the line of the position ``at``."""
        self._count(at)
        raise HistoryError(f"{self._path}:{self.line}: {why}")

    def _refuse_long(self) -> NoReturn:
        self.refuse(self.at, f"an operation of more than {json_lines.MAX_LINE:,} bytes")

    def _count(self, at: int) -> None:
        self.line += self.data.count(b"\n", self._counted, at)
        self._counted = at

    def _read(self) -> None:
        self._count(self.at)
        kept = self.data[self.at :]
        block = self._file.read(max(_BLOCK, len(kept)))
        self.data, self.at, self._counted = kept + block, 0, 0
        self.ended = not block
