"""Messages between nodes as checkers see them, whatever the system."""

from __future__ import annotations

from kraftwreck.histories.message import Message

GROUP = "kraftwreck.recordings"
"""The entry points of :class:`~checkers.recorded.run_data.Recordings`."""

INPUTS = "inputs.log"
"""The file of a node that has everything that it received."""


class Captured:
    """The messages of a run; ``dropped`` counts those that were not kept."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.dropped = 0
        self.batches: dict[bytes, None] = {}
        """Batches of the log that were written on any node, if all were captured."""
        self.headers: dict[tuple[int, int, bytes], int] = {}
        """The first batches of snapshots that were made or fetched on any node, by name (end
        offset, epoch), with the first node that had each. Most files are deleted before the end."""
        self.own_inputs = False
        """Whether each message is from the input log of the node that it reached, with the clock
        reading of the step that took it in."""
