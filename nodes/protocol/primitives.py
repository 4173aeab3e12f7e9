"""The functions that generated code calls: varints, short reads, and rejection of input."""

from __future__ import annotations

from typing import NoReturn

Buffer = bytes | memoryview


class MalformedError(Exception):
    """The reason why bytes or a body were rejected; the codec adds the message's name."""


def refuse(reason: str) -> NoReturn:
    """Raise :class:`MalformedError`; an expression, unlike ``raise``."""
    raise MalformedError(reason)


def put_uvarint(out: bytearray, value: int) -> None:
    """Append ``value`` as an unsigned varint of at most five bytes (32 bits)."""
    if not 0 <= value <= 0xFFFFFFFF:
        raise MalformedError(f"{value} does not fit an unsigned varint")
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def get_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Return the unsigned varint at ``position`` and the position after it."""
    value = data[position]
    if value < 128:
        return value, position + 1
    return more_uvarint(data, position + 1, value)


def more_uvarint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Finish a varint whose ``first`` byte announces more.

    Raises :class:`MalformedError` beyond 32 bits and IndexError at the end of ``data``.
    """
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise MalformedError("a varint is longer than 32 bits")


def skip_tags(data: Buffer, position: int, end: int, count: int) -> int:
    """Skip ``count`` unknown tagged fields; return the position after them."""
    for _ in range(count):
        _tag, position = get_uvarint(data, position)
        size, position = get_uvarint(data, position)
        position += size
        if position > end:
            raise MalformedError("a tagged field ends outside of the message")
    return position


def unknown_fields(name: str, known: frozenset[str], body: object) -> NoReturn:
    """Refuse a body that is not a mapping, or has keys that the schema lacks."""
    if not isinstance(body, dict):
        raise MalformedError(f"{name} needs a dict, not {type(body).__name__}")
    surplus = ", ".join(sorted(map(str, body.keys() - known)))
    raise MalformedError(f"{name} has no field {surplus}")
