"""``trace.jsonl``: one JSON line per transition, in the schema all node traces share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kraftwreck.nodes.consensus.effects import Trace
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.log.media import PLAIN, Media
from kraftwreck.nodes.server.line_file import LineFile, encode_line


class TraceLines:
    """Makes the lines of one process, in order.

    ``mono`` is monotonic, ``wall`` wall-clock microseconds of the step.
    """

    def __init__(self, node: str, incarnation: int) -> None:
        self._node = node
        self._incarnation = incarnation
        self._sequence = 0
        self._last = Trace("start", "unattached", 0, -1, -1, 0, -1)

    def of(self, effects: Iterable[NodeEffect], mono: int, wall: int) -> list[bytes]:
        """Return the lines of the trace effects among ``effects``."""
        lines = []
        for effect in effects:
            if type(effect) is Trace:
                self._last = effect
                lines.append(encode_line(self._line(effect, mono, wall)))
        return lines

    def fatal(self, reason: str, mono: int, wall: int) -> list[bytes]:
        """Return the line with the reason why the node stops and its last traced state."""
        return self._last_words("fatal", reason, mono, wall)

    def stop(self, reason: str, mono: int, wall: int) -> list[bytes]:
        """Return the line with the reason why the process ends although the node is sound.

        Empty for a node that has traced nothing yet.
        """
        return self._last_words("stop", reason, mono, wall) if self._sequence else []

    def _last_words(self, kind: str, reason: str, mono: int, wall: int) -> list[bytes]:
        last = self._last
        position = (last.state, last.epoch, last.leader, last.voted, last.leo, last.hw)
        return self.of([Trace(kind, *position, {"reason": reason})], mono, wall)

    def _line(self, trace: Trace, mono: int, wall: int) -> dict[str, Any]:
        line = {
            "node": self._node,
            "incarnation": self._incarnation,
            "seq": self._sequence,
            "mono": mono,
            "wall": wall,
            "kind": trace.kind,
            "state": trace.state,
            "epoch": trace.epoch,
            "leader": trace.leader,
            "voted": trace.voted,
            "leo": trace.leo,
            "hw": trace.hw,
            "detail": trace.detail,
        }
        self._sequence += 1
        return line


class TraceFile:
    """Writes trace events of one process; with ``path`` None it writes nothing."""

    def __init__(
        self, path: Path | None, node: str, incarnation: int, media: Media = PLAIN
    ) -> None:
        self._file = None if path is None else LineFile(path, media=media)
        self._lines = TraceLines(node, incarnation)

    def write(self, effects: Iterable[NodeEffect], mono: int, wall: int) -> None:
        """Append the trace effects among ``effects`` with one write. Raises OSError."""
        self._append(self._lines.of(effects, mono, wall))

    def fatal(self, reason: str, mono: int, wall: int) -> None:
        """Append the reason why the node stops. Raises OSError."""
        self._append(self._lines.fatal(reason, mono, wall))

    def stop(self, reason: str, mono: int, wall: int) -> None:
        """Append the reason why the process ends. Raises OSError."""
        self._append(self._lines.stop(reason, mono, wall))

    def _append(self, lines: list[bytes]) -> None:
        if self._file is not None:
            self._file.write(lines)
