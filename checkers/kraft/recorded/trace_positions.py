"""The position of each node, which every trace event reports whatever its kind.

Within a node, events are taken by (incarnation, seq). Between nodes no order is assumed,
except if a run says that its events are ordered (the simulator's one clock). A killed process may
have died before it reported its last transitions. So missing events at the end of an incarnation
prove nothing; missing events in the middle make the result unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.kraft.recorded.log_chain import LogChain
from kraftwreck.checkers.kraft.recorded.node_track import FOREVER, NodeTrack
from kraftwreck.histories.trace import TraceEvent


class Positions:
    """The facts; ``findings`` holds the anomalies.

    ``until`` are readings of nodes' monotonic clocks (µs) at the end of the judged time.
    """

    def __init__(
        self, nodes: Sequence[str], *, ordered: bool, until: Mapping[str, int] | None = None
    ) -> None:
        self.findings = Findings()
        self.chain = LogChain(self.findings)
        ends = until or {}
        self.tracks = {
            name: NodeTrack(name, i, ends.get(name, FOREVER))
            for i, name in enumerate(nodes, start=1)
        }
        self.by_id = {track.id: track for track in self.tracks.values()}
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
        self.states: list[TraceEvent] = []
        """Events with a digest of the metadata image."""
        self.voter_changes = 0
        self.claims: list[TraceEvent] = []
        """Events in which a controller became active."""
        self.restarts_after_vote = 0
        self.prospective = 0
        """How often a node began to request pre-votes."""
        self.majorities = 0
        """Batches whose holders were counted when they were first seen committed."""
        self.leader_high_watermarks = 0
        self.last_commit: dict[tuple[str, int], TraceEvent] = {}
        """Per (node, epoch), when the node last moved its high watermark as leader."""
        self.follower_grants: list[tuple[int, TraceEvent]] = []
        """Pre-votes granted by followers: (time in µs since which it is in that state, event)."""
        self.voters = len(self.tracks)
        self._ordered = ordered

    # --- positions --------------------------------------------------------------------

    def _stranger(self, node: str) -> NodeTrack:
        track = NodeTrack(node, len(self.tracks) + 1)
        self.tracks[node] = track
        self.by_id[track.id] = track
        return track

    def _begin(self, track: NodeTrack, event: TraceEvent) -> None:
        if event.incarnation < track.incarnation or event.seq != 0:
            self.gaps.append(
                f"{track.name}: the trace of incarnation {event.incarnation} begins with event "
                f"{event.seq}"
            )
        if event.incarnation > track.incarnation + 1:
            self.gaps.append(
                f"{track.name}: no trace of incarnations {track.incarnation + 1} to "
                f"{event.incarnation - 1}"
            )
        track.incarnation = event.incarnation
        self._disk(track, event)
        track.restart(event.leo)
        self._replaced(track, event)
        if event.seq != 0:
            track.forget()
        track.epoch_at_start = event.epoch
        if event.state == "leader":
            self.findings.add("I15", f"{track.name} starts as a leader.", [event])
        vote = track.votes.get(event.epoch)
        self.restarts_after_vote += vote is not None
        if (
            vote is not None
            and event.kind == "start"
            and event.voted < 0
            and event.leader < 0
            and event.state == "unattached"
        ):
            self.findings.add(
                "I3",
                f"{track.name} voted for {vote[0]} in epoch {event.epoch}, but starts without "
                "that vote.",
                [vote[1], event],
            )
        track.state = event.state
        if event.epoch > track.epoch:
            # The change was not traced: it is no jump within one incarnation.
            track.epoch = event.epoch
            track.epoch_seen = max(track.epoch_seen, event.epoch)
            track.voted = track.leader = -1

    def _disk(self, track: NodeTrack, event: TraceEvent) -> None:
        """Note the disk of a process that starts; it may be another one than before."""
        directory = event.detail.get("directory") if event.kind == "start" else None
        if directory is not None and track.directory not in (None, directory):
            track.wipe()
            for batch in self.chain.batches.values():
                batch.holders &= ~track.bit
        track.directory = directory or track.directory

    def _replaced(self, track: NodeTrack, event: TraceEvent) -> None:
        """Note the log of a process that starts; it may differ from the last reported one.

        The process before may have truncated its log and appended to it, and died before it
        reported that. By LogMatching the epoch of the last record decides: if it is the epoch of
        the last known batch, the log continues from that batch. Any other log may lack batches
        that were not committed.
        """
        told = event.detail.get("last_epoch") if event.kind == "start" else None
        if told is None or not track.epochs or track.epochs[-1] == told:
            return
        committed = self.chain.committed
        kept = len(track.bases)
        while kept:
            known = committed.get(track.bases[kept - 1])
            if known is not None and known.id[1] == track.epochs[kept - 1]:
                break
            kept -= 1
        if kept < len(track.bases):
            track.replaced(track.bases[kept], event.leo)

    def _gap(self, track: NodeTrack, event: TraceEvent) -> None:
        self.gaps.append(
            f"{track.name}: incarnation {event.incarnation} has event {event.seq} right after "
            f"{track.seq}"
        )
        track.restart(event.leo)
        track.forget()

    def _new_epoch(self, track: NodeTrack, event: TraceEvent) -> None:
        if event.epoch < track.epoch:
            self.findings.add(
                "I6",
                f"{track.name} went back from epoch {track.epoch} to {event.epoch}.",
                [event],
            )
        elif track.epoch >= 0:
            track.jumps.append((track.epoch, event.epoch))
            if event.state == "prospective" and event.kind == "state":
                self.findings.add(
                    "I16",
                    f"{track.name} went from epoch {track.epoch} to {event.epoch} only to request "
                    "pre-votes.",
                    [event],
                )
        track.epoch = event.epoch
        if event.epoch > track.epoch_seen:
            track.epoch_seen = event.epoch
        track.voted = track.leader = -1
        if event.state == "leader" == track.state:
            track.state = "leader of an older epoch"

    def _new_vote(self, track: NodeTrack, event: TraceEvent) -> None:
        track.voted = event.voted
        if event.voted >= 0:
            self._vote(track, event.epoch, event.voted, event)

    def _vote(self, track: NodeTrack, epoch: int, candidate: int, event: TraceEvent) -> None:
        known = track.votes.setdefault(epoch, (candidate, event))
        track.given.setdefault((track.directory, epoch), candidate)
        if known[0] != candidate:
            self.findings.add(
                "I2",
                f"{track.name} voted for {known[0]} and for {candidate} in epoch {epoch}.",
                [known[1], event],
            )

    def _new_leader(self, track: NodeTrack, event: TraceEvent) -> None:
        track.leader = event.leader
        if event.leader >= 0:
            self._lead(event.leader, event)

    def _lead(self, leader: int, event: TraceEvent) -> None:
        known = self.leaders.setdefault(event.epoch, (leader, event))
        if known[0] != leader:
            self.findings.add(
                "I1",
                f"Epoch {event.epoch} has two leaders: {known[0]} (reported by {known[1].node}) and"
                f" {leader} (reported by {event.node}).",
                [known[1], event],
            )

    def _new_state(self, track: NodeTrack, event: TraceEvent) -> None:
        if event.state == "leader":
            self._lead(track.id, event)
            if track.state not in ("candidate", ""):
                self.findings.add(
                    "I15",
                    f"{track.name} became leader of epoch {event.epoch} coming from state "
                    f"{track.state}, without being a candidate.",
                    [event],
                )
        elif event.state == "follower":
            track.settled.add(event.epoch)
        elif event.state == "prospective":
            self.prospective += 1
        track.state = event.state

    def _new_high_watermark(self, track: NodeTrack, event: TraceEvent) -> None:
        hw = event.hw
        track.hw = hw
        track.moved = event
        if hw < 0:
            return
        if hw < track.max_hw:
            self.findings.add(
                "I13",
                f"{track.name}: the high watermark went back from {track.max_hw} to {hw}.",
                [event],
            )
            return
        track.max_hw = hw
        epoch = event.epoch
        leads = event.state == "leader" and track.epoch_start_of == epoch
        if leads:
            self.leader_high_watermarks += 1
            self.last_commit[track.name, epoch] = event
        if leads and hw <= track.epoch_start:
            self.findings.add(
                "I12",
                f"{track.name}, leader of epoch {epoch} since offset {track.epoch_start}, sets the "
                f"high watermark to {hw} before its own first record is committed.",
                [event],
            )
        best = self.chain.high_watermarks.get(epoch)
        if best is None or best[0] < hw:
            self.chain.high_watermarks[epoch] = (hw, event)
        self._settle(track, event)

    def _settle(self, track: NodeTrack, event: TraceEvent) -> None:
        """Note the batches below the node's high watermark as committed."""
        i, hw, lasts = track.under_hw, track.hw, track.lasts
        while i < len(lasts) and lasts[i] < hw:
            base, epoch, last = track.bases[i], track.epochs[i], lasts[i]
            new = self.chain.commit(
                track.name, base, epoch, last, track.crcs[i], event.epoch, event
            )
            if new and self._ordered:
                self._check_majority(track, base, epoch, last, event)
            i += 1
        track.under_hw = i

    def _check_majority(
        self, track: NodeTrack, base: int, epoch: int, last: int, event: TraceEvent
    ) -> None:
        self.majorities += 1
        holders = self.chain.batches[base, epoch].holders
        voters: dict[int, str] = track.voters
        total = len(voters) or self.voters
        needed = total // 2 + 1
        count = sum(
            1
            for t in self.tracks.values()
            if ((holders & t.bit or t.may_hold(last)) and (not voters or t.is_one_of(voters)))
            or t.voted_with(voters, base, epoch, last)
        )
        if count < needed:
            self.findings.add(
                "I11",
                f"{event.node}: the high watermark {event.hw} passes offset {base}, which only "
                f"{count} of {total} voters hold.",
                [event],
            )
