"""One pass over the trace of all nodes: everything the trace checkers need.

This module handles the content of each kind of event. The nodes' positions, which every event
has, are in :mod:`checkers.kraft.recorded.trace_positions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from typing import Any

from kraftwreck.checkers.kraft.recorded.log_chain import Election
from kraftwreck.checkers.kraft.recorded.node_track import NO_DIRECTORY, NodeTrack
from kraftwreck.checkers.kraft.recorded.trace_positions import Positions
from kraftwreck.checkers.recorded.clocks import node_clocks
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.recorded.stored_events import StoredEvents
from kraftwreck.histories.trace import TraceEvent

INJECTED = "a defect that was put in"
"""Text in the error of an operation that the simulator let fail."""


class TracePass(Positions):
    """The facts of a whole trace; ``findings`` holds what broke an invariant."""

    def __init__(
        self, nodes: Sequence[str], *, ordered: bool, until: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(nodes, ordered=ordered, until=until)
        self.failed_operations = 0
        self._granted: set[tuple[str, str | None, int, int]] = set()
        self._kinds = {
            "append": self._append,
            "commit": self._commit,
            "grant": self._grant,
            "truncate": self._truncate,
            "elected": self._elected,
            "claim": self._claim,
            "fatal": self._fatal,
            "contradiction": self._refusal,
            "defect": self._refusal,
            "controller-error": self._controller_error,
            "state": self._state,
            "start": self._state,
            "voters": self._voters,
            "snapshot": self._snapshot,
            "install": self._install,
            "load": self._snapshot,
            "image": self._image,
        }

    def run(self, events: Iterable[TraceEvent]) -> None:
        """Take in ``events``, then judge what needs the whole."""
        tracks, kinds, last_led = self.tracks, self._kinds, self.last_led
        counts = self.kinds
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
            if event.mono > track.until:
                track.pass_end()
            track.last = event
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
            kind = event.kind
            counts[kind] = counts.get(kind, 0) + 1
            handle = kinds.get(kind)
            if handle is not None:
                handle(track, event, event.detail)
        self.count = sum(counts.values())
        self._check_grants()
        self.chain.check_leader_completeness()

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
        if track.delivered is None:
            if base != 0:
                self.first_deliveries.append((base, event))
        elif track.delivered >= 0 and base != track.delivered:
            self.findings.add(
                "I25",
                f"{track.name} delivers offset {base} to its state machine, but {track.delivered} "
                "is next.",
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

    def _state(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        track.since = event.mono

    def _grant(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        candidate = detail["candidate"]
        theirs = (detail["candidate_last_epoch"], detail["candidate_last_offset"])
        ours = (detail["last_epoch"], max(detail["last_offset"], event.leo))
        vote = (track.name, track.directory, detail["epoch"], candidate)
        # A repeated request gets the same vote again, whatever was fetched since.
        again = not detail["pre"] and vote in self._granted
        if not detail["pre"]:
            self._granted.add(vote)
        if theirs < ours and not again:
            self.findings.add(
                "I4",
                f"{track.name}, whose log ends at (epoch {ours[0]}, offset {ours[1]}), votes for "
                f"{candidate}, whose log ends at (epoch {theirs[0]}, offset {theirs[1]}).",
                [event],
            )
        if detail["pre"]:
            if event.state == "follower":
                self.follower_grants.append((track.since, event))
        else:
            self._vote(track, detail["epoch"], candidate, event)

    def _elected(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        voters, granting = set(detail["voters"]), set(detail["granting"])
        self.voters = len(voters)
        if not granting <= voters:
            self.findings.add(
                "I27",
                f"{track.name} became leader of epoch {event.epoch} with votes of "
                f"{sorted(granting - voters)}, which are no voters; the voters are "
                f"{sorted(voters)}.",
                [event],
            )
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
            Election(event.epoch, track.name, track.epoch_start, tip, event, track.voters)
        )

    def _claim(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        self.claims.append(event)
        if event.state != "leader":
            self.findings.add(
                "I25", f"{track.name} becomes active controller in state {event.state}.", [event]
            )
        elif 0 <= (track.delivered or 0) <= detail["epoch_start"]:
            self.findings.add(
                "I25",
                f"{track.name} becomes active controller of epoch {event.epoch} having applied up "
                f"to {track.delivered or 0}, not past the epoch's start "
                f"{detail['epoch_start']}.",
                [event],
            )

    def _voters(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        """I26: a leader changes one voter at a time, once the previous change is committed."""
        before, before_offset, before_level = track.voters, track.voters_offset, track.level
        now = {int(voter): str(directory) for voter, directory in detail["voters"]}
        offset = detail["offset"]
        track.voters, track.voters_offset, track.level = now, offset, detail["kraft_version"]
        if not before or event.state != "leader" or offset <= before_offset:
            return
        if before_level < 1:
            # The upgrade to kraft.version 1 adds the directories, and changes no voter.
            before, now = dict.fromkeys(before, ""), dict.fromkeys(now, "")
        changed = before.items() ^ now.items()
        if not changed:
            return
        self.voter_changes += 1
        told = f"{track.name} changed the voters at offset {offset}"
        if len(changed) > 1:
            self._membership(
                f"{told} by more than one: from {sorted(before)} to {sorted(now)}.", event
            )
        if before_offset >= event.hw:
            self._membership(
                f"{told} while those of offset {before_offset} were not committed (high watermark "
                f"{event.hw}).",
                event,
            )
        if track.epoch_start_of == event.epoch and event.hw <= track.epoch_start:
            self._membership(
                f"{told} before anything of its epoch {event.epoch} was committed.", event
            )

    def _membership(self, explanation: str, event: TraceEvent) -> None:
        self.findings.add("I26", explanation, [event])

    def _snapshot(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        self.snapshots.setdefault((detail["end"], detail["epoch"]), event)
        if event.kind == "snapshot" and detail["end"] > track.max_hw:
            self.findings.add(
                "I20",
                f"{track.name} made the snapshot ({detail['end']}, {detail['epoch']}) above its "
                f"high watermark {track.max_hw}.",
                [event],
            )
        if event.kind == "load" and track.grown and detail["end"] == track.end:
            # The process before had fetched it, and died before it reported the new start of its
            # log: the batches it held before need not be the committed ones.
            track.begin_at(detail["end"])
        if "digest" in detail:
            self.states.append(event)

    def _install(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        end = detail["end"]
        self.snapshots.setdefault((end, detail["epoch"]), event)
        if event.state == "leader":
            self.findings.add(
                "I22",
                f"{track.name}, leader of epoch {event.epoch}, replaces its log by the snapshot "
                f"({end}, {detail['epoch']}).",
                [event],
            )
        if end < track.max_hw:
            self.findings.add(
                "I14",
                f"{track.name} replaces its log by a snapshot up to {end}, below its high "
                f"watermark {track.max_hw}.",
                [event],
            )
        track.begin_at(end)
        if track.delivered is None or 0 <= track.delivered < end:
            track.delivered = end

    def _image(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        self.states.append(event)

    def _fatal(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        self.findings.add(
            "I29",
            f"{track.name} stopped by an illegal state: {detail.get('reason', 'no reason')}.",
            [event],
        )

    def _refusal(self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]) -> None:
        self.findings.add(
            "I29",
            f"{track.name} refused {detail.get('in')} ({event.kind}): {detail.get('reason')}.",
            [event],
        )

    def _controller_error(
        self, track: NodeTrack, event: TraceEvent, detail: dict[str, Any]
    ) -> None:
        error, failed_in = str(detail.get("error")), detail.get("epoch")
        if failed_in is not None:
            self.failed_operations += 1
            if event.state == "leader" and event.epoch == failed_in:
                self.findings.add(
                    "C24",
                    f"{track.name} could not carry out {detail.get('api')} ({error}), and still"
                    f" leads epoch {failed_in}.",
                    [event],
                )
            if INJECTED in error:
                return  # The failure was injected: only its consequences are judged.
        self.findings.add(
            "controller-error",
            f"{track.name} failed to carry out {detail.get('api')}: {detail.get('error')}.",
            [event],
        )

    def _check_grants(self) -> None:
        """I5: a node whose vote a leader counts must not have voted otherwise."""
        for election in self.chain.elections:
            candidate = self.tracks[election.node].id
            for voter in election.event.detail["granting"]:
                track = self.by_id.get(voter)
                if track is None or voter == candidate:
                    continue
                self._check_directory(election, candidate, track)
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

    def _check_directory(self, election: Election, candidate: int, voter: NodeTrack) -> None:
        """I27: the vote must be that of the voter's disk, not of another under the same id."""
        wanted = election.voters.get(voter.id, NO_DIRECTORY)
        given = voter.given
        if wanted == NO_DIRECTORY or given.get((wanted, election.epoch)) == candidate:
            return
        for (directory, epoch), chosen in given.items():
            if epoch == election.epoch and chosen == candidate and directory is not None:
                self.findings.add(
                    "I27",
                    f"{election.node} became leader of epoch {epoch} counting the vote of "
                    f"{voter.name}'s disk {directory}; the voter is its disk {wanted}.",
                    [election.event],
                )


