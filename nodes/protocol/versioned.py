"""Messages preceded by their version, as an int16.

These are the principal of an Envelope request (``DefaultPrincipalData``) and the keys and values of
``__consumer_offsets``, whose reader has no request header to take a version from.
"""

from __future__ import annotations

import struct
from typing import Any

from kraftwreck.nodes.protocol.codec import ProtocolError, decode, encode
from kraftwreck.nodes.protocol.primitives import Buffer

_VERSION = struct.Struct(">h")


def encode_versioned(message: str, version: int, body: dict[str, Any]) -> bytes:
    """Return int16 ``version`` and ``body`` as the bytes of ``message`` at that version.

    Raises :class:`ProtocolError` as :func:`nodes.protocol.codec.encode` does.
    """
    encoded = encode(message, version, body)
    return _VERSION.pack(version) + encoded


def decode_versioned(message: str, data: Buffer) -> tuple[int, dict[str, Any]]:
    """Return version and body of ``message``; bytes after it are ignored.

    Raises :class:`ProtocolError` for an unknown version and for bytes that are no such message.
    """
    if len(data) < _VERSION.size:
        raise ProtocolError(f"cannot decode {message}: it ends inside its version")
    (version,) = _VERSION.unpack_from(data)
    body, _ = decode(message, version, data, _VERSION.size)
    return version, body
