"""Encode and decode any message of :mod:`nodes.protocol.schemas`.

A body is a dict with snake_case keys; uuids are 16 bytes, records and bytes are ``bytes``, structs
are dicts, arrays lists. Unknown tagged fields and bytes after the message are ignored: real clients
send both.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kraftwreck.nodes.protocol.compiler import Decoder, Encoder, compile_message
from kraftwreck.nodes.protocol.primitives import Buffer, MalformedError
from kraftwreck.nodes.protocol.schemas import MESSAGES

MOST_ITEMS: Final = 1 << 62
"""No limit of items; only the number of bytes limits them."""

UNREADABLE: Final = (IndexError, struct.error, UnicodeDecodeError, MalformedError)
"""Errors that reading a message raises for malformed bytes."""


class ProtocolError(Exception):
    """A message cannot be read or written; the text gives the reason in one line."""


_COMPILED: dict[tuple[str, int], tuple[Encoder, Decoder]] = {}


def encode(message: str, version: int, body: dict[str, Any]) -> bytes:
    """Return ``body`` as the bytes of ``message`` at ``version``.

    Missing fields take their defaults. Fields of other versions of the message are left out,
    unknown fields are refused. Raises :class:`ProtocolError`.
    """
    encoder, _ = _COMPILED.get((message, version)) or _compiled(message, version)
    out = bytearray()
    try:
        encoder(out, body)
    except (
        MalformedError,
        struct.error,
        TypeError,
        AttributeError,
        ValueError,
        OverflowError,
    ) as error:
        raise ProtocolError(f"cannot encode {message} v{version}: {error}") from error
    return bytes(out)


def decode(
    message: str, version: int, data: Buffer, offset: int = 0, items: int = MOST_ITEMS
) -> tuple[dict[str, Any], int]:
    """Read ``message`` at ``version`` from ``data``; return its body and the offset after it.

    All its arrays together may have ``items``, which is checked before they are created. The body
    holds every field of the schema, with defaults for fields that the version lacks. Raises
    :class:`ProtocolError` for bytes that are not such a message.
    """
    _, decoder = _COMPILED.get((message, version)) or _compiled(message, version)
    try:
        return decoder(data, offset, len(data), [items])
    except UNREADABLE as error:
        reason = unreadable(message, version, error)  # avoids a cycle of exception and frame
    raise ProtocolError(reason)


def unreadable(message: str, version: int, error: Exception) -> str:
    """Return why bytes are not ``message``; ``error`` is one of :data:`UNREADABLE`."""
    if isinstance(error, UnicodeDecodeError):
        reason = f"a string is not UTF-8 ({error.reason})"
    elif isinstance(error, MalformedError):
        reason = str(error)
    else:
        reason = "it ends too early"
    return f"cannot decode {message} v{version}: {reason}"


def _compiled(message: str, version: int) -> tuple[Encoder, Decoder]:
    schema = MESSAGES.get(message)
    if schema is None:
        raise ProtocolError(f"there is no message {message}")
    if version not in schema.valid:
        known = f"{schema.valid.low} to {schema.valid.high}"
        raise ProtocolError(f"{message} has versions {known}, not {version}")
    compiled = _COMPILED[message, version] = compile_message(schema, version)
    return compiled
