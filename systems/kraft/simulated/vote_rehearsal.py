"""Asks copies of members for votes, and announces leaders to them, in each of their states (F29).

Some states last for moments, and a request that is decided there by a vote, a log or an epoch comes
too seldom. So when a member enters a state, copies of it get invented requests. Their answers must
be those of the table of KIP-996, and each epoch, vote and leader is written before the answer.
Compiled members cannot be copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.consensus.effects import Reply, WriteQuorumState
from kraftwreck.nodes.consensus.kraft import poll
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import (
    NO_DIRECTORY,
    BeginQuorumEpochRequest,
    Request,
    VoteRequest,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request
from kraftwreck.nodes.consensus.kraft.states import (
    NEVER,
    Follower,
    Prospective,
    Unattached,
)
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.events import is_from_shell
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.replica_copies import (
    INTERPRETED,
    MOVED,
    TOKEN,
    is_short,
)

EACH: Final = 2
"""How often members are asked in each situation, in a run."""
_SHARED: Final = ("log", "history", "config", "snapshots", "committed")
"""Parts of a member that these requests do not change."""


_Situation = tuple[str, bool, bool, bool]
"""The name of a state; whether the member has voted, is a voter, and has fetched from a leader."""


class VoteRehearsal:
    """Judges members of the quorum of ``world`` when they enter a state."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._asked: dict[_Situation, int] = {}
        self._last: dict[int, tuple[object, _Situation]] = {}
        """By host: the state of its last step."""
        if INTERPRETED:
            world.on_step.append(self._on_step)

    @rule(
        "F29",
        "VotesByTheTable",
        "In each state a member grants votes and pre-votes as the table of KIP-996 says, also one "
        "that observes a silent leader. It follows a leader that announces itself. Its epoch, vote "
        "and leader are written before the answer, and the vote of an epoch stays.",
        simulated=True,
    )
    def _on_step(self, host: Host, event: Any) -> None:
        node = host.node
        if not isinstance(node, Node) or is_from_shell(event):
            return
        replica = getattr(node, "replica", None)
        if not isinstance(replica, Replica):
            return
        state = replica.state
        fetches = isinstance(state, Follower) and state.has_fetched
        situation = state.name, state.voted_id >= 0, replica.is_voter, fetches
        before = self._last.get(host.id)
        if before is not None and before[0] is state and before[1] == situation:
            return
        self._last[host.id] = state, situation
        if replica.shutting_down:
            return
        asked = self._asked.get(situation, 0)
        if asked == EACH:
            return
        self._asked[situation] = asked + 1
        for wrong in judge(replica):
            self._failures.add("F29", self._world.now, f"{host.name}, {wrong}")


def judge(replica: Replica) -> Iterator[str]:
    """Yield what copies of a member do wrong."""
    for request in votes(replica):
        yield from _voted(replica, request)
    yield from _announced(replica)
    yield from _in_vain(replica)


def votes(replica: Replica) -> Iterator[VoteRequest]:
    """Yield votes of this epoch and the next for others, with logs of several ages."""
    others = [each for each in replica.voter_set.ids if each != replica.node_id]
    voted = replica.state.voted_id
    candidates = sorted(others, key=lambda each: each != voted)[:2]
    last, end = replica.log.last_epoch, replica.log.end_offset
    for candidate in candidates:
        voter = replica.voter_set.get(candidate)
        directory = voter.directory if voter is not None else NO_DIRECTORY
        for epoch in (replica.epoch, replica.epoch + 1):
            for pre_vote in (False, True):
                for log in ((last, end), (last - 1, end + 9), (last, end - 1)):
                    newest = epoch if pre_vote else epoch - 1
                    if min(log) < 0 or log[0] > newest:
                        continue
                    yield VoteRequest(
                        None,
                        replica.node_id,
                        epoch,
                        candidate,
                        directory,
                        replica.config.directory_id,
                        *log,
                        pre_vote,
                    )


def due(replica: Replica, request: VoteRequest) -> bool:
    """Return whether the member grants this vote, by the table of KIP-996."""
    state: Any = replica.state
    if request.epoch > replica.epoch:
        state = Unattached(NEVER)
    own = replica.log.last_epoch, replica.log.end_offset
    is_new = (request.last_epoch, request.last_offset) >= own
    if isinstance(state, Leader):
        return False
    if request.pre_vote:
        return is_new and not (isinstance(state, Follower) and state.has_fetched)
    if not isinstance(state, Unattached | Prospective):
        return False
    if state.voted_id >= 0:
        voted = state.voted_directory in (NO_DIRECTORY, request.candidate_directory)
        return voted and state.voted_id == request.candidate_id
    return is_new and state.leader_id < 0


