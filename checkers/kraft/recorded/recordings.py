"""The entry point ``kraft`` of recordings: how messages and disks are read from a run folder,
and the rules of a node's steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraftwreck.checkers.kraft.recorded.capture import Capture, read_messages
from kraftwreck.checkers.kraft.recorded.disk_image import DiskImage, read_images
from kraftwreck.checkers.kraft.steps import StepRules
from kraftwreck.checkers.recorded.clocks import NodeClock


class KraftRecordings:
    """The :class:`~checkers.recorded.run_data.Recordings` of KRaft."""

    def messages(
        self, run: Path, ids: dict[str, int], clocks: Mapping[str, NodeClock]
    ) -> Capture | None:
        """Return the messages in the nodes' input logs, None without logs."""
        return read_messages(run, ids, clocks)

    def step_rules(self, node: str) -> StepRules:
        """Return I3, I4 and I28 over the steps of ``node``."""
        return StepRules(node)

    def images(self, run: Path) -> list[DiskImage]:
        """Return the disks of nodes at kills and at the end."""
        return read_images(run)


RECORDINGS: Final = KraftRecordings()
