"""The model of the quorum: all replicas, and one step for each event of their traces.

The simulator feeds it live, checkers afterwards. Within a node, events are taken by (incarnation,
seq). Between nodes no order is assumed, except if a run says that its events are ordered (the
simulator's one clock). Missing events in the middle of a trace make the result unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kraftwreck.checkers.findings import Findings
from kraftwreck.checkers.kraft.quorum_model.causes import OF_OTHERS, Causes
from kraftwreck.checkers.kraft.quorum_model.election_rules import ballot, leader_in
from kraftwreck.checkers.kraft.quorum_model.log_chain import Add, Election
from kraftwreck.checkers.kraft.quorum_model.log_rules import applied_to
from kraftwreck.checkers.kraft.quorum_model.quorum import Found, Holders, Quorum, voters_in
from kraftwreck.checkers.kraft.quorum_model.replica import Replica
from kraftwreck.checkers.kraft.quorum_model.transitions import LEADER, PROSPECTIVE, changed, refusal
from kraftwreck.checkers.kraft.rule import RULES, STEPS
from kraftwreck.histories.trace import TraceEvent

NONCONFORMANT = "nonconformant"


OF_RECORDS: Final = "replica-"
"""The events of replicas of users' partitions begin with this."""


class QuorumModel(Quorum):
    """Judges each event, and continues from it whether it was legal or not.

    ``findings`` holds what broke a rule with an id, ``refused`` the other illegal transitions.
    ``report`` is called with each finding.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        *,
        ordered: bool,
        until: Mapping[str, int] | None = None,
        report: Add | None = None,
        durable: Holders | None = None,
    ) -> None:
        self.findings = Findings()
        self.refused = Findings()
        super().__init__(nodes, self._add, until=until, durable=durable)
        self.steps: dict[str, int] = {}
        """How often rules over steps were called, by what they are called on."""
        self._ordered = ordered
        self._causes = Causes(self.by_id)
        self._report = report
        self._unnamed: list[tuple[Replica, TraceEvent]] = []

    def facts(self, invariant: str) -> int:
        """Return how often steps were judged by the rule."""
        return sum(self.steps.get(step, 0) for step in dict.fromkeys(RULES[invariant].steps))

    @property
    def missing(self) -> str | None:
        """The first gap of the traces in words, None without gaps."""
        if not self.count:
            return "there is no trace: nothing was checked"
        silent = [name for name, replica in self.tracks.items() if replica.incarnation == 0]
        if silent:
            return f"no trace of {', '.join(silent)}"
        if not self.gaps:
            return None
        more = f" (and {len(self.gaps) - 1} more gaps)" if len(self.gaps) > 1 else ""
        return f"the trace is incomplete: {self.gaps[0]}{more}"

    def run(self, events: Iterable[TraceEvent]) -> None:
        """Take in ``events``, then judge what needs the whole."""
        for event in events:
            self.take(event)
        self.finish()

    def finish(self) -> None:
        """Judge what needs the whole."""
        self.count, self.over = sum(self.kinds.values()), True
        for election in self.chain.elections:
            if not election.lacks:
                self._judge_election(election, votes=not self._ordered)
        for replica, event in self._unnamed:
            self._judge("named", replica, event)
        for text, proof in self._causes.missing():
            self._refuse(text, proof)
        self._report = None  # The model outlives the simulated world.
        self.chain.add = self.findings.add

    def take(self, event: TraceEvent) -> None:
        """Judge one event, and continue from it whether it was legal or not."""
        replica = self.tracks.get(event.node) or self._stranger(event.node)
        last, kind = replica.last, event.kind
        continues = event.incarnation == replica.incarnation and event.seq == replica.seq + 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if continues and kind.startswith(OF_RECORDS):
            # Of the data plane, in the middle of a step: the quorum's own events follow.
            replica.seq = event.seq
            return
        moved = (
            last is None
            or not continues
            or event.leo != last.leo
            or event.hw != last.hw
            or event.state != last.state
            or event.epoch != last.epoch
            or event.leader != last.leader
            or event.voted != last.voted
        )
        illegal = None
        if continues and moved and last is not None:
            illegal = changed(last, event)
        if illegal is None and (continues or kind == "start" or last is None):
            illegal = refusal(replica, last, event)
        if illegal is not None:
            self._refuse(f"{event.node}: {illegal}", [*([] if last is None else [last]), event])
        if event.incarnation != replica.incarnation:
            self._begin(replica, event)
        elif not continues:
            self._gap(replica, event)
        replica.seq = event.seq
        if event.mono > replica.until:
            replica.pass_end()
        if moved:
            self._move(replica, event)
            if last is None or event.leo != last.leo or event.hw != last.hw:
                self._judge("new-end", replica, event)
        if event.state == LEADER:
            self.last_led[event.node, event.epoch] = event
        if kind in STEPS:
            self._judge(kind, replica, event)
        if kind in OF_OTHERS:
            self._causes.take(replica, event)
        accept = _ACCEPT.get(kind)
        if accept is not None:
            accept(self, replica, event, event.detail)
        replica.last = event

    # --- findings -----------------------------------------------------------------------

    def _judge(self, step: str, replica: Replica, event: TraceEvent) -> None:
        self.steps[step] = self.steps.get(step, 0) + 1
        for invariant, judge in STEPS.get(step, ()):
            found: Found = judge(self, replica, event)
            if not found:
                continue
            if isinstance(found, tuple):
                self._add(invariant, *found)
            else:
                for text in [found] if isinstance(found, str) else found:
                    self._add(invariant, text, [event])

    def _add(self, invariant: str, explanation: str, events: list[TraceEvent]) -> None:
        self.findings.add(invariant, explanation, events)
        if self._report is not None:
            self._report(invariant, explanation, events)

    def _refuse(self, explanation: str, events: list[TraceEvent]) -> None:
        self.refused.add(NONCONFORMANT, explanation, events)
        if self._report is not None:
            self._report(NONCONFORMANT, explanation, events)

    # --- positions ----------------------------------------------------------------------

    def _stranger(self, node: str) -> Replica:
        replica = Replica(node, len(self.tracks) + 1)
        self.tracks[node] = self.by_id[replica.id] = replica
        return replica

    def _begin(self, replica: Replica, event: TraceEvent) -> None:
        if event.incarnation < replica.incarnation or event.seq != 0:
            self.gaps.append(
                f"{replica.name}: the trace of incarnation {event.incarnation} begins with event "
                f"{event.seq}"
            )
        if event.incarnation > replica.incarnation + 1:
            self.gaps.append(
                f"{replica.name}: no trace of incarnations {replica.incarnation + 1} to "
                f"{event.incarnation - 1}"
            )
        replica.incarnation = event.incarnation
        self._disk(replica, event)
        replica.restart(event.leo)
        self._replaced(replica, event)
        if event.seq != 0:
            replica.forget()
        self._judge("process", replica, event)
        if event.epoch in replica.votes:
            self._judge("restart", replica, event)
        replica.state = event.state
        if event.epoch > replica.epoch:
            # The change was not traced: it is no jump within one incarnation.
            replica.epoch = event.epoch
            replica.epoch_seen = max(replica.epoch_seen, event.epoch)
            replica.voted = replica.leader = -1

    def _disk(self, replica: Replica, event: TraceEvent) -> None:
        """Note the disk of a process that starts; it may be another one than before."""
        directory = event.detail.get("directory") if event.kind == "start" else None
        if directory is not None and replica.directory not in (None, directory):
            replica.wipe()
            for batch in self.chain.batches.values():
                batch.holders &= ~replica.bit
        replica.directory = directory or replica.directory

    def _replaced(self, replica: Replica, event: TraceEvent) -> None:
        """Note the log of a process that starts; it may differ from the last reported one.

        The process before may have truncated its log and appended to it, and died before it
        reported that. By LogMatching the epoch of the last record decides: if it is the epoch of
        the last known batch, the log continues from that batch. Any other log may lack batches
        that were not committed.
        """
        told = event.detail.get("last_epoch") if event.kind == "start" else None
        if told is None or not replica.epochs or replica.epochs[-1] == told:
            return
        committed = self.chain.committed
        kept = len(replica.bases)
        while kept:
            known = committed.get(replica.bases[kept - 1])
            if known is not None and known.id[1] == replica.epochs[kept - 1]:
                break
            kept -= 1
        if kept < len(replica.bases):
            replica.replaced(replica.bases[kept], event.leo)

    def _gap(self, replica: Replica, event: TraceEvent) -> None:
        self.gaps.append(
            f"{replica.name}: incarnation {event.incarnation} has event {event.seq} right after "
            f"{replica.seq}"
        )
        replica.restart(event.leo)
        replica.forget()

    def _move(self, replica: Replica, event: TraceEvent) -> None:
        """Judge and take in the position, which every event has whatever its kind."""
        epoch, state, hw = event.epoch, event.state, event.hw
        if epoch != replica.epoch:
            if replica.epoch >= 0:
                self._judge("new-epoch", replica, event)
            replica.epoch = epoch
            replica.epoch_seen = max(replica.epoch_seen, epoch)
            replica.voted = replica.leader = -1
        if event.voted != replica.voted:
            replica.voted = event.voted
            if event.voted >= 0:
                self._vote(replica, event)
        if event.leader != replica.leader or (state == LEADER != replica.state):
            replica.leader = event.leader
            if event.leader >= 0 or state == LEADER:
                self._judge("new-leader", replica, event)
                self.leaders.setdefault(epoch, (leader_in(replica, event), event))
        if state != replica.state:
            self._judge("new-state", replica, event)
            replica.state = state
            if state == PROSPECTIVE and replica.last is not None:
                self._judge("pre-votes", replica, event)
        if hw != replica.hw:
            replica.hw = hw
            replica.moved = event
            if hw >= 0:
                self._new_high_watermark(replica, event)

    def _vote(self, replica: Replica, event: TraceEvent) -> None:
        self._judge("new-vote", replica, event)
        epoch, candidate = ballot(event)
        replica.votes.setdefault(epoch, (candidate, event))

    def _new_high_watermark(self, replica: Replica, event: TraceEvent) -> None:
        hw, epoch = event.hw, event.epoch
        self._judge("new-hw", replica, event)
        if hw < replica.max_hw:
            return
        if event.state == LEADER and replica.epoch_start_of == epoch:
            self.last_commit[replica.name, epoch] = event
            self._judge("leader-hw", replica, event)
        replica.max_hw = hw
        best = self.chain.high_watermarks.get(epoch)
        if best is None or best[0] < hw:
            self.chain.high_watermarks[epoch] = (hw, event)
        self._settle(replica, event)

    # --- logs ---------------------------------------------------------------------------

    def _settle(self, replica: Replica, event: TraceEvent) -> None:
        """Note the batches below the node's high watermark as committed."""
        i, hw, lasts = replica.under_hw, replica.hw, replica.lasts
        while i < len(lasts) and lasts[i] < hw:
            base, epoch, last = replica.bases[i], replica.epochs[i], lasts[i]
            new = self.chain.commit(
                replica.name, base, epoch, last, replica.crcs[i], event.epoch, event
            )
            if new and self._ordered:
                self.committing = base, epoch, last
                self._judge("first-commit", replica, event)
            i += 1
        replica.under_hw = i

    def _append(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        base, epoch, last, crc = detail["base"], detail["epoch"], detail["last"], detail["crc"]
        before = replica.push(base, epoch, last, crc)
        self.chain.hold(replica.name, replica.bit, base, epoch, last, crc, before, event)
        replica.fetched = True
        if last < replica.hw:
            self._settle(replica, event)

    def _truncate(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        replica.cut(detail["to"])

    def _commit(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        base, last = detail["base"], detail["last"]
        if replica.delivered is None and base != 0:
            self.first_deliveries.append((base, event))
        replica.delivered = last + 1
        self.chain.commit(
            replica.name, base, detail["epoch"], last, detail["crc"], event.epoch, event
        )

    # --- elections ----------------------------------------------------------------------

    def _entered(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        replica.since = event.mono
        replica.fetched = False

    def _grant(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        if detail["pre"]:
            if event.state == "follower":
                self.follower_grants.append((replica.since, event))
            return
        replica.given.setdefault(detail["epoch"], {}).setdefault(
            replica.directory, detail["candidate"]
        )
        if ballot(event) != (event.epoch, event.voted):
            self._vote(replica, event)

    def _elected(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        self.voters = len(detail["voters"])
        replica.epoch_start, replica.epoch_start_of = detail["epoch_start"], event.epoch
        tip = replica.tip()
        if replica.bases and replica.bases[-1] >= replica.epoch_start:
            tip = None
        election = Election(
            event.epoch, replica.name, replica.epoch_start, tip, event, replica.voters
        )
        self.chain.elections.append(election)
        if self._ordered:
            self._judge_election(election, votes=True)

    def _judge_election(self, election: Election, *, votes: bool) -> None:
        """Judge an election by what is known so far of commits, and also of ``votes``."""
        self.election, replica = election, self.tracks[election.node]
        for number in election.event.detail["granting"] if votes else ():
            voter = self.by_id.get(number)
            if voter is not None and voter is not replica:
                self._judge("counted", voter, election.event)
        if any(epoch < election.epoch for epoch in self.chain.high_watermarks):
            before = self.findings.counts.get("I9", 0)
            self._judge("election", replica, election.event)
            election.lacks = self.findings.counts.get("I9", 0) > before

    def _claim(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        self.claims.append(event)

    def _controller_error(
        self, replica: Replica, event: TraceEvent, detail: dict[str, Any]
    ) -> None:
        if detail.get("epoch") is not None:
            self._judge("failed-operation", replica, event)

    def _voters(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        offset = detail["offset"]
        if replica.voters and event.state == LEADER and offset > replica.voters_offset:
            before, now = self.changed_voters(replica, event)
            if before != now:
                self.voter_changes += 1
                self._judge("voter-change", replica, event)
            else:
                self._judge("voter-update", replica, event)
        replica.voters = voters_in(event)
        replica.voters_offset, replica.level = offset, detail["kraft_version"]

    # --- snapshots and states -----------------------------------------------------------

    def _snapshot(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        self.snapshots.setdefault((detail["end"], detail["epoch"]), event)
        if self._ordered and detail["end"] <= self.chain.end:
            self._judge("named", replica, event)
        else:
            self._unnamed.append((replica, event))
        if detail.get("digest") is not None:
            self._image(replica, event, detail)

    def _load(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        self._snapshot(replica, event, detail)
        if replica.grown and detail["end"] == replica.end:
            # The process before had fetched it, and died before it reported the new start of its
            # log: the batches it held before need not be the committed ones.
            replica.begin_at(detail["end"])
        replica.loaded = True
        replica.has_delivered(detail["end"])

    def _install(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        self._snapshot(replica, event, detail)
        replica.begin_at(detail["end"])
        replica.installed = detail["end"]
        replica.has_delivered(detail["end"])

    def _image(self, replica: Replica, event: TraceEvent, detail: dict[str, Any]) -> None:
        first = self.digests.setdefault(applied_to(event), event)
        made = "snapshot" in (first.kind, event.kind)
        self._judge("snapshot-digest" if made else "image-digest", replica, event)
        self.states.append(event)


_ACCEPT: Final[dict[str, Callable[[QuorumModel, Replica, TraceEvent, dict[str, Any]], None]]] = {
    "append": QuorumModel._append,
    "commit": QuorumModel._commit,
    "grant": QuorumModel._grant,
    "truncate": QuorumModel._truncate,
    "elected": QuorumModel._elected,
    "claim": QuorumModel._claim,
    "controller-error": QuorumModel._controller_error,
    "state": QuorumModel._entered,
    "start": QuorumModel._entered,
    "voters": QuorumModel._voters,
    "snapshot": QuorumModel._snapshot,
    "install": QuorumModel._install,
    "load": QuorumModel._load,
    "image": QuorumModel._image,
}
"""How the model continues from an event of each kind."""
