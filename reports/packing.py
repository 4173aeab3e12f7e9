"""Embed data in an HTML page compactly and safely.

Number columns are split into byte planes, deflated and encoded as base64, which takes about 6
bytes per operation. The page unpacks them with ``DecompressionStream``. JSON is escaped so that no
text in it can end the script element that contains it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

Column = NDArray[Any]

_TYPES = {"u1": "u8", "u2": "u16", "u4": "u32", "i4": "i32", "f8": "f64"}


def script_json(value: Any) -> Markup:
    """Return ``value`` as JSON that is safe inside a script element."""
    text = msgspec.json.encode(value).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - every character that could end the element is gone


def _deflate(data: bytes) -> str:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return base64.b64encode(packer.compress(data) + packer.flush()).decode()


def pack_text(texts: list[str]) -> str:
    """Return the JSON array of ``texts``, deflated, as base64."""
    return pack_json(texts)


def pack_json(value: Any) -> str:
    """Return ``value`` as JSON, deflated, as base64."""
    return _deflate(msgspec.json.encode(value))


def smallest(values: Column) -> Column:
    """Return non-negative integers in the narrowest unsigned type that holds them."""
    top = int(values.max()) if len(values) else 0
    return values.astype(np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.uint32)


def pack_columns(columns: Mapping[str, Column]) -> dict[str, Any]:
    """Return ``{"rows", "columns": [[name, type]], "data"}`` for equally long ``columns``.

    Types are u8, u16, u32, i32 and f64, little endian. A column's bytes are ordered by
    significance first and by row second, which compresses much better.
    """
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns differ in length: {sorted(lengths)}")
    planes = bytearray()
    names = []
    for name, column in columns.items():
        column = column.astype(column.dtype.newbyteorder("<"))
        names.append([name, _TYPES[column.dtype.str[1:]]])
        width = column.dtype.itemsize
        planes += np.ascontiguousarray(column.view(np.uint8).reshape(-1, width).T).tobytes()
    rows = lengths.pop() if lengths else 0
    return {"rows": rows, "columns": names, "data": _deflate(bytes(planes))}
