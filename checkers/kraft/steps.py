"""Rules that a node's own steps prove: I3, I4 and I28, judged while the node runs again.

The input log of a process gives each of its steps: the event, and all its effects in order. So the
log and the quorum state that the node had at that moment are known exactly, and no tolerance is
needed. Traces and disk images show the same only after a crash, or not at all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from kraftwreck.checkers.kraft.quorum_model.election_rules import vote_is_saved
from kraftwreck.checkers.kraft.quorum_model.fetching import is_plain
from kraftwreck.nodes.consensus.effects import (
    AppendLog,
    CleanLog,
    FinishSnapshot,
    InstallSnapshot,
    Reply,
    RequestReceived,
    Send,
    TruncateLog,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.kraft.messages import (
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.log.batch import parse_header

Position = tuple[int, int]
"""(epoch of the last record, end offset)"""


class StepRules:
    """Judges the steps of one node; ``broken`` has the first (rule, explanation) of each rule."""

    def __init__(self, node: str) -> None:
        self.broken: dict[str, str] = {}
        self._node = node
        self._log = _Log(Recovered())
        self._saved: WriteQuorumState | None = None

    def start(self, recovered: Recovered, effects: Sequence[NodeEffect]) -> None:
        """Take in the start of a process with the state on its disk."""
        self._log = _Log(recovered)
        self._saved = recovered.quorum_state
        self.step(None, effects)

    def step(self, event: object, effects: Sequence[NodeEffect]) -> None:
        """Take in one step. A shell carries out all durable effects before it sends a message."""
        for effect in effects:
            if isinstance(effect, WriteQuorumState):
                self._saved = effect
        for effect in effects:
            if isinstance(effect, Send):
                self._sent(effect.message)
            elif isinstance(effect, Reply) and isinstance(event, RequestReceived):
                if effect.token == event.token:
                    self._replied(event.message, effect.message)
            else:
                self._log.carry_out(effect)

    def _sent(self, message: object) -> None:
        if isinstance(message, FetchRequest):
            stated = message.last_fetched_epoch, message.fetch_offset
            self._states_its_end("I28", "a fetch", stated)
        elif isinstance(message, VoteRequest):
            self._states_its_end("I4", "a candidacy", (message.last_epoch, message.last_offset))

    def _states_its_end(self, rule: str, by: str, stated: Position) -> None:
        own = self._log.last_epoch(), self._log.end
        if own[0] is not None and stated != own:
            self._fail(
                rule,
                f"{self._node} states in {by} that its log ends at (epoch, offset) {stated}; it "
                f"ends at {own}.",
            )

    def _replied(self, request: object, response: object) -> None:
        match request, response:
            case VoteRequest(), VoteResponse(vote_granted=True):
                self._granted(request)
            case FetchRequest(), FetchResponse(error=0, partition_error=0):
                self._fetched(request, response)

    def _granted(self, request: VoteRequest) -> None:
        own, epoch, candidate = self._log.last_epoch(), request.epoch, request.candidate_id
        if own is not None and (request.last_epoch, request.last_offset) < (own, self._log.end):
            self._fail(
                "I4",
                f"{self._node}, whose log ends at (epoch, offset) {(own, self._log.end)}, granted "
                f"a vote to {candidate}, whose log ends at "
                f"{(request.last_epoch, request.last_offset)}.",
            )
        if request.pre_vote:
            return
        if not vote_is_saved(request.voter_id, epoch, candidate, self._saved):
            self._fail(
                "I3",
                f"{self._node} granted its vote of epoch {epoch} to {candidate} before it wrote "
                "that vote to its disk.",
            )

    def _fetched(self, request: FetchRequest, response: FetchResponse) -> None:
        """A log is a prefix of another one if the epochs before its end are the same."""
        offset = request.fetch_offset
        if response.snapshot_end >= 0 or offset <= self._log.start:
            return
        held = self._log.epoch_before(offset)
        diverges = offset > self._log.end or held != request.last_fetched_epoch
        if diverges and is_plain(response):
            self._fail(
                "I28",
                f"{self._node} answered a fetch from offset {offset} after epoch "
                f"{request.last_fetched_epoch} as if the logs agreed; its own log "
                + (f"has epoch {held} there." if held is not None else f"ends at {self._log.end}."),
            )
        elif not diverges and not is_plain(response):
            self._fail(
                "I28",
                f"{self._node} answered a fetch from offset {offset} after epoch {held} as if the "
                "logs diverged; its own log has that epoch there.",
            )

    def _fail(self, rule: str, explanation: str) -> None:
        self.broken.setdefault(rule, explanation)


class _Batch(NamedTuple):
    base: int
    epoch: int
    end: int


class _Log:
    """Where the batches of a node's log begin, and their epochs."""

    def __init__(self, recovered: Recovered) -> None:
        self.start = self.end = recovered.start_offset
        self._batches: list[_Batch] = []
        self._snapshots = {snapshot.end_offset: snapshot.epoch for snapshot in recovered.snapshots}
        for batch in recovered.batches:
            self._append(batch)

    def last_epoch(self) -> int | None:
        """Return the epoch of the last record; of an empty log that of the snapshot before it, 0 at
        the beginning, None if it is not known."""
        if self._batches:
            return self._batches[-1].epoch
        return self._snapshots.get(self.end, 0 if self.end == 0 else None)

    def epoch_before(self, offset: int) -> int | None:
        """Return the epoch of the record before ``offset``, None if it is not in the log."""
        place = bisect_right(self._batches, offset - 1, key=attrgetter("base")) - 1
        return self._batches[place].epoch if place >= 0 and offset <= self.end else None

    def carry_out(self, effect: NodeEffect) -> None:
        """Follow a durable effect; others change nothing."""
        if isinstance(effect, AppendLog):
            self._append(effect.batch)
        elif isinstance(effect, TruncateLog):
            while self._batches and self._batches[-1].end > effect.end_offset:
                self._batches.pop()
            self.end = self._batches[-1].end if self._batches else self.start
        elif isinstance(effect, FinishSnapshot):
            self._snapshots[effect.end_offset] = effect.epoch
        elif isinstance(effect, InstallSnapshot):
            self._batches.clear()
            self.start = self.end = effect.end_offset
            self._snapshots[effect.end_offset] = effect.epoch
        elif isinstance(effect, CleanLog):
            cleaned = bisect_right(self._batches, effect.start_offset, key=attrgetter("end"))
            del self._batches[:cleaned]
            self.start = effect.start_offset

    def _append(self, batch: bytes) -> None:
        header = parse_header(batch)
        self.end = header.last_offset + 1
        self._batches.append(_Batch(header.base_offset, header.epoch, self.end))
