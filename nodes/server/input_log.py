"""The input log: every input of a node, so that it can be run again offline.

The node is a pure function of its inputs. One JSON line opens each process start::

    {"start": incarnation, "now": µs, "wall_us": µs, "config": {...}, "quorum_state": ...,
     "log_start": offset, "log_end": offset, "log": digest of the recovered batches,
     "snapshots": [[end, epoch, size, timestamp], ...], "latest": digest of the last of them,
     "effects": digest of what start() returned, "sum": seal}

and one line follows for each step::

    {"now": µs, "wall_us": µs, "event": {...}, "effects": digest, "answers": [[token, {...}], ...],
     "sum": seal}

``answers`` are the bodies with which the step answers requests of :data:`ANSWERED`, left out if
there are none. The node is a function of its inputs, so they are no news to it: checkers of a run
judge them without running the node, whose code may be another one by then.

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

from kraftwreck.nodes.consensus.effects import Abandon, ApiReply, ApiRequest, AppendSnapshot
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.effects import NodeEffect, NodeEvent
from kraftwreck.nodes.log.media import PLAIN, Media
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.server.line_file import LineFile, encode_line
from kraftwreck.nodes.server.plain import from_plain, to_plain
from kraftwreck.nodes.server.recorded_disk import digest_bytes, recovered_to_plain

FATAL: Final = "fatal"
"""Replaces the digest of the effects when the step raised FatalError."""

ANSWERED: Final = frozenset(
    (
        "AllocateProducerIds",
        "AlterConfigs",
        "AlterPartition",
        "AlterPartitionReassignments",
        "BrokerHeartbeat",
        "BrokerRegistration",
        "CreatePartitions",
        "CreateTopics",
        "DeleteTopics",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeQuorum",
        "DescribeTopicPartitions",
        "ElectLeaders",
        "IncrementalAlterConfigs",
        "ListPartitionReassignments",
        "Metadata",
        "UnregisterBroker",
        "UpdateFeatures",
    )
)
"""Requests about the metadata. Their answers are recorded, except those to requests of
:data:`_LISTS` that name no topic: they list all of them."""

_LISTS: Final = frozenset(("DescribeTopicPartitions", "Metadata"))


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


class Answers:
    """Finds the answers that are recorded among the effects of one process."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def of(self, event: NodeEvent, effects: Sequence[NodeEffect]) -> list[Any]:
        """Return [token, body as JSON value] of each recorded answer of the next step."""
        if isinstance(event, ApiRequest) and _is_answered(event):
            self._open.add(event.token)
        found = []
        for effect in effects if self._open else ():
            if isinstance(effect, ApiReply | Abandon) and effect.token in self._open:
                self._open.remove(effect.token)
                if isinstance(effect, ApiReply):
                    found.append([effect.token, to_plain(effect.body)])
        return found


def _is_answered(request: ApiRequest) -> bool:
    lists_all = request.api in _LISTS and not request.body["topics"]
    return request.api in ANSWERED and not lists_all


class InputLog:
    """Writes the input log of one process; with ``path`` None it writes nothing."""

    def __init__(self, path: Path | None, media: Media = PLAIN) -> None:
        self._file = None if path is None else LineFile(path, sealed=True, media=media)
        self._answers = Answers()

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
            answers = self._answers.of(event, effects or ())
            if answers:
                line["answers"] = answers
            self._file.write([encode_line(line)])
