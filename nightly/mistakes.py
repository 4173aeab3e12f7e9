"""Mistakes in a configuration file, in plain words and with the line of each key."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec

_PATH = re.compile(r" - at `\$\.?(.*)`$")
_TYPE = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_BOUND = re.compile(r"Expected `(\w+)` (>=|>|<=|<) ([\d.e+]+)")
_EMPTY = re.compile(r"Expected `array` of length >= 1")
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
_BOUNDS = {">=": "of at least", ">": "above", "<=": "of at most", "<": "below"}
_TABLE = re.compile(r"\s*(\[\[?)\s*([\w.\"'-]+)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")
_FENCES = ('"""', "'''")


def convert(value: Any, kind: Any, key: str, wrong: list[str]) -> Any:
    """Return ``value`` as ``kind``, or None after a mistake, which is appended to ``wrong``."""
    try:
        if any(not math.isfinite(number) for number in _floats(value)):
            raise msgspec.ValidationError("give a finite number")
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text = " ".join(str(error).split())
        found = _PATH.search(text)
        inner = found.group(1) if found else ""
        # msgspec counts list entries from 0 and omits the number; users see the key.
        place = key if inner in ("", "[...]") else f"{key}.{inner}"
        wrong.append(f"{place}: {in_words(_PATH.sub('', text), kind)}")
        return None


def in_words(text: str, kind: Any) -> str:
    """Turn msgspec's message about a value that is not a ``kind`` into an instruction."""
    if _EMPTY.search(text):
        return "give a list with at least one entry"
    if found := _BOUND.search(text):
        return f"give {_WORDS[found[1]]} {_BOUNDS[found[2]]} {float(found[3]):g}"
    if text.startswith("Invalid enum value"):
        names = [repr(name) for name in _literals(kind)]
        others = "a whole number or " if _numbers(kind) else ""
        return f"{text.removeprefix('Invalid enum value ')}: give {others}{' or '.join(names)}"
    if found := _TYPE.search(text):
        wanted = [_WORDS[name] for name in found[1].split(" | ") if name != "null"]
        return f"give {' or '.join(wanted)}, not {_WORDS[found[2]]}"
    return text


def _literals(kind: Any) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    else:
        for part in get_args(kind):
            yield from _literals(part)


def _numbers(kind: Any) -> bool:
    return kind is int or any(_numbers(part) for part in get_args(kind))


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _floats(each)


def key_lines(text: str) -> dict[str, int]:
    """Return the line, from 1, of every key and table of a TOML file, such as ``matrix[2].nodes``.

    The lines of a multi-line value belong to its key.
    """
    found: dict[str, int] = {}
    blocks: dict[str, int] = {}
    table, fence = "", None
    for number, line in enumerate(text.splitlines(), start=1):
        if fence is not None:
            fence = None if fence in line else fence
            continue
        if header := _TABLE.match(line):
            table = header[2].replace('"', "").replace("'", "")
            if header[1] == "[[":
                blocks[table] = blocks.get(table, 0) + 1
                table = f"{table}[{blocks[table]}]"
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            name = key[1].replace('"', "").replace("'", "")
            found.setdefault(f"{table}.{name}" if table else name, number)
            fence = next((each for each in _FENCES if line.count(each) == 1), None)
    return found


def with_line(mistake: str, lines: Mapping[str, int]) -> str:
    """Return ``mistake``, which starts with its key, after ``line N: `` if that is known."""
    key = mistake.partition(": ")[0]
    while key:
        if key in lines:
            return f"line {lines[key]}: {mistake}"
        shorter = re.sub(r"(\.[^.\[\]]+|\[\d+\])$", "", key)
        if shorter == key:
            break
        key = shorter
    return mistake
