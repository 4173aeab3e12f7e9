"""The input log: everything a node was told, so that it can be run again offline.

The node is a pure function of its inputs. One JSON line opens each process start::

    {"start": incarnation, "now": µs, "wall_ms": ms, "config": {...}, "quorum_state": ...,
     "log_start": offset, "log_end": offset, "log": digest of the recovered batches,
     "snapshots": [[end, epoch, size, timestamp], ...], "latest": digest of the last of them,
     "effects": digest of what start() returned}

and one line follows for each step::

    {"now": µs, "wall_ms": ms, "event": {...}, "effects": digest}

A line is written before the effects of its step are carried out: whatever is on the disk
can be explained by the log. :func:`replay` re-executes and compares; log and snapshots of a
start are derived from the effects before it (``nodes.server.recorded_disk``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from nodes.consensus.effects import AppendSnapshot, Effect, Event, FatalError
from nodes.consensus.recovered import Recovered
from nodes.log.media import write_fully
from nodes.node import Node, NodeConfig
from nodes.server.plain import from_plain, to_plain
from nodes.server.recorded_disk import RecordedDisk, digest_bytes, recovered_to_plain

FATAL: Final = "fatal"
"""Stands in the place of the effects' digest when the step raised FatalError."""
_NOT_GIVEN: Final = "the log given is not the one the node started with"
_NOT_WRITTEN: Final = "the recovered log is not what the node had written"


def digest_effects(effects: Sequence[Effect]) -> str:
    """Return 16 hex digits that tell the effects of one step from any others."""
    pieces = [effect.data for effect in effects if isinstance(effect, AppendSnapshot)]
    return digest_bytes([repr(effects).encode(), *pieces])


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
                **recovered_to_plain(recovered),
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


def replay(
    path: Path,
    batches: Sequence[bytes] = (),
    snapshots: Mapping[tuple[int, int], bytes] | None = None,
) -> Mismatch | None:
    """Run the node of an input log again; return the first difference, None if there is none.

    ``batches`` and ``snapshots`` (contents by (end offset, epoch)) are what was on disk at the
    first process start in the file, without the bootstrap snapshot; later starts are checked
    against what the re-execution has written by then. A start with another directory id than the
    one before has a disk of its own, which was formatted anew. Raises OSError, and ValueError
    for a file that is not an input log.
    """
    node: Node | None = None
    disk = RecordedDisk(batches, snapshots)
    directory: object = None
    seen = False
    for number, line in _lines(path):
        if "start" in line:
            try:
                if seen and line["config"]["directory_id"] != directory:
                    disk = RecordedDisk()
                directory = line["config"]["directory_id"]
                recovered = disk.recovered_as(line)
            except KeyError as error:
                raise ValueError(
                    f"{path}, line {number}: a process start without {error}"
                ) from error
            if recovered is None:
                return Mismatch(number, _NOT_WRITTEN if seen else _NOT_GIVEN)
            seen = True
            node, effects = _started(line, recovered)
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


def _started(line: dict[str, Any], recovered: Recovered) -> tuple[Node | None, Any]:
    config = config_from_plain(line["config"])
    try:
        node = Node(config, recovered, line["now"], line["wall_ms"])
        return node, node.start(line["now"], line["wall_ms"])
    except FatalError:
        return None, None


def _stepped(node: Node, line: dict[str, Any]) -> list[Effect] | None:
    try:
        return node.step(from_plain(line["event"]), line["now"], line["wall_ms"])
    except FatalError:
        return None
