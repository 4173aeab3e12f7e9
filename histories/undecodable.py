"""JSON: the exceptions that decoding and encoding can raise, and whether it can hold a value."""

from __future__ import annotations

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
