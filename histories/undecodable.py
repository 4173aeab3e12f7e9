"""JSON: the exceptions of decoding and encoding, whether it can hold a value, and in what form."""

from __future__ import annotations

from typing import Any, Final

import msgspec

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Not JSON or not the expected shape; not UTF-8; nested too deep for the decoder."""

UNENCODABLE = (TypeError, ValueError, RecursionError)
"""A type that JSON lacks; a value that it lacks; nested too deep for the encoder."""


def is_json(value: object) -> bool:
    """Return whether JSON can hold ``value``."""
    try:
        msgspec.json.encode(value)
    except UNENCODABLE:
        return False
    return True


_SAME: Final = frozenset({type(None), bool, int, str})


def as_in_json(value: Any) -> Any:
    """Return ``value`` as it is after a round trip through JSON: a tuple as a list, bytes as text.

    A value that JSON cannot hold is returned as it is.
    """
    if type(value) in _SAME:
        return value
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except UNENCODABLE:
        return value
