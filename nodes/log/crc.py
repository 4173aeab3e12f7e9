"""CRC-32C (Castagnoli), the checksum of record batches.

The ``crc32c`` package where it is present (24 GB/s). Otherwise ``libext2fs`` through ctypes, which
every Debian with e2fsprogs has (1.9 GB/s). Otherwise a table (12 MB/s), so that a node also runs on
a bare interpreter. All give the same numbers; :data:`SOURCE` names the one in use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Buffer = bytes | bytearray | memoryview
Crc32c = Callable[..., int]

_LIBRARY: Final = "libext2fs.so.2"
_ONES: Final = 0xFFFFFFFF
_CHECK: Final = (b"123456789", 0xE3069283)
"""The check value of the standard."""


def _table() -> tuple[int, ...]:
    entries = []
    for entry in range(256):
        for _ in range(8):
            entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
        entries.append(entry)
    return tuple(entries)


_TABLE: Final = _table()


def crc32c_by_table(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32C of ``data``, continuing from ``value``; standard library only."""
    table = _TABLE
    value ^= _ONES
    for byte in data:
        value = table[(value ^ byte) & 255] ^ value >> 8
    return value ^ _ONES


def crc32c_by_library(name: str = _LIBRARY) -> Crc32c | None:
    """Return the CRC-32C of the shared library ``name``; None if it is absent or wrong."""
    import ctypes  # Loading it takes longer than all of this module; the package needs it not.

    try:
        function = ctypes.CDLL(name).ext2fs_crc32c_le
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_uint32
    function.argtypes = (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)

    def crc32c(data: Buffer, value: int = 0) -> int:
        # A view that may not be written to has no address for ctypes; the copy is the cheaper part.
        whole = data if isinstance(data, bytes) else bytes(data)
        return int(function(value ^ _ONES, whole, len(whole))) ^ _ONES

    data, expected = _CHECK
    return crc32c if crc32c(data) == expected else None


def _without_package() -> tuple[Crc32c, str]:
    by_library = crc32c_by_library()
    return (crc32c_by_table, "a table") if by_library is None else (by_library, _LIBRARY)


crc32c: Crc32c
"""``crc32c(data, value=0)``: the CRC-32C of ``data``, continuing from ``value``."""
SOURCE: str
"""The source of :func:`crc32c`: the package, a library or the table."""

try:
    from crc32c import crc32c

    SOURCE = "the crc32c package"
except ImportError:
    crc32c, SOURCE = _without_package()
