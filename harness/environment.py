"""What faults can do to a cluster, on any kind of host.

Implemented once over SSH (``harness.remote_environment``) and once over the simulator
(``harness.simulated``); fault families in ``nemesis`` are written against this only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Grudge = Mapping[str, frozenset[str]]
"""For each node, the nodes whose packets it drops on arrival (Jepsen's grudge)."""

Evidence = dict[str, Any]


class Environment(Protocol):
    """A running cluster, as a nemesis sees it. All methods return evidence, keyed by node."""

    @property
    def nodes(self) -> Sequence[str]:
        """The names of all nodes, in order of node id."""
        ...

    def leader(self) -> str | None:
        """Return the node that most recently claimed leadership in the highest epoch."""
        ...

    def drop(self, grudge: Grudge) -> Evidence:
        """Make every node drop packets from the nodes it holds a grudge against."""
        ...

    def heal(self) -> Evidence:
        """Undo every drop; the evidence says how many packets each node had dropped."""
        ...

    def kill(self, node: str) -> Evidence:
        """kill -9 the node's process and keep an image of its disk."""
        ...

    def start(self, node: str) -> Evidence:
        """Start the node's process again (a no-op when it runs)."""
        ...

    def pause(self, node: str) -> Evidence:
        """SIGSTOP the node's process."""
        ...

    def resume(self, node: str) -> Evidence:
        """SIGCONT the node's process."""
        ...
