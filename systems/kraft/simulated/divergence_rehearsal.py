"""Tells copies of followers that their logs diverge, in every way (I28, KIP-101, KIP-279).

Logs of a run diverge in few ways: a follower seldom lacks an epoch of its leader, or has a log
shorter than the end that its leader names. So a copy of a follower gets invented answers, about
epochs that its log has and about those between them; and one about an epoch that it lacks, right
before its last records. As after a start, it knows of no commit but
that of its latest snapshot. Compiled followers cannot be copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from typing import Final, NamedTuple

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import Send
from kraftwreck.nodes.consensus.kraft import poll
from kraftwreck.nodes.consensus.kraft.messages import (
    NO_HIGH_WATERMARK,
    FetchRequest,
    FetchResponse,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.responses import handle_response
from kraftwreck.nodes.consensus.kraft.states import NEVER, Follower
from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED, is_short

EACH: Final = 3
"""How many followers of a run are judged."""
LAST: Final = 4
"""Epochs of a log that answers are about: the last ones."""
BEYOND: Final = 3
"""Records that the leader has, and the follower lacks."""


class Answer(NamedTuple):
    """The leader's end of an epoch, and where the follower has to cut its log."""

    epoch: int
    end: int
    cut: int


class DivergenceRehearsal:
    """Judges followers of ``world`` when they learn of a commit."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._left = EACH
        if INTERPRETED:
            world.on_trace.append(self._on_trace)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        node = host.node
        if event.kind != "hw" or not self._left or not isinstance(node, Node):
            return
        replica = node.replica
        if not isinstance(replica.state, Follower) or replica.shutting_down:
            return
        if not is_short(replica):
            return
        self._left -= 1
        for wrong in judge(replica):
            self._failures.add("I28", self._world.now, f"{host.name} {wrong}", event)


def judge(replica: Replica) -> Iterator[str]:
    """Yield how copies of a follower cut their logs wrongly."""
    for answer in answers(replica):
        yield from _misjudged(deepcopy(replica), answer)
    later, end = deepcopy(replica), replica.log.end_offset
    _skip_an_epoch(later)
    yield from _misjudged(later, Answer(later.epoch - 1, end + 1, end))


def _misjudged(copy: Replica, answer: Answer) -> Iterator[str]:
    """Yield how ``copy`` cuts its log wrongly after ``answer``."""
    before = copy.log.end_offset
    if _told(copy, answer) and copy.log.end_offset != answer.cut:
        yield (
            f"with records up to {before} would cut its log at {copy.log.end_offset}, not at"
            f" {answer.cut}, for a leader with epoch {answer.epoch} up to {answer.end}"
        )


def _skip_an_epoch(copy: Replica) -> None:
    """Let the log of ``copy`` have records of an epoch after one that it lacks."""
    copy.epoch = max(copy.epoch, copy.log.last_epoch) + 2
    for _ in range(BEYOND):
        batch = encode_batch(copy.log.end_offset, copy.epoch, 0, [(None, b"")], control=False)
        copy.log.append(batch, parse_header(batch))


def answers(replica: Replica) -> Iterator[Answer]:
    """Yield answers of a leader that has the records of the latest snapshot."""
    committed = _known_to_be_committed(replica)
    epochs = list(_epochs(replica))[-LAST:]
    for (epoch, end), (following, _) in pairwise([*epochs, (replica.epoch + 1, -1)]):
        if end < committed:
            continue
        yield Answer(epoch, committed, committed)
        yield Answer(epoch, end + BEYOND, end)
        if epoch + 1 < following:
            yield Answer(epoch + 1, end + BEYOND, end)


def _known_to_be_committed(replica: Replica) -> int:
    latest = replica.snapshots[-1].end_offset if replica.snapshots else 0
    return max(latest, replica.log.start_offset)


def _epochs(replica: Replica) -> Iterator[tuple[int, int]]:
    """Yield the epochs of a log, with their ends."""
    log = replica.log
    last: tuple[int, int] | None = None
    for _, header in log.batches_between(log.start_offset, log.end_offset):
        if last is not None and last[0] != header.epoch:
            yield last
        last = header.epoch, header.last_offset + 1
    if last is not None:
        yield last


def _told(copy: Replica, answer: Answer) -> bool:
    """Let a follower fetch, and get the answer; return whether it has fetched."""
    state = copy.state
    assert isinstance(state, Follower)
    state.deadline, state.has_updated, state.download = NEVER, True, None
    copy.high_watermark, copy._delivered = NO_HIGH_WATERMARK, _known_to_be_committed(copy)
    copy.links.clear()
    copy.links.forget(state.leader_id)
    copy.effects = []
    poll.poll(copy)
    for effect in copy.effects:
        if isinstance(effect, Send) and isinstance(effect.message, FetchRequest):
            if effect.destination != state.leader_id:
                return False
            response = FetchResponse(
                0,
                0,
                state.leader_id,
                copy.epoch,
                copy.high_watermark,
                0,
                answer.epoch,
                answer.end,
                -1,
                -1,
                b"",
            )
            handle_response(copy, state.leader_id, effect.correlation, response)
            return True
    return False
