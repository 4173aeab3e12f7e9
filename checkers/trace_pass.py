"""One pass over the trace of all nodes: everything the trace checkers need.

Within a node, events are taken by (incarnation, seq). Between nodes no order is assumed,
except where a run says that its events are ordered (the simulator's one clock). A killed
process may have died before it told its last transitions, so what is missing at the end
of an incarnation proves nothing; what is missing in the middle makes the result unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from checkers.findings import Findings
from checkers.log_chain import Election, LogChain
from checkers.node_track import NodeTrack
from checkers.run_data import RunData
from histories.trace import TraceEvent


class TracePass:
    """The facts; ``findings`` holds what broke an invariant."""

    def __init__(self, nodes: Sequence[str], *, ordered: bool) -> None:
        self.findings = Findings()
        self.chain = LogChain(self.findings)
        self.tracks = {name: NodeTrack(name, i + 1) for i, name in enumerate(nodes)}
        self.by_id = {track.id: track for track in self.tracks.values()}
        self.leaders: dict[int, tuple[int, TraceEvent]] = {}
        """Per epoch, the leader's node id and an event that shows it."""
        self.last_led: dict[tuple[str, int], TraceEvent] = {}
        """Per (node, epoch), the last event of the node as leader of the epoch."""
        self.gaps: list[str] = []
        self.count = 0
        self.voters = len(self.tracks)
        self._ordered = ordered
        self._kinds = {
            "append": self._append,
            "commit": self._commit,
            "grant": self._grant,
            "truncate": self._truncate,
            "elected": self._elected,
            "claim": self._claim,
            "fatal": self._fatal,
            "controller-error": self._controller_error,
        }

    def run(self, events: Sequence[TraceEvent]) -> None:
        """Take in ``events``, then check what needs the whole."""
        tracks, kinds, last_led = self.tracks, self._kinds, self.last_led
        for event in events:
            node = event.node
            track = tracks.get(node)
            if track is None:
                track = self._stranger(node)
            if event.incarnation != track.incarnation:
                self._begin(track, event)
            elif event.seq != track.seq + 1:
                self._gap(track, event)
            track.seq = event.seq
            epoch = event.epoch
            if epoch != track.epoch:
                self._new_epoch(track, event)
            if event.voted != track.voted:
                self._new_vote(track, event)
            if event.leader != track.leader:
                self._new_leader(track, event)
            state = event.state
            if state == "leader":
                last_led[node, epoch] = event
            if state != track.state:
                self._new_state(track, event)
            hw = event.hw
            if hw != track.hw:
                self._new_high_watermark(track, event)
            if hw > event.leo:
                self.findings.add(
                    "I14",
                    f"{node}: high watermark {hw} is beyond its log end {event.leo}.",
                    [event],
                )
            handle = kinds.get(event.kind)
            if handle is not None:
                handle(track, event, event.detail)
        self.count += len(events)
        self._check_grants()
        self.chain.check_leader_completeness()

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
        track.restart(event.leo)
        if event.seq != 0:
            track.forget()
        track.epoch_at_start = event.epoch
        if event.state == "leader":
            self.findings.add("I15", f"{track.name} starts as a leader.", [event])
        vote = track.votes.get(event.epoch)
        if (
            vote is not None
            and event.kind == "start"
            and event.voted < 0
            and event.leader < 0
            and event.state == "unattached"
        ):
            self.findings.add(
                "I3",
                f"{track.name} voted for {vote[0]} in epoch {event.epoch} and starts without "
                "remembering it.",
                [vote[1], event],
            )
        track.state = event.state
        if event.epoch > track.epoch:
            # The change happened unseen: it is no jump within one incarnation.
            track.epoch = event.epoch
            track.voted = track.leader = -1

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
                    f"{track.name} went from epoch {track.epoch} to {event.epoch} only to ask for "
                    "pre-votes.",
                    [event],
                )
        track.epoch = event.epoch
        track.voted = track.leader = -1
        if event.state == "leader" == track.state:
            track.state = "leader of an older epoch"

    def _new_vote(self, track: NodeTrack, event: TraceEvent) -> None:
        track.voted = event.voted
        if event.voted >= 0:
            self._vote(track, event.epoch, event.voted, event)

    def _vote(self, track: NodeTrack, epoch: int, candidate: int, event: TraceEvent) -> None:
        known = track.votes.setdefault(epoch, (candidate, event))
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
                f"Epoch {event.epoch} has two leaders: {known[0]} (told by {known[1].node}) and "
                f"{leader} (told by {event.node}).",
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
        track.state = event.state

    def _new_high_watermark(self, track: NodeTrack, event: TraceEvent) -> None:
        hw = event.hw
        track.hw = hw
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
        if event.state == "leader" and track.epoch_start_of == epoch and hw <= track.epoch_start:
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
        """Note as committed what now lies below the node's high watermark."""
        i, hw, lasts = track.under_hw, track.hw, track.lasts
        while i < len(lasts) and lasts[i] < hw:
            base, epoch, last = track.bases[i], track.epochs[i], lasts[i]
            new = self.chain.commit(
                track.name, base, epoch, last, track.crcs[i], event.epoch, event
            )
            if new and self._ordered:
                self._check_majority(base, epoch, last, event)
            i += 1
        track.under_hw = i

    def _check_majority(self, base: int, epoch: int, last: int, event: TraceEvent) -> None:
        holders = self.chain.batches[base, epoch].holders
        needed = self.voters // 2 + 1
        if holders.bit_count() >= needed:
            return
        count = sum(1 for t in self.tracks.values() if holders & t.bit or t.may_hold(last))
        if count < needed:
            self.findings.add(
                "I11",
                f"{event.node}: the high watermark {event.hw} passes offset {base}, which only "
                f"{count} of {self.voters} voters hold.",
                [event],
            )

    # --- kinds of events --------------------------------------------------------------

    def _append(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        base, last, epoch, crc = detail["base"], detail["last"], detail["epoch"], detail["crc"]
        if track.end is not None and base != track.end:
            self.findings.add(
                "I8",
                f"{track.name} appends at offset {base} although its log ends at {track.end}.",
                [event],
            )
        led = detail["by"] == "leader"
        if epoch > event.epoch or (led and epoch != event.epoch):
            self.findings.add(
                "I7",
                f"{track.name} appends a batch of epoch {epoch} as {detail['by']} in epoch "
                f"{event.epoch}.",
                [event],
            )
        if track.epochs and epoch < track.epochs[-1]:
            self.findings.add(
                "I7",
                f"{track.name} appends a batch of epoch {epoch} after one of epoch "
                f"{track.epochs[-1]}.",
                [event],
            )
        elif (
            led
            and track.epoch_start_of == epoch
            and base != track.epoch_start
            and track.epochs
            and track.epochs[-1] < epoch
        ):
            self.findings.add(
                "I7",
                f"{track.name}: the first batch of epoch {epoch} is at offset {base}, not at the "
                f"epoch's start {track.epoch_start}.",
                [event],
            )
        before = track.push(base, epoch, last, crc)
        self.chain.hold(track.name, track.bit, base, epoch, last, crc, before, event)
        if last < track.hw:
            self._settle(track, event)

    def _truncate(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        to = detail["to"]
        if to < track.max_hw:
            self.findings.add(
                "I14",
                f"{track.name} truncates its log to {to}, below its high watermark {track.max_hw}.",
                [event],
            )
        track.cut(to)

    def _commit(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        base, last = detail["base"], detail["last"]
        if track.delivered > 0 and base != track.delivered:
            self.findings.add(
                "I25",
                f"{track.name} delivers offset {base} to its state machine, but {track.delivered} "
                "is next.",
                [event],
            )
        elif track.delivered == 0 and base != 0:
            self.findings.add(
                "I25",
                f"{track.name} delivers offset {base} first after its start, not offset 0.",
                [event],
            )
        if last >= event.hw:
            self.findings.add(
                "I25",
                f"{track.name} delivers up to offset {last}, beyond its high watermark {event.hw}.",
                [event],
            )
        track.delivered = last + 1
        self.chain.commit(
            track.name, base, detail["epoch"], last, detail["crc"], event.epoch, event
        )

    def _grant(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        candidate = detail["candidate"]
        theirs = (detail["candidate_last_epoch"], detail["candidate_last_offset"])
        ours = (detail["last_epoch"], max(detail["last_offset"], event.leo))
        if theirs < ours:
            self.findings.add(
                "I4",
                f"{track.name}, whose log ends at (epoch {ours[0]}, offset {ours[1]}), votes for "
                f"{candidate}, whose log ends at (epoch {theirs[0]}, offset {theirs[1]}).",
                [event],
            )
        if not detail["pre"]:
            self._vote(track, detail["epoch"], candidate, event)

    def _elected(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        voters, granting = set(detail["voters"]), set(detail["granting"])
        self.voters = len(voters)
        track.epoch_start, track.epoch_start_of = detail["epoch_start"], event.epoch
        if len(granting & voters) < len(voters) // 2 + 1:
            self.findings.add(
                "I5",
                f"{track.name} became leader of epoch {event.epoch} with votes of "
                f"{sorted(granting & voters)} out of {sorted(voters)}: no majority.",
                [event],
            )
        tip = track.tip()
        if track.bases and track.bases[-1] >= track.epoch_start:
            tip = None
        self.chain.elections.append(
            Election(event.epoch, track.name, track.epoch_start, tip, event)
        )

    def _claim(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        if event.state != "leader":
            self.findings.add(
                "I25", f"{track.name} becomes active controller in state {event.state}.", [event]
            )
        elif 0 <= track.delivered <= detail["epoch_start"]:
            self.findings.add(
                "I25",
                f"{track.name} becomes active controller of epoch {event.epoch} having applied up "
                f"to {track.delivered}, not past the epoch's start "
                f"{detail['epoch_start']}.",
                [event],
            )

    def _fatal(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        self.findings.add(
            "I29",
            f"{track.name} stopped by an illegal state: {detail.get('reason', 'no reason')}.",
            [event],
        )

    def _controller_error(
        self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]
    ) -> None:
        self.findings.add(
            "controller-error",
            f"{track.name} failed to carry out {detail.get('api')}: {detail.get('error')}.",
            [event],
        )

    def _check_grants(self) -> None:
        """I5: whoever a leader counts as granting must not be seen to have voted otherwise."""
        for election in self.chain.elections:
            candidate = self.tracks[election.node].id
            for voter in election.event.detail["granting"]:
                track = self.by_id.get(voter)
                if track is None or voter == candidate:
                    continue
                vote = track.votes.get(election.epoch)
                if vote is not None and vote[0] == candidate:
                    continue
                if vote is None and not track.never_voted_in(election.epoch):
                    continue
                said = f"voted for {vote[0]}" if vote else "did not vote"
                self.findings.add(
                    "I5",
                    f"{election.node} became leader of epoch {election.epoch} counting the vote "
                    f"of {track.name}, which {said} in that epoch.",
                    [election.event, *([vote[1]] if vote else [])],
                )


def trace_pass(run: RunData) -> TracePass:
    """Return the facts of ``run``'s trace, computed once for all checkers."""
    return run.derived("trace", _make)


def _make(run: RunData) -> TracePass:
    facts = TracePass(run.nodes, ordered=run.ordered)
    events = run.events
    if not run.ordered:
        # Stable: nodes keep the order in which they are first seen.
        events = sorted(events, key=lambda e: (e.node, e.incarnation, e.seq))
    facts.run(events)
    return facts
