"""Clojure's EDN: a reader that reports where it failed, and a writer.

Source: github.com/edn-format/edn, with Clojure's additions (``##NaN``; ratios are
refused). Maps become dicts, vectors lists, lists tuples, sets :class:`EdnSet`, keywords
:class:`Keyword`, other symbols :class:`Symbol`, tagged values :class:`Tagged`. Map keys that Python
cannot hash become tuples.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


class EdnError(ValueError):
    """Text is not EDN; the message starts with ``line L, column C``."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """``:name`` (without the colon)."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A bare word that is not nil, true or false."""

    name: str


class EdnSet(tuple[Any, ...]):
    """The members of a set, in the order written."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """``#tag value``."""

    tag: str
    value: Any


_SPACE = re.compile(r"(?:[\s,]+|;[^\n]*)*")
_TOKEN = re.compile(r"[^\s,;\"()\[\]{}\\]+")
_NAME = re.compile(r"[A-Za-z*+!_?<>=$&%-][A-Za-z0-9.*+!_?<>=$&%/-]*")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d*)N?\Z")
_FLOAT = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?M?\Z")
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "b": "\b", "f": "\f"}
_ESCAPED = str.maketrans({plain: f"\\{letter}" for letter, plain in _ESCAPES.items()})
_CHARACTERS = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t"}
_WORDS = {"nil": None, "true": True, "false": False}
_NUMBERS = {"Inf": math.inf, "-Inf": -math.inf, "NaN": math.nan}
_CLOSES = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_DISCARDED = object()
_MAX_DEPTH = 200
_LONGEST = 1 << 28
"""Characters of a string, and of an operation."""
_LOOKAHEAD = 8
"""Characters; an error so close to the end of a part may be due to what follows."""
_MAX_DIGITS = 4_000
_PLAIN = re.compile(r'[^"\\]*')
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Reader:
    """Reads the values of ``text``, which may be a part: then ``more`` text follows it."""

    def __init__(self, text: str, *, more: bool = False) -> None:
        self.text = text
        self.more = more
        self.at = 0
        self.depth = 0
        self._lines, self._columns = 0, 0
        """The place of the part's beginning, from 0."""
        self._counted, self._line = 0, 1

    def error(self, what: str, at: int) -> EdnError:
        line = self.text.count("\n", 0, at)
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1 + (0 if line else self._columns)
        return EdnError(f"line {line + self._lines + 1}, column {column}: {what}")

    def line(self) -> int:
        """Return the line of the position, which only moves forward between calls."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def extend(self, parts: Iterator[str]) -> None:
        """Drop the text before the position and append at least as much as is left."""
        left = len(self.text) - self.at
        if left > _LONGEST:
            raise self.error(f"a value of more than {_LONGEST:,} characters", self.at)
        line_end = self.text.rfind("\n", 0, self.at)
        self._lines = self.line() - 1
        self._columns = self.at - line_end - 1 + (self._columns if line_end < 0 else 0)
        kept = [self.text[self.at :]]
        added = 0
        while added <= left and self.more:
            part = next(parts, None)
            self.more = part is not None
            kept.append(part or "")
            added += len(part or "")
        self.text, self.at, self._counted = "".join(kept), 0, 0

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def value(self) -> Any:
        """Read one value; _DISCARDED for ``#_ value``."""
        self.skip()
        start = self.at
        if start >= len(self.text):
            raise self.error("the text ends where a value is expected", start)
        char = self.text[start]
        if char in "([{":
            self.at += 1
            return self.collection(char, start)
        if char == '"':
            return self.string()
        if char == "#":
            return self.dispatch()
        if char == "\\":
            return self.character()
        if char in ")]}":
            raise self.error(f"unexpected {char!r}", start)
        token = self.token()
        return self.atom(token, start)

    def must_value(self) -> Any:
        while (value := self.value()) is _DISCARDED:
            pass
        return value

    def token(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            found = self.text[self.at : self.at + 1]
            what = f"unexpected {found!r}" if found else "the text ends where a name is expected"
            raise self.error(what, self.at)
        self.at = match.end()
        return match.group()

    def atom(self, token: str, start: int) -> Any:
        if token in _WORDS:
            return _WORDS[token]
        if token[0] == ":":
            if len(token) == 1 or token[1] == ":":
                raise self.error(f"bad keyword {token!r}", start)
            return Keyword(token[1:])
        if token[0].isdigit() or (token[0] in "+-" and token[1:2].isdigit()):
            if len(token) > _MAX_DIGITS:
                raise self.error(f"a number of more than {_MAX_DIGITS:,} digits", start)
            if _INTEGER.match(token):
                return int(token.rstrip("N"))
            if _FLOAT.match(token):
                return float(token.rstrip("M"))
            raise self.error(f"bad number {token!r}", start)
        return Symbol(token)

    def collection(self, opening: str, start: int) -> Any:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.error(f"nested deeper than {_MAX_DEPTH}", start)
        closing, items = _CLOSES[opening], []
        while True:
            self.skip()
            if self.at >= len(self.text):
                raise self.error(f"{opening!r} is never closed", start)
            if self.text[self.at] == closing:
                self.at += 1
                break
            value = self.value()
            if value is not _DISCARDED:
                items.append(value)
        self.depth -= 1
        if opening == "[":
            return items
        if opening == "(":
            return tuple(items)
        if opening == "{":
            return self.mapping(items, start)
        members = [_hashable(item) for item in items]
        if len(set(members)) != len(members):
            raise self.error("a set names one member twice", start)
        return EdnSet(items)

    def mapping(self, items: list[Any], start: int) -> dict[Any, Any]:
        if len(items) % 2:
            raise self.error("a map has a key without a value", start)
        keys = [_hashable(item) for item in items[::2]]
        if len(set(keys)) != len(keys):
            raise self.error("a map names one key twice", start)
        return dict(zip(keys, items[1::2], strict=True))

    def string(self) -> str:
        start = self.at
        parts: list[str] = []
        self.at += 1
        while True:
            match = _PLAIN.match(self.text, self.at)
            assert match is not None
            if match.end() - start > _LONGEST:
                raise self.error(f"a string of more than {_LONGEST:,} characters", start)
            parts.append(match.group())
            self.at = match.end()
            if self.at >= len(self.text):
                raise self.error("a string is never closed", start)
            self.at += 1
            if self.text[self.at - 1] == '"':
                return self.paired("".join(parts), start)
            parts.append(self.escape())

    def escape(self) -> str:
        letter = self.text[self.at : self.at + 1]
        self.at += 1
        if letter == "u":
            digits = self.text[self.at : self.at + 4]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise self.error(r"\u needs four hexadecimal digits", self.at - 2)
            self.at += 4
            return chr(int(digits, 16))
        if letter and letter in _ESCAPES:
            return _ESCAPES[letter]
        raise self.error(f"unknown escape \\{letter}", self.at - 2)

    def paired(self, text: str, start: int) -> str:
        """Join surrogate pairs, as Java writes them; an unpaired surrogate is an error."""
        try:
            if _SURROGATE.search(text):
                return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self.error("an unpaired surrogate is not a character", start) from None
        return text

    def character(self) -> str:
        start = self.at
        self.at += 1
        if self.at >= len(self.text):
            raise self.error("the text ends after a backslash", start)
        match = _TOKEN.match(self.text, self.at)
        token = match.group() if match else self.text[self.at]
        self.at += len(token)
        if len(token) == 1:
            return token
        if token in _CHARACTERS:
            return _CHARACTERS[token]
        if re.fullmatch(r"u[0-9a-fA-F]{4}", token):
            return self.paired(chr(int(token[1:], 16)), start)
        raise self.error(f"unknown character \\{token}", start)

    def dispatch(self) -> Any:
        start = self.at
        following = self.text[start + 1 : start + 2]
        if following == "{":
            self.at += 2
            return self.collection("#{", start)
        if following == "_":
            self.at += 2
            self.must_value()
            return _DISCARDED
        if following == "#":
            self.at += 2
            name = self.token()
            if name not in _NUMBERS:
                raise self.error(f"unknown number ##{name}", start)
            return _NUMBERS[name]
        self.at += 1
        if not following.isalpha():
            raise self.error("'#' must be followed by a tag, '{', '_' or '#'", start)
        tag = self.token()
        return Tagged(tag, self.must_value())


def _hashable(value: Any) -> Any:
    """Return ``value`` in a form that can be a key of a dict (records become tuples)."""
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, Tagged):
        return Tagged(value.tag, _hashable(value.value))
    return value


