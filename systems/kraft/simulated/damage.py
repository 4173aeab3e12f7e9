"""A byte that is wrong on arrival although TCP's checksum is right.

Such bytes happen (Stone and Partridge, SIGCOMM 2000: one packet in millions to billions). Only
bytes under the checksum of a record batch are damaged here, and never the header bytes that locate
it: Kafka protects no other bytes.
"""

from __future__ import annotations

from dataclasses import replace

from kraftwreck.nodes.consensus.kraft.messages import (
    FetchResponse,
    FetchSnapshotResponse,
    Response,
)
from kraftwreck.nodes.draw import draw
from kraftwreck.nodes.log.batch import CRC_START, HEADER_SIZE, BatchError, parse_header

_CRC_SIZE = 4


def carries(message: Response) -> bool:
    """Whether the message has bytes that could be damaged."""
    if type(message) is FetchResponse:
        return bool(message.records)
    return type(message) is FetchSnapshotResponse


def damaged(message: Response, number: int, file: bytes = b"") -> Response:
    """Return ``message`` with one protected byte changed, which ``number`` chooses.

    ``file`` is the whole snapshot that an answer to FetchSnapshot has a piece of. The message
    itself is returned if it has no protected byte.
    """
    if isinstance(message, FetchResponse):
        place = _protected(message.records, 0, len(message.records), number)
        if place is not None:
            return replace(message, records=_flip(message.records, place, number))
    elif isinstance(message, FetchSnapshotResponse):
        begin = message.position
        place = _protected(file, begin, begin + len(message.data), number)
        if place is not None:
            return replace(message, data=_flip(message.data, place - begin, number))
    return message


def _protected(content: bytes, begin: int, end: int, number: int) -> int | None:
    """Return a place in ``content[begin:end]`` whose damage a checksum must show, or None."""
    spans: list[tuple[int, int]] = []
    start = 0
    while start < end:
        try:
            length = parse_header(content, start).length
        except BatchError:
            break
        whole = min(start + length, len(content))
        for low, high in (
            (start + CRC_START - _CRC_SIZE, start + CRC_START),
            (start + HEADER_SIZE, whole),
        ):
            low, high = max(low, begin), min(high, end)
            if low < high:
                spans.append((low, high))
        start += length
    total = sum(high - low for low, high in spans)
    if not total:
        return None
    left = draw(number, "place") % total
    for low, high in spans:
        if left < high - low:
            return low + left
        left -= high - low
    return None


def _flip(content: bytes, place: int, number: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 1 << draw(number, "bit") % 8
    return bytes(changed)
