"""The lines of a JSON lines file, with a limit on their length, and a torn last line.

A recorder that is killed may leave an unfinished last line. It is left out of the history, as
Jepsen leaves out unwritten events; :func:`torn_line` names it.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from kraftwreck.histories.tables import HistoryError

MAX_LINE = 1 << 28
"""Bytes; a longer line is refused before it is parsed."""
_BLOCK = 1 << 16
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Exceptions that decoding a line may raise."""


def reason(error: Exception) -> str:
    """Return in words why a line or a file could not be decoded."""
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number, from 1, and the bytes of each line that is not blank or torn.

    Raises :class:`HistoryError` for a line of more than :data:`MAX_LINE` bytes, and OSError.
    """
    with path.open("rb") as file:
        short = path.stat().st_size <= MAX_LINE
        each = file if short else iter(partial(file.readline, MAX_LINE + 1), b"")
        for number, line in enumerate(each, start=1):
            if number == 1:
                line = line.removeprefix(BOM_UTF8)  # Editors of Windows write it.
            if line.endswith(b"\n"):
                if not line.isspace():
                    yield number, line
            elif len(line) > MAX_LINE:
                raise HistoryError(f"{path}:{number}: a line of more than {MAX_LINE:,} bytes")
            elif not line.isspace() and (number == 1 or _whole(line)):
                yield number, line


def _whole(line: bytes) -> bool:
    """Whether a line without a newline is whole JSON: some tools omit the last newline."""
    try:
        msgspec.json.decode(line)
    except RecursionError:
        return True
    except UNREADABLE:
        return False
    return True


def torn_line(path: Path) -> int | None:
    """Return the number of the last line if it is torn, else None.

    A torn line has no newline and is not whole JSON. The first line of a file is never torn: a file
    without one whole line is not JSON lines. Raises OSError.
    """
    with path.open("rb") as file:
        end, size, tail = path.stat().st_size, _BLOCK, b""
        while len(tail) < end and b"\n" not in tail and len(tail) <= MAX_LINE:
            file.seek(max(end - size, 0))
            tail, size = file.read(), 2 * size
        _, newline, tail = tail.rpartition(b"\n")
        if not newline or len(tail) > MAX_LINE or not tail.strip() or _whole(tail):
            return None
        file.seek(0)
        blocks = iter(partial(file.read, _BLOCK), b"")
        return sum(block.count(b"\n") for block in blocks) + 1
