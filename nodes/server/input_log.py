"""The input log: every input of a node, so that it can be run again offline.

The node is a pure function of its inputs. One JSON line opens each process start::

    {"start": incarnation, "now": µs, "wall_us": µs, "config": {...}, "quorum_state": ...,
     "log_start": offset, "log_end": offset, "log": digest of the recovered batches,
     "snapshots": [[end, epoch, size, timestamp], ...], "latest": digest of the last of them,
     "effects": digest of what start() returned, "sum": seal}

and one line follows for each step::

    {"now": µs, "wall_us": µs, "event": {...}, "effects": digest, "sum": seal}

A line is written before the effects of its step are carried out, so the log explains everything on
the disk. Seals (``nodes.server.line_file``) reveal changes of the log. ``nodes.server.reexecution``
runs the node again and compares; log and snapshots of a start are derived from the effects before
it (``nodes.server.recorded_disk``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import AppendSnapshot
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.effects import NodeEffect, NodeEvent
from kraftwreck.nodes.log.media import PLAIN, Media
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.server.line_file import LineFile, encode_line
from kraftwreck.nodes.server.plain import from_plain, to_plain
from kraftwreck.nodes.server.recorded_disk import digest_bytes, recovered_to_plain

FATAL: Final = "fatal"
"""Replaces the digest of the effects when the step raised FatalError."""


def digest_effects(effects: Sequence[NodeEffect]) -> str:
    """Return 16 hex digits that identify the effects of one step."""
    pieces = [effect.data for effect in effects if isinstance(effect, AppendSnapshot)]
    return digest_bytes([repr(effects).encode(), *pieces])


def config_to_plain(config: NodeConfig) -> dict[str, Any]:
    """Return the settings as JSON values."""
    return {field.name: to_plain(getattr(config, field.name)) for field in fields(config)} | {
        "voters": {str(voter): to_plain(e) for voter, e in sorted(config.voters.items())}
    }


def config_from_plain(plain: dict[str, Any]) -> NodeConfig:
    """Return the settings passed to :func:`config_to_plain`."""
    values = {name: from_plain(value) for name, value in plain.items()}
    values["voters"] = {int(voter): endpoint for voter, endpoint in values["voters"].items()}
    return NodeConfig(**values)


class InputLog:
    """Writes the input log of one process; with ``path`` None it writes nothing."""

    def __init__(self, path: Path | None, media: Media = PLAIN) -> None:
        self._file = None if path is None else LineFile(path, sealed=True, media=media)

    def start(
        self,
        config: NodeConfig,
        recovered: Recovered,
        now: int,
        wall_us: int,
        effects: Sequence[NodeEffect] | None,
    ) -> None:
        """Write the line of a process start; ``effects`` None: it was fatal."""
        if self._file is not None:
            line = {
                "start": config.incarnation,
                "now": now,
                "wall_us": wall_us,
                "config": config_to_plain(config),
                **recovered_to_plain(recovered),
                "effects": FATAL if effects is None else digest_effects(effects),
            }
            self._file.write([encode_line(line)])

    def step(
        self, event: NodeEvent, now: int, wall_us: int, effects: Sequence[NodeEffect] | None
    ) -> None:
        """Write the line of one step; ``effects`` None: it was fatal."""
        if self._file is not None:
            line = {
                "now": now,
                "wall_us": wall_us,
                "event": to_plain(event),
                "effects": FATAL if effects is None else digest_effects(effects),
            }
            self._file.write([encode_line(line)])