def read_all(text: str) -> list[Any]:
    """Return all values of ``text``. Raises :class:`EdnError` with line and column."""
    reader = _Reader(text)
    values: list[Any] = []
    while True:
        reader.skip()
        if reader.at >= len(text):
            return values
        value = reader.value()
        if value is not _DISCARDED:
            values.append(value)


def read_each(parts: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Yield the values of a text, given in parts, with the line each begins on.

    Only the parts that hold the current value are kept. If one vector or list is the whole text, as
    in Jepsen's histories, its items are read one by one. Raises :class:`EdnError` with line and
    column.
    """
    following = iter(parts)
    reader = _Reader("", more=True)
    opening = _next(reader, following)
    closing = _CLOSES[opening] if opening in ("[", "(") else ""
    unclosed = reader.error(f"{opening!r} is never closed", reader.at)
    reader.at += len(closing)
    while char := _next(reader, following):
        if char == closing:
            reader.at += 1
            if _next(reader, following):
                raise reader.error("nothing may follow the history's vector", reader.at)
            return
        line = reader.line()
        value = _whole_value(reader, following)
        if value is not _DISCARDED:
            yield line, value
    if closing:
        raise unclosed


def _next(reader: _Reader, parts: Iterator[str]) -> str:
    """Skip white space and comments; return the character that follows, "" at the end."""
    while True:
        start = reader.at
        reader.skip()
        if reader.at < len(reader.text) or not reader.more:
            return reader.text[reader.at : reader.at + 1]
        reader.at = start  # A comment may continue in the next part.
        reader.extend(parts)


def _whole_value(reader: _Reader, parts: Iterator[str]) -> Any:
    """Read one value; read it again, with more text, as long as the text may end within it."""
    while True:
        start = reader.at
        try:
            value = reader.value()
            if reader.at < len(reader.text) or not reader.more:
                return value
        except EdnError:
            if reader.at < len(reader.text) - _LOOKAHEAD or not reader.more:
                raise
        reader.at, reader.depth = start, 0
        reader.extend(parts)


def is_name(word: str) -> bool:
    """Whether ``word`` can be written as a keyword."""
    return _NAME.fullmatch(word) is not None


def write(value: Any) -> str:
    """Return ``value`` as EDN text. Raises TypeError for values without an EDN form."""
    match value:  # The most frequent ones first.
        case str():
            return f'"{value.translate(_ESCAPED)}"'
        case Keyword():
            return f":{value.name}"
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            if math.isnan(value):
                return "##NaN"
            if math.isinf(value):
                return "##Inf" if value > 0 else "##-Inf"
            return repr(value)
        case Symbol():
            return value.name
        case Tagged():
            return f"#{value.tag} {write(value.value)}"
        case EdnSet():
            return "#{" + " ".join(map(write, value)) + "}"
        case list():
            return "[" + " ".join(map(write, value)) + "]"
        case tuple():
            return "(" + " ".join(map(write, value)) + ")"
        case dict():
            return "{" + ", ".join(f"{write(k)} {write(v)}" for k, v in value.items()) + "}"
    raise TypeError(f"EDN has no form for {type(value).__name__}")
