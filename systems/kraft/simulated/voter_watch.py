"""The voters in force on each node, as the model of the quorum knows them.

A voter is an id and the directory id of a disk: the same id on a disk that was wiped is another
replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kraftwreck.checkers.kraft.quorum_model.quorum import Quorum
from kraftwreck.checkers.kraft.quorum_model.replica import NO_DIRECTORY

Voters = Mapping[int, str]
"""Directory ids (hex) by node id."""


class VoterWatch:
    """Voters by node. ``initial`` are those of a node before its first report: the configured
    ones."""

    def __init__(self, quorum: Quorum, initial: Iterable[int]) -> None:
        self._tracks = quorum.tracks
        self._initial: Voters = dict.fromkeys(initial, NO_DIRECTORY)

    def of(self, node: str) -> Voters:
        """Return the voters in force on ``node``."""
        return self._tracks[node].voters or self._initial

    def level(self, node: str) -> int:
        """Return the kraft.version in force on ``node``."""
        return self._tracks[node].level

    def counts(self, leader: str, replica_id: int, directory: bytes) -> bool:
        """Whether the replica is a voter as ``leader`` sees it."""
        known = self.of(leader).get(replica_id)
        return known is not None and known in (NO_DIRECTORY, directory.hex())
