"""Voter sets, and which of them is in force at which offset (KIP-853).

With kraft.version 0 the configuration fixes the set, by ids only. With kraft.version 1 the log
holds it: the latest VotersRecord is in force from the moment it is **appended**, committed or not,
on every node, and truncation reverts it. Each change adds or removes one voter, so the majorities
of consecutive sets overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import NO_DIRECTORY

MIN_KRAFT_VERSION: Final = 0
MAX_KRAFT_VERSION: Final = 1
"""The levels of ``kraft.version`` this node supports."""

LISTENER: Final = "CONTROLLER"
"""Name of the listener that takes quorum RPCs."""

STATIC: Final = -1
"""Offset of a voter set that is not in the log: configured, or from a bootstrap snapshot."""


@dataclass(slots=True, frozen=True)
class Voter:
    """One voter; ``directory`` is NO_DIRECTORY where it is not known (kraft.version 0).

    ``min_version`` and ``max_version`` are the levels of kraft.version the voter supports.
    """

    voter_id: int
    directory: bytes
    endpoints: tuple[tuple[str, Endpoint], ...]
    min_version: int = 0
    max_version: int = 0

    @property
    def endpoint(self) -> Endpoint | None:
        """The endpoint for its quorum RPCs: the quorum's listener, else the first one."""
        for name, endpoint in self.endpoints:
            if name == LISTENER:
                return endpoint
        return self.endpoints[0][1] if self.endpoints else None

    def is_replica(self, replica_id: int, directory: bytes) -> bool:
        """Whether this is the replica ``(id, directory)``; an unknown directory matches any."""
        return self.voter_id == replica_id and self.directory in (NO_DIRECTORY, directory)


class VoterSet:
    """An immutable set of voters, by id."""

    __slots__ = ("_voters", "ids")

    def __init__(self, voters: Mapping[int, Voter]) -> None:
        self._voters = {i: voters[i] for i in sorted(voters)}
        self.ids = tuple(self._voters)

    @classmethod
    def static(cls, endpoints: Mapping[int, Endpoint]) -> VoterSet:
        """Return the set that ``controller.quorum.voters`` names."""
        return cls({i: Voter(i, NO_DIRECTORY, ((LISTENER, e),)) for i, e in endpoints.items()})

    @classmethod
    def from_record(cls, fields: Mapping[str, Any]) -> VoterSet:
        """Return the set in the fields of a VotersRecord."""
        voters = {}
        for voter in fields["voters"]:
            endpoints = tuple(
                (e["name"], Endpoint(e["host"], e["port"])) for e in voter["endpoints"]
            )
            versions = voter["kraft_version_feature"]
            voters[voter["voter_id"]] = Voter(
                voter["voter_id"],
                bytes(voter["voter_directory_id"]),
                endpoints,
                versions["min_supported_version"],
                versions["max_supported_version"],
            )
        return cls(voters)

    def record(self) -> dict[str, Any]:
        """Return the fields of this set's VotersRecord."""
        return {
            "version": 0,
            "voters": [
                {
                    "voter_id": voter.voter_id,
                    "voter_directory_id": voter.directory,
                    "endpoints": [
                        {"name": name, "host": e.host, "port": e.port}
                        for name, e in voter.endpoints
                    ],
                    "kraft_version_feature": {
                        "min_supported_version": voter.min_version,
                        "max_supported_version": voter.max_version,
                    },
                }
                for voter in self._voters.values()
            ],
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(tuple(self._voters.values()))

    def __len__(self) -> int:
        return len(self.ids)

    def get(self, voter_id: int) -> Voter | None:
        """Return the voter with this id, None if there is none."""
        return self._voters.get(voter_id)

    def endpoint(self, voter_id: int) -> Endpoint | None:
        """Return where a voter listens, None if it is not known."""
        voter = self._voters.get(voter_id)
        return voter.endpoint if voter is not None else None

    def has(self, replica_id: int, directory: bytes) -> bool:
        """Whether the replica ``(id, directory)`` is a voter; one with a wiped disk is not."""
        voter = self._voters.get(replica_id)
        return voter is not None and voter.is_replica(replica_id, directory)

    def with_voter(self, voter: Voter) -> VoterSet:
        """Return the set with ``voter`` added or replaced."""
        return VoterSet({**self._voters, voter.voter_id: voter})

    def without(self, voter_id: int) -> VoterSet:
        """Return the set without the voter."""
        return VoterSet({i: v for i, v in self._voters.items() if i != voter_id})

    def described(self) -> list[list[Any]]:
        """Return ``[id, directory in hex]`` of each voter, the form used in traces."""
        return [[v.voter_id, v.directory.hex()] for v in self._voters.values()]


class VoterHistory:
    """The voter sets and kraft.version levels of a log, each with its offset.

    Invariant: offsets grow strictly, and the last entry of each list is in force.
    """

    __slots__ = ("_levels", "_sets")

    def __init__(self, static: VoterSet) -> None:
        self._sets: list[tuple[int, VoterSet]] = [(STATIC, static)]
        self._levels: list[tuple[int, int]] = [(STATIC, 0)]

    @property
    def latest(self) -> VoterSet:
        """The voter set in force, committed or not."""
        return self._sets[-1][1]

    @property
    def offset(self) -> int:
        """Offset of the record that set :attr:`latest`; STATIC if no record in the log did."""
        return self._sets[-1][0]

    @property
    def level(self) -> int:
        """The kraft.version in force, committed or not."""
        return self._levels[-1][1]

    def add_voters(self, offset: int, voters: VoterSet) -> None:
        """Add the voter set of a VotersRecord appended at ``offset``."""
        self._sets.append((offset, voters))

    def add_level(self, offset: int, level: int) -> None:
        """Add the level of a KRaftVersionRecord appended at ``offset``."""
        self._levels.append((offset, level))

    def at(self, end_offset: int) -> tuple[VoterSet, int]:
        """Return voter set and level after everything below ``end_offset``."""
        voters = next(s for offset, s in reversed(self._sets) if offset < end_offset)
        level = next(v for offset, v in reversed(self._levels) if offset < end_offset)
        return voters, level

    def truncate(self, end_offset: int) -> None:
        """Revert the records at or after ``end_offset``."""
        while self._sets[-1][0] >= end_offset:
            self._sets.pop()
        while self._levels[-1][0] >= end_offset:
            self._levels.pop()

    def restart(self, end_offset: int, voters: VoterSet | None, level: int | None) -> None:
        """Start again from a snapshot's header; None keeps the configured set and level 0."""
        del self._sets[1:]
        del self._levels[1:]
        offset = end_offset - 1
        if voters is not None:
            self._put(self._sets, offset, voters)
        if level is not None:
            self._put(self._levels, offset, level)

    @staticmethod
    def _put(entries: list[tuple[int, Any]], offset: int, value: Any) -> None:
        if offset == STATIC:
            entries[0] = (STATIC, value)
        else:
            entries.append((offset, value))

    def clean(self, start_offset: int) -> None:
        """Forget sets and levels that are no longer in force at ``start_offset``."""
        for entries in (self._sets, self._levels):
            while len(entries) > 2 and entries[2][0] < start_offset:
                del entries[1]
