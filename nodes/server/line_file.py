"""Files of JSON lines that grow while a node runs, and the seal that protects each line.

A sealed line ends with ``"sum"``: 16 hex digits of a digest over the previous line's sum and its
own text. So any edit, deletion, insertion or reordering is detected, even one that would not change
the node's behaviour. A line torn by a crash has no sum and is skipped; the next write first adds
the missing newline.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kraftwreck.nodes.log.media import PLAIN, Media

_SUM: Final = re.compile(rb',"sum":"([0-9a-f]{16})"}')
_SUM_BYTES: Final = len(b',"sum":"0123456789abcdef"}')
_BLOCK: Final = 1 << 16


class DamagedError(ValueError):
    """A line that was changed or moved after it was written; ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def encode_line(line: dict[str, Any]) -> bytes:
    """Return one JSON value as bytes without a newline."""
    return json.dumps(line, separators=(",", ":"), default=_bytes_as_hex).encode()


def _bytes_as_hex(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"cannot write a {type(value).__name__} as JSON")


class Seal:
    """Seals lines one after the other; ``last`` is the sum of the line before the first."""

    def __init__(self, last: bytes = b"") -> None:
        self._last = last

    def close(self, text: bytes) -> bytes:
        """Return the JSON object ``text`` with its sum as its last member."""
        self._last = self._sum(text)
        return b'%b,"sum":"%b"}' % (text[:-1], self._last)

    def holds(self, line: bytes) -> bool:
        """Whether ``line`` has the right sum; if so the next line is checked against it."""
        if not _SUM.fullmatch(line[-_SUM_BYTES:]):
            return False
        found = self._sum(line[:-_SUM_BYTES] + b"}")
        if found != line[-18:-2]:
            return False
        self._last = found
        return True

    def _sum(self, text: bytes) -> bytes:
        return hashlib.blake2b(self._last + text, digest_size=8).hexdigest().encode()


class LineFile:
    """Appends JSON lines to a file, each batch of lines with one write(2).

    With ``sealed`` every new line gets its sum. ``media`` is the file system.
    """

    def __init__(self, path: Path, *, sealed: bool = False, media: Media = PLAIN) -> None:
        self._file = media.open(path)
        size = media.size(path)
        # A line torn by a crash must not swallow the first line after it.
        torn = size > 0 and media.read_at(path, size - 1, 1) != b"\n"
        self._first = b"\n" if torn else b""
        self._seal = Seal(_last_sum(media, path, size)) if sealed else None

    def write(self, lines: Sequence[bytes]) -> None:
        """Append ``lines``, each a JSON object without a newline. Raises OSError."""
        if lines:
            if self._seal is not None:
                lines = [self._seal.close(line) for line in lines]
            first, self._first = self._first, b""
            self._file.append(first + b"\n".join(lines) + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _last_sum(media: Media, path: Path, size: int) -> bytes:
    """Return the sum of the last whole line of a file, empty if there is none."""
    tail, start = b"", size
    while start:
        before = max(0, start - _BLOCK)
        tail = media.read_at(path, before, start - before) + tail
        start = before
        ends = [match for match in _SUM.finditer(tail) if tail[match.end() :][:1] in (b"", b"\n")]
        if ends:
            return ends[-1][1]
    return b""


def sealed_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield (number, content) of the lines of a sealed file; None for one torn by a crash.

    A line can be torn only where a process ended: at the end of the file, without a newline, or
    before a line that opens a process start (``"start"``). Raises OSError, and
    :class:`DamagedError` for any other damage.
    """
    seal = Seal()
    torn = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            line = raw.removesuffix(b"\n")
            if seal.holds(line):
                content = _object(line)
                if content is None:
                    raise DamagedError(number, "not a JSON object")
                if torn and "start" not in content:
                    raise DamagedError(torn, "the line is torn, but no process ended there")
                torn = 0
                yield number, content
            elif _object(raw) is not None or not raw.startswith(b"{"):
                raise DamagedError(number, "the line was changed after it was written")
            else:
                torn = number
                yield number, None
                if not raw.endswith(b"\n"):
                    return
    if torn:
        raise DamagedError(torn, "the line was changed after it was written")


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
