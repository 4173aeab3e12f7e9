"""This node's replica, as its controller and broker see it (``nodes.metadata.quorum``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kraftwreck.nodes.consensus.effects import Abandon, Effect, Reply
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft import membership
from kraftwreck.nodes.consensus.kraft.leader import Leader, Progress
from kraftwreck.nodes.consensus.kraft.messages import NO_DIRECTORY
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.voters import VoterSet
from kraftwreck.nodes.metadata.quorum import NotLeaderError, QuorumDescription, ReplicaProgress
from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.server.wire import ShapeError, request_from_body, response_to_body

Body = dict[str, Any]


class LocalQuorum:
    """Lets metadata code append to the quorum's log and read the state of the quorum."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.node_id = replica.node_id
        self.cluster_id = replica.config.cluster_id
        self._asked: dict[int, tuple[int, Callable[[Body], None]]] = {}
        self._tokens = 0
        self._voters: dict[int, Endpoint] = {}  # For the voter set of the latest call.
        self._voters_of: VoterSet | None = None

    @property
    def voters(self) -> Mapping[int, Endpoint]:
        voters = self._replica.voter_set
        if voters is not self._voters_of:
            found = {voter: voters.endpoint(voter) for voter in voters.ids}
            self._voters = {v: endpoint for v, endpoint in found.items() if endpoint is not None}
            self._voters_of = voters
        return self._voters

    @property
    def epoch(self) -> int:
        return self._replica.epoch

    @property
    def leader_id(self) -> int:
        return self._replica.state.leader_id

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """The address of the leader, None if there is none or it is not known."""
        return self._replica.leader_endpoint

    @property
    def is_leader(self) -> bool:
        return isinstance(self._replica.state, Leader)

    @property
    def high_watermark(self) -> int:
        return self._replica.high_watermark

    @property
    def next_offset(self) -> int:
        state = self._replica.state
        return state.next_offset if isinstance(state, Leader) else self._replica.log.end_offset

    @property
    def kraft_version(self) -> int:
        return self._replica.kraft_version

    def append(self, epoch: int, records: Sequence[bytes], now: int) -> int:
        replica = self._replica
        if not replica.is_leader or replica.epoch != epoch or replica.shutting_down:
            raise NotLeaderError(f"node {self.node_id} does not lead epoch {epoch}")
        return replica.append_records(epoch, records)

    def resign(self, epoch: int, now: int) -> None:
        if epoch == self._replica.epoch:
            self._replica.resign("controller")

    def kraft_version_fault(self, level: int) -> str | None:
        return membership.upgrade_fault(self._replica, level)

    def upgrade_kraft_version(self, level: int) -> None:
        if not self._replica.is_leader:
            raise NotLeaderError(f"node {self.node_id} does not lead")
        membership.upgrade(self._replica, level)

    def change_voters(
        self, api: str, version: int, body: Body, answer: Callable[[Body], None], now: int
    ) -> None:
        self._tokens -= 1
        self._asked[self._tokens] = (version, answer)
        try:
            request = request_from_body(api, version, body)
        except ShapeError as error:
            del self._asked[self._tokens]
            answer(_refusal(errors.INVALID_REQUEST, f"The request is invalid: {error}."))
            return
        handle_request(self._replica, self._tokens, request)

    def take_answers(self, effects: list[Effect]) -> list[Effect]:
        """Pass answers to the callers of :meth:`change_voters`; return the other effects."""
        if not self._asked:
            return effects
        others: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Reply | Abandon) and effect.token in self._asked:
                version, answer = self._asked.pop(effect.token)
                if isinstance(effect, Abandon):
                    answer(_refusal(errors.UNKNOWN_SERVER_ERROR, "The controller failed."))
                else:
                    answer(response_to_body(effect.message, version, {}))
            else:
                others.append(effect)
        return others

    def describe(self, now: int) -> QuorumDescription:
        replica = self._replica
        leader = replica.state
        if not isinstance(leader, Leader):
            raise NotLeaderError(f"node {self.node_id} does not lead")

        def progress(replica_id: int, directory: bytes, state: Progress) -> ReplicaProgress:
            own = replica_id == replica.node_id
            return ReplicaProgress(
                replica_id,
                directory,
                state.end_offset,
                replica.wall_ms if own else state.last_fetch_wall,
                replica.wall_ms if own else state.last_caught_up_wall,
            )

        def disk(voter_id: int, state: Progress) -> bytes:
            # From the voter set; with kraft.version 0 only a fetch names the directory.
            voter = leader.voter_set.get(voter_id)
            known = voter.directory if voter is not None else NO_DIRECTORY
            return known if known != NO_DIRECTORY else state.directory

        return QuorumDescription(
            leader.leader_id,
            replica.epoch,
            replica.high_watermark,
            [progress(i, disk(i, p), p) for i, p in sorted(leader.voters.items())],
            [progress(i, d, p) for (i, d), p in sorted(leader.observers.items())],
        )


def _refusal(code: int, text: str) -> Body:
    return {"throttle_time_ms": 0, "error_code": code, "error_message": text}