def trace_pass(run: RunData) -> TracePass:
    """Return the facts of ``run``'s trace, computed once for all checkers."""
    return run.derived("trace", _make)


def _make(run: RunData) -> TracePass:
    facts = TracePass(run.nodes, ordered=run.ordered, until=_ends(run))
    facts.run(run.events if run.ordered else by_time(run))
    return facts


def by_time(run: RunData) -> Iterable[TraceEvent]:
    """Yield the events of real hosts by the test's clock, those of one node in its own order.

    The first event that shows a commit or an append is then the earliest one. The order is an
    estimate with an error of a few milliseconds: it proves no order between nodes.
    """
    clocks, events = node_clocks(run.test), run.events
    of_node: list[Iterable[TraceEvent]] = []
    if isinstance(events, StoredEvents):
        of_node.extend(events.by_node())
    else:
        nodes: dict[str, list[TraceEvent]] = {}
        for event in events:
            nodes.setdefault(event.node, []).append(event)
        of_node.extend(
            sorted(mine, key=lambda event: (event.incarnation, event.seq))
            for mine in nodes.values()
        )

    def moment(event: TraceEvent) -> int:
        clock = clocks.get(event.node)
        return event.mono if clock is None else clock.time(event.mono)

    return merge(*of_node, key=moment)


def _ends(run: RunData) -> dict[str, int]:
    """Return the nodes' monotonic clocks (µs) at the end of the judged time."""
    if run.ended is None:
        return {}
    clocks = node_clocks(run.test)
    return {name: clock.reading(run.ended // 1000) for name, clock in clocks.items()}
