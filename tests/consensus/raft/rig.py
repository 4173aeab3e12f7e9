"""One member alone with a log of the test's choice; the test plays all other members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraftwreck.nodes.consensus.effects import (
    Abandon,
    Effect,
    Message,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    Tick,
    WriteQuorumState,
)
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.raft.config import RaftConfig
from kraftwreck.nodes.consensus.raft.core import RaftCore
from kraftwreck.nodes.consensus.raft.messages import (
    AppendEntriesRequest,
    AppendEntriesResponse,
    RequestVoteRequest,
    RequestVoteResponse,
)
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.log.batch import encode_batch

MS = 1000
T = 1000 * MS
CLUSTER = "raft"


def entry(offset: int, term: int, value: bytes = b"v", count: int = 1) -> bytes:
    """An entry of ``count`` records."""
    return encode_batch(offset, term, 0, [(None, value)] * count, control=False)


def log_of(terms: Sequence[int]) -> list[bytes]:
    """A log with one record of each term."""
    return [entry(offset, term) for offset, term in enumerate(terms)]


class Member:
    """Member 1 of ``size``; its log holds one entry of each of ``terms``."""

    def __init__(
        self,
        terms: Sequence[int] = (),
        *,
        term: int | None = None,
        voted: int = -1,
        size: int = 3,
        recovered: Recovered | None = None,
        **settings: Any,
    ) -> None:
        self.now = 0
        self.size = size
        last = max(terms, default=0) if term is None else term
        saved = WriteQuorumState(last, -1, voted, bytes(16), ())
        self.recovered = recovered or Recovered(saved, log_of(terms))
        members = {i: Endpoint(f"m{i}", 1) for i in range(1, size + 1)}
        config = RaftConfig(1, CLUSTER, members, **settings)
        self.core = RaftCore(config, self.recovered, 0, 0)
        self.effects: list[Effect] = []
        self.token = 0
        self.core.start()
        self._settle()

    def _settle(self) -> list[Effect]:
        self.core.poll()
        effects, self.core.effects = self.core.effects, []
        self.effects += effects
        return effects

    def ask(self, message: Message) -> Any:
        """Send a request to the member; return its response, None if it was rejected."""
        self.token += 1
        self.core.now = self.now
        self.core.handle(RequestReceived(self.token, message))
        for effect in self._settle():
            if isinstance(effect, Reply):
                return effect.message
            if isinstance(effect, Abandon):
                return None
        raise AssertionError("no answer")

    def answer(self, sent: Send, message: Message | None) -> list[Effect]:
        """Answer a request of the member; return what it does then."""
        self.core.now = self.now
        self.core.handle(ResponseReceived(sent.destination, sent.correlation, message))
        return self._settle()

    def wait(self, milliseconds: int) -> list[Effect]:
        """Let time pass; return everything that the member does."""
        seen = len(self.effects)
        end = self.now + milliseconds * MS
        while self.core.deadline <= end:
            self.now = max(self.now + 1, self.core.deadline)
            self.core.now = self.now
            self.core.handle(Tick())
            self._settle()
        self.now = self.core.now = end
        return self.effects[seen:]

    def lead(self) -> list[Send]:
        """Let the member win an election; return its first requests as the leader."""
        while True:
            effects = self.wait(10)
            for sent in sends(effects, RequestVoteRequest):
                effects = self.answer(sent, RequestVoteResponse(self.core.term, True))
                if self.core.state.name == "leader":
                    return sends(effects, AppendEntriesRequest)

    def propose(self, *values: bytes) -> list[Effect]:
        """Append an entry as the leader; return what the member does."""
        self.core.append_records(self.core.term, values)
        return self._settle()

    def vote(self, term: int, last: tuple[int, int], candidate: int = 2, pre: bool = False) -> Any:
        """Request the member's vote; ``last`` is the last term and the end of the log."""
        return self.ask(RequestVoteRequest(CLUSTER, term, candidate, *last, pre))

    def append(
        self,
        term: int,
        prev: tuple[int, int],
        entries: Sequence[bytes] = (),
        commit: int = 0,
        leader: int = 2,
    ) -> AppendEntriesResponse | None:
        """Send AppendEntries; ``prev`` is the end offset and the term before the entries."""
        request = AppendEntriesRequest(CLUSTER, term, leader, *prev, commit, b"".join(entries))
        response = self.ask(request)
        assert response is None or isinstance(response, AppendEntriesResponse)
        return response

    @property
    def terms(self) -> list[int]:
        """The term of each record of the log."""
        log = self.core.log
        found = [log.epoch_at(offset) for offset in range(log.start_offset, log.end_offset)]
        return [term for term in found if term is not None]

    @property
    def saved(self) -> tuple[int, int]:
        """Term and vote on the disk."""
        written = [e for e in self.effects if isinstance(e, WriteQuorumState)]
        state = written[-1] if written else self.recovered.quorum_state
        assert state is not None
        return state.epoch, state.voted_id


def sends(effects: Sequence[Effect], kind: type) -> list[Send]:
    """The requests of one kind among ``effects``."""
    return [e for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]
