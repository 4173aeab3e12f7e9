"""The input log: everything a node was told, so that it can be run again offline.

The node is a pure function of its inputs. One JSON line opens each process start::

    {"start": incarnation, "now": µs, "wall_ms": ms, "config": {...}, "quorum_state": ...,
     "log": digest of the recovered batches, "effects": digest of what start() returned}

and one line follows for each step::

    {"now": µs, "wall_ms": ms, "event": {...}, "effects": digest}

A line is written before the effects of its step are carried out: whatever is on the disk
can be explained by the log. :func:`replay` re-executes and compares.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from nodes.consensus.effects import (
    AppendLog,
    Effect,
    Event,
    FatalError,
    TruncateLog,
)
from nodes.consensus.recovered import Recovered
from nodes.log.batch import parse_header
from nodes.log.media import write_fully
from nodes.node import Node, NodeConfig
from nodes.server.plain import from_plain, to_plain

FATAL = "fatal"
"""Stands in the place of the effects' digest when the step raised FatalError."""


def digest_effects(effects: Sequence[Effect]) -> str:
    """Return 16 hex digits that tell the effects of one step from any others."""
    return hashlib.blake2b(repr(effects).encode(), digest_size=8).hexdigest()


def digest_log(batches: Iterable[bytes]) -> str:
    """Return 16 hex digits for the bytes of a whole log."""
    state = hashlib.blake2b(digest_size=8)
    for batch in batches:
        state.update(batch)
    return state.hexdigest()


def config_to_plain(config: NodeConfig) -> dict[str, Any]:
    """Return the settings as JSON values."""
    return {field.name: to_plain(getattr(config, field.name)) for field in fields(config)} | {
        "voters": {str(voter): to_plain(e) for voter, e in sorted(config.voters.items())}
    }


def config_from_plain(plain: dict[str, Any]) -> NodeConfig:
    """Return the settings :func:`config_to_plain` was given."""
    values = {name: from_plain(value) for name, value in plain.items()}
    values["voters"] = {int(voter): endpoint for voter, endpoint in values["voters"].items()}
    return NodeConfig(**values)


def _bytes_as_hex(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"cannot write a {type(value).__name__} as JSON")


class LineFile:
    """Appends JSON lines to a file, each batch of lines with one write(2)."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        size = os.fstat(self._fd).st_size
        # A line torn by a crash must not swallow the first line after it.
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            write_fully(self._fd, b"\n")

    def write(self, lines: Sequence[dict[str, Any]]) -> None:
        """Append ``lines``. Raises OSError."""
        if lines:
            text = "".join(
                json.dumps(line, separators=(",", ":"), default=_bytes_as_hex) + "\n"
                for line in lines
            )
            write_fully(self._fd, text.encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class InputLog:
    """Writes the input log of one process; with ``path`` None it writes nothing."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else LineFile(path)

    def start(
        self,
        config: NodeConfig,
        recovered: Recovered,
        now: int,
        wall_ms: int,
        effects: Sequence[Effect] | None,
    ) -> None:
        """Write the line of a process start; ``effects`` None: it was fatal."""
        if self._file is not None:
            line = {
                "start": config.incarnation,
                "now": now,
                "wall_ms": wall_ms,
                "config": config_to_plain(config),
                "quorum_state": to_plain(recovered.quorum_state),
                "log": digest_log(recovered.batches),
                "effects": FATAL if effects is None else digest_effects(effects),
            }
            self._file.write([line])

    def step(self, event: Event, now: int, wall_ms: int, effects: Sequence[Effect] | None) -> None:
        """Write the line of one step; ``effects`` None: it was fatal."""
        if self._file is not None:
            line = {
                "now": now,
                "wall_ms": wall_ms,
                "event": to_plain(event),
                "effects": FATAL if effects is None else digest_effects(effects),
            }
            self._file.write([line])


@dataclass(slots=True, frozen=True)
class Mismatch:
    """Where the re-execution differs: line number (from 1), and how."""

    line: int
    reason: str


class _Disk:
    """The log a node must have on disk after its effects, for the next process start."""

    def __init__(self, batches: Sequence[bytes]) -> None:
        self.batches = list(batches)
        self._last: Sequence[Effect] = ()

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Take the effects of a step; those of the step before surely were carried out."""
        for effect in self._last:
            self._one(effect)
        self._last = effects

    def _one(self, effect: Effect) -> None:
        if isinstance(effect, AppendLog):
            self.batches.append(effect.batch)
        elif isinstance(effect, TruncateLog):
            while self.batches and parse_header(self.batches[-1]).last_offset >= effect.end_offset:
                self.batches.pop()

    def recovered_as(self, digest: str) -> bool:
        """Find the state with this digest: the last step may have been carried out in part."""
        effects, self._last = self._last, ()
        found = digest_log(self.batches) == digest
        for effect in effects:
            if found:
                break
            if isinstance(effect, AppendLog | TruncateLog):
                self._one(effect)
                found = digest_log(self.batches) == digest
        return found


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the whole lines; what a crash tore off is left out."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield number, value


def replay(path: Path, batches: Sequence[bytes] = ()) -> Mismatch | None:
    """Run the node of an input log again; return the first difference, None if there is none.

    ``batches`` is the log on disk at the first process start in the file; later starts are
    checked against what the re-execution has written by then. Raises OSError, and
    ValueError for a file that is not an input log.
    """
    node: Node | None = None
    disk = _Disk(batches)
    seen = False
    for number, line in _lines(path):
        if "start" in line:
            if not seen and digest_log(batches) != line["log"]:
                return Mismatch(number, "the log given is not the one the node started with")
            if seen and not disk.recovered_as(line["log"]):
                return Mismatch(number, "the recovered log is not what the node had written")
            seen = True
            node, effects = _started(line, disk.batches)
        elif not seen:
            raise ValueError(f"{path}, line {number}: the first line is not a process start")
        elif node is None:
            return Mismatch(number, "a step after the node had stopped fatally")
        else:
            effects = _stepped(node, line)
        digest = FATAL if effects is None else digest_effects(effects)
        if digest != line["effects"]:
            return Mismatch(number, f"effects {digest}, recorded {line['effects']}: {effects!r}")
        if effects is None:
            node = None
        else:
            disk.carry_out(effects)
    if not seen:
        raise ValueError(f"{path} holds no process start")
    return None


def _started(line: dict[str, Any], batches: Sequence[bytes]) -> tuple[Node | None, Any]:
    config = config_from_plain(line["config"])
    state = from_plain(line["quorum_state"])
    try:
        node = Node(config, Recovered(state, batches), line["now"], line["wall_ms"])
        return node, node.start(line["now"], line["wall_ms"])
    except FatalError:
        return None, None


def _stepped(node: Node, line: dict[str, Any]) -> list[Effect] | None:
    try:
        return node.step(from_plain(line["event"]), line["now"], line["wall_ms"])
    except FatalError:
        return None
