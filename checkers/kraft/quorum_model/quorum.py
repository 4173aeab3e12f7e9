"""The state of the quorum: all replicas, their logs, and what they did so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kraftwreck.checkers.kraft.quorum_model.log_chain import Add, Election, LogChain
from kraftwreck.checkers.kraft.quorum_model.replica import FOREVER, NO_DIRECTORY, Replica
from kraftwreck.histories.trace import TraceEvent

Found = str | tuple[str, list[TraceEvent]] | list[str] | None
"""The result of a rule over steps: an explanation, one with the events that show it, or several."""
VoterSet = frozenset[tuple[int, str]]
"""(node id, directory id in hex) of voters."""
Holders = Callable[[int, int, int], "set[tuple[int, str]]"]
"""(base, epoch, last) of a batch: the (node id, directory id) of the disks that hold it."""


class Quorum:
    """All replicas. ``until`` are readings of nodes' monotonic clocks (µs) at the end of the judged
    time. ``durable`` returns what disks hold, where that is known. ``add`` is called with logs that
    contradict each other."""

    def __init__(
        self,
        nodes: Sequence[str],
        add: Add,
        *,
        until: Mapping[str, int] | None = None,
        durable: Holders | None = None,
    ) -> None:
        self.chain = LogChain(add)
        ends = until or {}
        self.tracks = {
            name: Replica(name, i, ends.get(name, FOREVER)) for i, name in enumerate(nodes, start=1)
        }
        self.by_id = {replica.id: replica for replica in self.tracks.values()}
        self.leaders: dict[int, tuple[int, TraceEvent]] = {}
        """Per epoch, the leader's node id and an event that shows it."""
        self.last_led: dict[tuple[str, int], TraceEvent] = {}
        """Per (node, epoch), the last event of the node as leader of the epoch."""
        self.gaps: list[str] = []
        self.count = 0
        self.kinds: dict[str, int] = {}
        """How many events there were of each kind."""
        self.first_deliveries: list[tuple[int, TraceEvent]] = []
        """Where incarnations began to deliver, unless at offset 0: (offset, event)."""
        self.snapshots: dict[tuple[int, int], TraceEvent] = {}
        """Reported snapshots, by (end offset, epoch)."""
        self.digests: dict[tuple[int, int], TraceEvent] = {}
        """The first report of a state, by (end offset, epoch)."""
        self.states: list[TraceEvent] = []
        """Events with a digest of the metadata image."""
        self.voter_changes = 0
        self.claims: list[TraceEvent] = []
        """Events in which a controller became active."""
        self.last_commit: dict[tuple[str, int], TraceEvent] = {}
        """Per (node, epoch), when the node last moved its high watermark as leader."""
        self.follower_grants: list[tuple[int, TraceEvent]] = []
        """Pre-votes granted by followers: (time in µs since which it is in that state, event)."""
        self.voters = len(self.tracks)
        self.election: Election | None = None
        """The election that is judged."""
        self.ballots: dict[tuple[int, int, int], str] = {}
        """By (voter, epoch, candidate): the candidate's disk, where messages show it."""
        self.voter_requests: set[tuple[str, int, str, bool]] | None = None
        """(leader, voter, disk, whether it is to be added) of requests, None if unknown."""
        self.committing = (-1, -1, -1)
        """(base, epoch, last) of the batch whose holders are judged."""
        self.over = False
        """Whether all events were taken in."""
        self._durable = durable

    @property
    def high_watermark(self) -> int:
        """The highest high watermark that any node reported, -1 if none did."""
        return max((hw for hw, _ in self.chain.high_watermarks.values()), default=-1)

    def holders(self, voters: Mapping[int, str]) -> int:
        """Return how many of the ``voters`` (all nodes if there are none) hold the batch that is
        judged: on disk if that is known, otherwise by their traces."""
        base, epoch, last = self.committing
        if self._durable is not None:
            disks = self._durable(base, epoch, last)
            return sum(
                any(node == voter and wanted in (NO_DIRECTORY, disk) for node, disk in disks)
                for voter, wanted in (voters or dict.fromkeys(self.by_id, NO_DIRECTORY)).items()
            )
        bits = self.chain.batches[base, epoch].holders
        return sum(
            ((bits & each.bit or each.may_hold(last)) and (not voters or each.is_one_of(voters)))
            or each.voted_with(voters, base, epoch, last)
            for each in self.tracks.values()
        )

    def changed_voters(
        self, replica: Replica, event: TraceEvent
    ) -> tuple[dict[int, str], dict[int, str]]:
        """Return the voters before and after a ``voters`` event, with their disks."""
        before, now = replica.voters, voters_in(event)
        if not replica.level:
            # The upgrade to kraft.version 1 adds the directories, and changes no voter.
            return dict.fromkeys(before, ""), dict.fromkeys(now, "")
        return before, now


def voters_in(event: TraceEvent) -> dict[int, str]:
    """Return the voters that a ``voters`` event reports, with their disks."""
    return {int(voter): str(directory) for voter, directory in event.detail["voters"]}
