"""The trace that a node must have written according to its re-execution."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kraftwreck.nodes.consensus.effects import WAITING
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.server.line_file import DamagedError
from kraftwreck.nodes.server.trace_file import TraceLines

_LOG_REFUSED: Final = "the log cannot take this: "
"""Start of the reason when the shell, not the node, stopped because of the log.

Any reason of a ``stop`` is the shell's, too: the disk failed.
"""


class _Line(NamedTuple):
    number: int
    text: bytes
    whole: bool

    def get(self, name: str) -> Any:
        """Return a member of the line, None if it is missing."""
        try:
            value = json.loads(self.text)
        except ValueError:
            return None
        return value.get(name) if isinstance(value, dict) else None

    @property
    def of_shell(self) -> bool:
        """Whether the line is why the shell stopped, and not the node."""
        if self.get("kind") == "stop":
            detail = self.get("detail")
            return isinstance(detail, dict) and "reason" in detail
        return self.reason.startswith(_LOG_REFUSED)

    @property
    def reason(self) -> str:
        """Why the node stopped, "" for any other line."""
        detail = self.get("detail") if self.get("kind") == "fatal" else None
        reason = detail.get("reason") if isinstance(detail, dict) else None
        return reason if isinstance(reason, str) else ""


class RecordedTrace:
    """Compares a trace file, line by line, with the expected trace of the processes of ``node``.

    A step is traced after its line in the input log, by one write. So only the trace of a process's
    last step may be missing, wholly or from some point on; and if that step flushes, the traces of
    the steps of its data plane meanwhile. Methods raise
    :class:`~nodes.server.line_file.DamagedError`, whose line is that of the input log, 0 for its
    last one.
    """

    def __init__(self, path: Path, node: str) -> None:
        self.compared = 0
        """Lines that were as expected."""
        self._node = node
        self._incarnation = 0
        self._lines = _read(path)
        self._next = next(self._lines, None)
        self._expected = TraceLines(node, 0)
        self._lacking = 0
        """The line of the input log whose trace is incomplete."""
        self._flushes = False
        """Whether the last step, except those of the data plane, waits for the disk."""

    def begin(self, incarnation: int) -> None:
        """Record a process start, which ends the process before."""
        self._leave()
        self._flushes = False
        self._incarnation = incarnation
        self._expected = TraceLines(self._node, incarnation)

    def step(
        self,
        number: int,
        effects: Sequence[NodeEffect],
        now: int,
        wall: int,
        *,
        of_records: bool = False,
    ) -> None:
        """Check the trace of a step that gave ``effects``, line ``number`` of the input log.

        ``of_records``: it is a step of the data plane.
        """
        if not of_records:
            self._flushes = not WAITING.isdisjoint(map(type, effects))
        elif self._lacking and self._flushes:
            return
        self._match(number, self._expected.of(effects, now, wall))

    def fatal(self, number: int, reason: str, now: int, wall: int) -> None:
        """Check the trace of a step that stopped the node for ``reason``."""
        place, defect, _ = reason.partition(" at <FrameSummary")
        if self._lacking and self._flushes:
            return
        told = "" if self._next is None else self._next.reason
        if defect and told.startswith(place):
            reason = told  # The frame depends on where the code is installed.
        self._match(number, self._expected.fatal(reason, now, wall))

    def end(self) -> None:
        """Check that the trace ends with the input log."""
        self._leave()
        if self._next is not None:
            self._surplus(self._next)

    # --- inside ---------------------------------------------------------------------------

    def _match(self, number: int, lines: Sequence[bytes]) -> None:
        if lines and self._lacking:
            raise DamagedError(self._lacking, "the trace lacks this step")
        for line in lines:
            found = self._next
            if found is not None and found.whole and found.text == line:
                self.compared += 1
                self._advance()
            elif found is None or self._has_ended(found, line):
                self._lacking = number
                return
            else:
                raise DamagedError(
                    number,
                    f"line {found.number} of the trace is {found.text.decode(errors='replace')}, "
                    f"not {line.decode()}",
                )

    def _has_ended(self, found: _Line, line: bytes) -> bool:
        """Whether ``found`` shows that the process ended before it had written ``line``."""
        if len(found.text) < len(line) and line.startswith(found.text):
            self._advance()
            # A torn line is either the last one, or followed by a newline and more lines.
            return found.whole == (self._next is not None)
        incarnation = found.get("incarnation")
        later = isinstance(incarnation, int) and incarnation > self._incarnation
        return later or found.of_shell

    def _leave(self) -> None:
        """Skip a line of the shell at the end of a process; reject any other."""
        self._lacking = 0
        if self._next is not None and self._next.of_shell:
            self._advance()
        if self._next is not None and self._next.get("incarnation") == self._incarnation:
            self._surplus(self._next)

    def _surplus(self, line: _Line) -> None:
        raise DamagedError(
            0, f"line {line.number} of the trace is from a step that the input log lacks"
        )

    def _advance(self) -> None:
        self._next = next(self._lines, None)


def _read(path: Path) -> Iterator[_Line]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield _Line(number, line.rstrip(b"\n"), line.endswith(b"\n"))
