"""Runs the node of an input log again and compares all its effects with the recorded ones."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.events import FromShell
from kraftwreck.nodes.server.input_log import (
    FATAL,
    Answers,
    config_from_plain,
    digest_effects,
)
from kraftwreck.nodes.server.line_file import DamagedError, sealed_lines
from kraftwreck.nodes.server.plain import from_plain
from kraftwreck.nodes.server.recorded_disk import RecordedDisk
from kraftwreck.nodes.server.recorded_trace import RecordedTrace

_NOT_GIVEN: Final = "the log given is not the one the node started with"
_NOT_WRITTEN: Final = "the recovered log is not what the node had written"


@dataclass(slots=True, frozen=True)
class Mismatch:
    """The first difference of the re-execution: line of the input log (from 1), and reason."""

    line: int
    reason: str


class Watch(Protocol):
    """Sees the process starts and the steps of a node that runs again."""

    def start(self, recovered: Recovered, effects: Sequence[NodeEffect]) -> None:
        """Take in a start from the state on disk, and its effects."""
        ...

    def step(self, event: object, effects: Sequence[NodeEffect]) -> None:
        """Take in an event and all effects of its step."""
        ...


@dataclass(slots=True)
class Replayed:
    """Counts of a comparison: process ``starts``, ``inputs`` (steps), ``outputs`` and ``traced``.

    ``outputs`` are effects, compared by the digest of each step's. ``traced`` are trace lines,
    compared byte by byte; ``torn`` lines were skipped. ``mismatch`` is the first difference, None
    if there is none.
    """

    starts: int = 0
    inputs: int = 0
    outputs: int = 0
    traced: int = 0
    torn: int = 0
    mismatch: Mismatch | None = None


def replay(
    path: Path,
    batches: Sequence[bytes] = (),
    snapshots: Mapping[tuple[int, int], bytes] | None = None,
    *,
    trace: Path | None = None,
    node: str = "",
    watch: Watch | None = None,
) -> Replayed:
    """Run the node of an input log again, up to the first difference.

    ``batches`` and ``snapshots`` (contents by (end offset, epoch)) were on disk at the first
    process start in the file; the bootstrap snapshot is left out. Later starts are checked against
    the disk of the re-execution. A start with another directory id than the one before has a new,
    freshly formatted disk. With ``trace``, the traces of the processes of ``node`` are compared
    too. ``watch`` sees all steps that are the same as recorded. Raises OSError, and ValueError for
    a file that is not an input log; a changed line is a difference.
    """
    run = _Reexecution(path, RecordedDisk(batches, snapshots))
    run.trace = None if trace is None else RecordedTrace(trace, node)
    run.watch = watch
    number = 0
    try:
        for number, line in sealed_lines(path):
            run.take(number, line)
            if run.result.mismatch is not None:
                return run.result
        if run.trace is not None:
            run.trace.end()
            run.result.traced = run.trace.compared
    except DamagedError as damage:
        run.result.mismatch = Mismatch(damage.line or number, damage.reason)
    if not run.result.starts and run.result.mismatch is None:
        raise ValueError(f"{path} holds no process start")
    return run.result


class _Reexecution:
    def __init__(self, path: Path, disk: RecordedDisk) -> None:
        self.result = Replayed()
        self.trace: RecordedTrace | None = None
        self.watch: Watch | None = None
        self._path = path
        self._disk = disk
        self._node: Node | None = None
        self._answers = Answers()
        self._reason = ""
        self._directory: object = None

    def take(self, number: int, line: dict[str, Any] | None) -> None:
        """Run one line again, None for a torn one."""
        if line is None:
            self.result.torn += 1
            return
        if "start" in line:
            recovered = self._recovered(number, line)
            if recovered is None:
                reason = _NOT_WRITTEN if self.result.starts else _NOT_GIVEN
                self.result.mismatch = Mismatch(number, reason)
                return
            self.result.starts += 1
            if self.trace is not None:
                self.trace.begin(line["start"])
            effects = self._started(line, recovered)
            self._answers = Answers()
            self._compare(number, line, effects)
            if self.watch is not None and effects is not None and self.result.mismatch is None:
                self.watch.start(recovered, effects)
        elif not self.result.starts:
            raise ValueError(f"{self._path}, line {number}: the first line is not a process start")
        elif self._node is None:
            self.result.mismatch = Mismatch(number, "a step after the node had stopped fatally")
            return
        else:
            self.result.inputs += 1
            event = from_plain(line["event"])
            effects = self._stepped(self._node, event, line)
            self._compare(number, line, effects, of_records=isinstance(event, FromShell))
            answers = self._answers.of(event, effects or ())
            if self.result.mismatch is None and line.get("answers", answers) != answers:
                text = f"answers {answers!r}, recorded {line['answers']!r}"
                self.result.mismatch = Mismatch(number, text)
            if self.watch is not None and effects is not None and self.result.mismatch is None:
                self.watch.step(event, effects)

    def _compare(
        self,
        number: int,
        line: dict[str, Any],
        effects: Sequence[NodeEffect] | None,
        *,
        of_records: bool = False,
    ) -> None:
        digest = FATAL if effects is None else digest_effects(effects)
        if digest != line["effects"]:
            text = f"effects {digest}, recorded {line['effects']}: {effects!r}"
            self.result.mismatch = Mismatch(number, text)
            return
        now, wall = line["now"], line["wall_us"]
        if effects is None:
            self._node = None
            if self.trace is not None:
                self.trace.fatal(number, self._reason, now, wall)
        else:
            self.result.outputs += len(effects)
            if not of_records:  # Such a step may be over before the one that flushes.
                self._disk.carry_out(effects)
            if self.trace is not None:
                self.trace.step(number, effects, now, wall, of_records=of_records)
        if self.trace is not None:
            self.result.traced = self.trace.compared

    def _recovered(self, number: int, line: dict[str, Any]) -> Recovered | None:
        try:
            directory = line["config"]["directory_id"]
            if self.result.starts and directory != self._directory:
                self._disk = RecordedDisk()
            self._directory = directory
            return self._disk.recovered_as(line)
        except KeyError as error:
            text = f"{self._path}, line {number}: a process start without {error}"
            raise ValueError(text) from error

    def _started(self, line: dict[str, Any], recovered: Recovered) -> list[NodeEffect] | None:
        config, wall_ms = config_from_plain(line["config"]), line["wall_us"] // 1000
        try:
            self._node = Node(config, recovered, line["now"], wall_ms)
            return self._node.start(line["now"], wall_ms)
        except FatalError as end:
            self._reason = str(end)
            return None

    def _stepped(self, node: Node, event: Any, line: dict[str, Any]) -> list[NodeEffect] | None:
        try:
            return node.step(event, line["now"], line["wall_us"] // 1000)
        except FatalError as end:
            self._reason = str(end)
        except Exception as error:  # a defect, at which the shell stops the node too
            self._reason = f"{error!r} at {traceback.extract_tb(error.__traceback__)[-1]}"
        return None