def _voted(replica: Replica, request: VoteRequest) -> Iterator[str]:
    copy = copied(replica)
    written, answer = _answer(copy, request)
    if answer is None or answer.error or answer.partition_error:
        return  # An epoch that comes too soon is refused. Other errors have their rule (I33).
    kind = "pre-vote" if request.pre_vote else "vote"
    what = (
        f"{_described(replica)}, would {'grant' if answer.vote_granted else 'refuse'} node"
        f" {request.candidate_id} a {kind} of epoch {request.epoch} (log up to"
        f" {request.last_offset}, epoch {request.last_epoch})"
    )
    if answer.vote_granted != due(replica, request):
        yield what
        return
    vote = _vote_in(replica, request.epoch)
    if answer.vote_granted and not request.pre_vote:
        vote = request.candidate_id, request.candidate_directory
    yield from _unwritten(replica, copy, written, vote, what)


def _announced(replica: Replica) -> Iterator[str]:
    """Yield how a member does not follow a leader of its epoch or the next one."""
    others = [each for each in replica.voter_set.ids if each != replica.node_id]
    for epoch in (replica.epoch, replica.epoch + 1):
        known = replica.leader_id if epoch == replica.epoch else -1
        if epoch == replica.epoch and (isinstance(replica.state, Leader) or known < 0 < epoch):
            continue  # Two leaders of an epoch are a contradiction; so may be an unknown one.
        for leader in [known] if known >= 0 else others[:1]:
            if leader == replica.node_id:
                continue
            request = BeginQuorumEpochRequest(
                None, replica.node_id, replica.config.directory_id, leader, epoch, MOVED
            )
            copy = copied(replica)
            written, answer = _answer(copy, request)
            if answer is None or answer.error or answer.partition_error:
                continue
            what = f"{_described(replica)}, hears that node {leader} leads epoch {epoch}"
            follows = isinstance(copy.state, Follower | Prospective)
            if (copy.epoch, copy.leader_id) != (epoch, leader) or not follows:
                yield f"{what} and would be {_described(copy)}"
                continue
            vote = _vote_in(replica, epoch)
            yield from _unwritten(replica, copy, written, vote, what)


def _in_vain(replica: Replica) -> Iterator[str]:
    """Yield how an observer whose leader is silent would block an election."""
    state = replica.state
    if replica.is_voter or not isinstance(state, Follower) or state.deadline == NEVER:
        return
    if not is_short(replica):
        return
    copy = deepcopy(replica)  # It may clean its log.
    copy.now = max(copy.now, state.deadline)
    poll.poll(copy)
    if isinstance(copy.state, Follower):
        for request in votes(copy):
            if request.pre_vote and not copy.state.has_fetched:
                yield from _voted(copy, request)
        if copy.state.has_fetched:
            yield f"{_described(replica)}, would refuse pre-votes although its leader is silent"


def _vote_in(replica: Replica, epoch: int) -> tuple[int, bytes]:
    """Return the vote that the member has cast in an epoch, the present one or a newer one."""
    if epoch != replica.epoch:
        return -1, NO_DIRECTORY
    return replica.state.voted_id, replica.state.voted_directory


def _unwritten(
    replica: Replica,
    copy: Replica,
    written: WriteQuorumState | None,
    vote: tuple[int, bytes],
    what: str,
) -> Iterator[str]:
    """Yield what is not in quorum-state when the answer leaves, or wrong there."""
    if written is None:
        if copy.epoch != replica.epoch or vote != _vote_in(replica, copy.epoch):
            yield f"{what}, and its quorum-state would not have that"
        return
    if (written.epoch, written.voted_id, written.voted_directory) != (copy.epoch, *vote):
        yield f"{what}, and write epoch {written.epoch} with a vote for {written.voted_id}"


def copied(replica: Replica) -> Replica:
    """Return a copy that shares what votes do not change."""
    shared = [getattr(replica, name) for name in _SHARED]
    copy = deepcopy(replica, {id(each): each for each in shared})
    copy.committed = []
    copy.effects = []
    return copy


def _answer(copy: Replica, request: Request) -> tuple[WriteQuorumState | None, Any]:
    """Return the quorum-state that is written before the answer, and the answer."""
    handle_request(copy, TOKEN, request)
    written = None
    for effect in copy.effects:
        if isinstance(effect, WriteQuorumState):
            written = effect
        elif isinstance(effect, Reply) and effect.token == TOKEN:
            return written, effect.message
    return written, None


def _described(replica: Replica) -> str:
    state: Any = replica.state
    return (
        f"{state.name} in epoch {replica.epoch} with the leader {state.leader_id} and a vote for"
        f" {state.voted_id}"
    )
