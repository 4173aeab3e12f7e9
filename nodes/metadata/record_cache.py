"""The framed records of an image, kept from one snapshot to the next.

Most of an image is the same in consecutive snapshots, and encoding a record costs twenty times as
much as finding it here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kraftwreck.nodes.metadata.image_records_writing import entries
from kraftwreck.nodes.metadata.image_values import ImageView
from kraftwreck.nodes.protocol.records import encode_record

MOST_RECORDS: Final = 1 << 16
"""Records kept, the first of the image: some 20 MB."""

_Kept = dict[str, dict[Any, tuple[Any, int, bytes]]]
"""By record name and key: the value, the version and the bytes they make."""


class RecordCache:
    """Encodes the images of one node, of which there is one at a time."""

    def __init__(self, most: int = MOST_RECORDS) -> None:
        self._most = most
        self._kept: _Kept = {}

    def clear(self) -> None:
        """Forget everything: the image was replaced."""
        self._kept = {}

    def encode(self, image: ImageView) -> Iterator[bytes]:
        """Yield the framed records of the whole image, which must not change unless frozen.

        The cache is replaced once all were consumed.
        """
        before = self._kept
        after: _Kept = {}
        room = self._most
        for name, version, key, value, fields in entries(image):
            found = before[name].get(key) if name in before else None
            # Identity, not equality: values are immutable.
            if found is None or found[0] is not value or found[1] != version:
                found = (value, version, encode_record(name, version, fields(key, value, version)))
            if room > 0:
                room -= 1
                kept = after.get(name)
                if kept is None:
                    kept = after[name] = {}
                kept[key] = found
            yield found[2]
        self._kept = after
