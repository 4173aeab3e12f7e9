"""Writes the parts that messages written by hand share: lengths of arrays, names and ids of topics.

:mod:`nodes.protocol.reader` reads them.
"""

from __future__ import annotations

from struct import Struct

from kraftwreck.nodes.protocol.primitives import put_uvarint

_INT = Struct(">i")
_SHORT = Struct(">h")


def put_count(out: bytearray, count: int, flexible: bool) -> None:
    """Append the length of an array, in plain or in flexible versions."""
    if flexible:
        put_uvarint(out, count + 1)
    else:
        out += _INT.pack(count)


def put_topic(out: bytearray, topic: str | bytes, flexible: bool) -> None:
    """Append a topic's name, or the 16 bytes of its id."""
    if isinstance(topic, bytes):
        out += topic
        return
    name = topic.encode()
    if flexible:
        put_uvarint(out, len(name) + 1)
    else:
        out += _SHORT.pack(len(name))
    out += name
