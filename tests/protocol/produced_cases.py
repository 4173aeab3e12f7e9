"""Records that a producer may send, right and wrong, by name."""

from __future__ import annotations

import struct

from kraftwreck.nodes.log.batch import encode_batch
from kraftwreck.nodes.log.crc import crc32c

TIME = 1_700_000_000_000
MOST_BYTES = 2000
HOUR_MS = 3_600_000


def batch(size: int = 20, count: int = 2) -> bytes:
    """A sound batch of records with values of ``size`` bytes."""
    return encode_batch(0, -1, TIME, [(None, b"x" * size)] * count, False)


def changed(data: bytes, form: str, position: int, value: int) -> bytes:
    """Return a batch with one field changed and its checksum right again."""
    out = bytearray(data)
    struct.pack_into(f">{form}", out, position, value)
    struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


GOOD = batch()
CASES: dict[str, tuple[int, bytes]] = {
    "sound": (9, GOOD),
    "sound of version 3": (3, GOOD),
    "empty": (9, b""),
    "cut in the header": (9, GOOD[:40]),
    "cut in the records": (9, GOOD[:-1]),
    "garbage of 10 bytes after it": (9, GOOD + b"\xff" * 10),
    "the start of another after it": (9, GOOD + GOOD[:50]),
    "two": (9, GOOD + GOOD),
    "a wrong checksum": (9, GOOD[:-1] + b"\x01"),
    "magic 0": (9, GOOD[:16] + b"\x00" + GOOD[17:]),
    "magic 1": (9, GOOD[:16] + b"\x01" + GOOD[17:]),
    "magic 3": (9, GOOD[:16] + b"\x03" + GOOD[17:]),
    "magic 255": (9, GOOD[:16] + b"\xff" + GOOD[17:]),
    "a base offset": (9, changed(GOOD, "q", 0, 5)),
    "a leader epoch": (9, changed(GOOD, "i", 12, 77)),
    "a count too large": (9, changed(GOOD, "i", 57, 3)),
    "count 0": (9, changed(GOOD, "i", 57, 0)),
    "count -1": (9, changed(GOOD, "i", 57, -1)),
    "a delta too large": (9, changed(GOOD, "i", 23, 7)),
    "control": (9, changed(GOOD, "h", 21, 0x20)),
    "a producer without a sequence": (9, changed(GOOD, "q", 43, 1000)),
    "the time of the append": (9, changed(GOOD, "h", 21, 0x08)),
    "codec 5": (9, changed(GOOD, "h", 21, 5)),
    "codec 7": (9, changed(GOOD, "h", 21, 7)),
    "zstd of version 6": (6, changed(GOOD, "h", 21, 4)),
    "too large": (9, batch(1500)),
    "too large and a wrong checksum": (9, batch(1500)[:-1] + b"\x01"),
    "length 13": (9, GOOD[:8] + struct.pack(">i", 13) + GOOD[12:]),
    "length 20": (9, GOOD[:8] + struct.pack(">i", 20) + GOOD[12:]),
    "length -1": (9, GOOD[:8] + struct.pack(">i", -1) + GOOD[12:]),
    "a length beyond its end": (9, GOOD[:8] + struct.pack(">i", 5000) + GOOD[12:]),
}
