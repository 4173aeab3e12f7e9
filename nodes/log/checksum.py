"""A checksum in text at the end of a small file, and the location of damage in it.

A CRC-32C has a Hamming distance of at least 4 up to 655 MB: of all files that differ from the
damaged one in one bit, at most one has a matching checksum.
"""

from __future__ import annotations

import re
from typing import Final

from kraftwreck.nodes.log.crc import crc32c

_DIGITS: Final = 8


class Checksum:
    """The checksum of a kind of file: ``before``, eight hex digits of CRC-32C, ``after``.

    It covers all bytes before ``before``.
    """

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after
        self._form = re.compile(re.escape(before) + rb"([0-9a-f]{8})" + re.escape(after))
        self._length = len(before) + _DIGITS + len(after)

    def add(self, body: bytes) -> bytes:
        """Return ``body`` with its checksum."""
        return body + self._before + b"%08x" % crc32c(body) + self._after

    def is_at_end_of(self, data: bytes) -> bool:
        """Return whether ``data`` ends with a checksum, right or wrong."""
        return self._form.fullmatch(data, max(len(data) - self._length, 0)) is not None

    def fits(self, data: bytes) -> bool:
        """Return whether ``data`` ends with the right checksum of the bytes before it."""
        end = max(len(data) - self._length, 0)
        match = self._form.fullmatch(data, end)
        return match is not None and int(match[1], 16) == crc32c(data[:end])

    def place_of_damage(self, data: bytes) -> str:
        """Return where ``data`` was changed, as ``byte 17 is 0x33, it was 0x32``.

        If no change of one bit explains the damage, the text names the range that is covered.
        """
        candidate = bytearray(data)
        for place, present in enumerate(data):
            for bit in range(8):
                candidate[place] = present ^ 1 << bit
                if self.fits(bytes(candidate)):
                    return f"byte {place} is 0x{present:02x}, it was 0x{candidate[place]:02x}"
            candidate[place] = present
        return f"no single bit of bytes 0 to {len(data) - 1} explains it"
