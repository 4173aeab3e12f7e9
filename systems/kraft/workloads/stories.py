"""Scripted sequences of changes of one topic on a client's own phantom brokers.

Some states of a partition need three or four requests in a row, by its leader, an operator and a
broker that falls silent. Random requests would hardly ever produce them. A story is a probe
(:mod:`~systems.kraft.workloads.probes`) of more than one request. The committed log decides whether
its answers and the later ones are right.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from kraftwreck.harness.client import Answer, Call, Completion, Invocation
from kraftwreck.nodes.draw import draw_below
from kraftwreck.nodes.metadata.config_keys import COMMIT_MODE, QUORUM
from kraftwreck.nodes.metadata.image_values import COMMIT_MODE_VERSION
from kraftwreck.nodes.protocol import errors
from kraftwreck.systems.kraft.requests import ClientState
from kraftwreck.systems.kraft.workloads.administration import (
    ELR_VERSION,
    UPDATE_FEATURES_VERSION,
    UPGRADE,
)
from kraftwreck.systems.kraft.workloads.controller import (
    ask_controller,
    error_name,
    not_answered,
    refused_by_node,
)
from kraftwreck.systems.kraft.workloads.phantoms import (
    NO_EPOCH,
    Phantom,
    beat,
    live,
    phantoms_of,
    restart,
)
from kraftwreck.systems.kraft.workloads.probe_requests import PREFIX
from kraftwreck.systems.kraft.workloads.proposals import ALTER_PARTITION_VERSION

Body = dict[str, Any]
Choose = Callable[..., int]
Steps = Generator[Call, Answer, "Completion | None"]
"""A step or a story; it returns the completion of a failed step, else None."""

EMPTY: Final[Mapping[str, str]] = {}
CREATE_TOPICS_VERSION: Final = 7
DELETE_TOPICS_VERSION: Final = 6
REASSIGN_VERSION: Final = 1
ALTER_CONFIGS_VERSION: Final = 1
TOPIC: Final = 2
BROKER: Final = 4
QUIET: Final = 14
"""Heartbeats that a broker skips: long enough for the controller's periodic tasks."""
SHORT: Final = 4
"""Heartbeats that last longer than a short session."""


class _Stage:
    """The setting of one story: its brokers, and the topic with its one partition."""

    def __init__(self, client: ClientState, name: str, choose: Choose, timeout_ms: int) -> None:
        self.client, self.name, self.choose = client, name, choose
        self.timeout_ms = timeout_ms
        self.topic_id = bytes(16)
        self.epoch = 0
        self.factor = 0
        """The number of replicas, or the one that a reassignment in progress leads to."""
        self.cast: list[Phantom] = []

    def send(self, api: str, version: int, body: Body, items: str | None) -> Steps:
        """Send a request; unless it succeeds, return the completion of the story."""
        client = self.client
        answer, node = yield from ask_controller(client, api, version, body, self.timeout_ms)
        if answer.status != "ok":
            return not_answered(answer, node, write=True)
        self.answer = answer.response
        code = int(answer.response.get("error_code", errors.NONE))
        if code == errors.NONE and items is not None:
            found = answer.response[items][0]
            part = found.get("partitions", [found])[0]
            code = int(part["error_code"])
        if code != errors.NONE:
            return refused_by_node(self.client, code, node, write=True)
        return None

    def create(self, replicas: list[Phantom], configs: Mapping[str, str] = EMPTY) -> Steps:
        """Create the topic on ``replicas``, the first of which leads."""
        self.factor = len(replicas)
        topic = {
            "name": self.name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 0, "broker_ids": [p.id for p in replicas]}],
            "configs": [{"name": name, "value": value} for name, value in configs.items()],
        }
        body = {"topics": [topic], "timeout_ms": self.timeout_ms, "validate_only": False}
        ended = yield from self.send("CreateTopics", CREATE_TOPICS_VERSION, body, "topics")
        if ended is not None and ended.error == error_name(errors.TOPIC_ALREADY_EXISTS):
            gone = {"topics": [{"name": self.name}], "timeout_ms": self.timeout_ms}
            ended = yield from self.send("DeleteTopics", DELETE_TOPICS_VERSION, gone, "responses")
            if ended is None:
                ended = yield from self.send("CreateTopics", CREATE_TOPICS_VERSION, body, "topics")
        if ended is None:
            self.topic_id = bytes(self.answer["topics"][0]["topic_id"])
        return ended

    def move(self, target: list[Phantom] | None) -> Steps:
        """Reassign the partition, or cancel a reassignment.

        A client that keeps the number of replicas may forbid to change it.
        """
        wanted = None if target is None else [p.id for p in target]
        resizes = target is None or len(target) != self.factor
        part = {"partition_index": 0, "replicas": wanted}
        body = {
            "timeout_ms": self.timeout_ms,
            "allow_replication_factor_change": resizes or self.choose(2, "resize") > 0,
            "topics": [{"name": self.name, "partitions": [part]}],
        }
        api = "AlterPartitionReassignments"
        ended = yield from self.send(api, REASSIGN_VERSION, body, "responses")
        if ended is None:
            self.epoch += 1
            self.factor = self.factor if target is None else len(target)
        return ended

    def propose(self, isr: list[Phantom]) -> Steps:
        """Let the first of the cast, which leads, propose an ISR."""
        leader = self.cast[0]
        part = {
            "partition_index": 0,
            "leader_epoch": 0,
            "new_isr_with_epochs": [{"broker_id": p.id, "broker_epoch": p.epoch} for p in isr],
            "leader_recovery_state": 0,
            "partition_epoch": self.epoch,
        }
        body = {
            "broker_id": leader.id,
            "broker_epoch": leader.epoch,
            "topics": [{"topic_id": self.topic_id, "partitions": [part]}],
        }
        ended = yield from self.send("AlterPartition", ALTER_PARTITION_VERSION, body, "topics")
        if ended is None:
            self.epoch += 1
        return ended

    def configure(self, setting: str, value: str, *, everywhere: bool = False) -> Steps:
        """Set one of the topic's settings, or the default of the whole cluster."""
        config = {"name": setting, "config_operation": 0, "value": value}
        kind, name = (BROKER, "") if everywhere else (TOPIC, self.name)
        resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
        body = {"resources": [resource], "validate_only": False}
        api = "IncrementalAlterConfigs"
        return (yield from self.send(api, ALTER_CONFIGS_VERSION, body, "responses"))

    def enable(self, feature: str) -> Steps:
        """Raise a feature to level 1."""
        update = {"feature": feature, "max_version_level": 1, "upgrade_type": UPGRADE}
        body = {
            "timeout_ms": self.timeout_ms, "feature_updates": [update], "validate_only": False,
        }  # fmt: skip
        return (yield from self.send("UpdateFeatures", UPDATE_FEATURES_VERSION, body, None))

    def depart(self, phantom: Phantom, *, stop: bool = False) -> Steps:
        """Let a broker request to be fenced, or ``stop``; then it is silent for a while."""
        phantom.stopping |= stop  # Once it has requested a shutdown it repeats that.
        how, seen = yield from beat(self.client, phantom, fence=not stop, stop=phantom.stopping)
        if how == "ok":
            if stop:
                restart(self.client, phantom)  # It dies, and a new process follows.
            phantom.quiet = QUIET
            return None
        return Completion("info" if how == "info" else "fail", error=seen["error"])


def _partial(stage: _Stage) -> Steps:
    """Begin a reassignment with one new replica in sync, then cancel, complete or change it."""
    a, b, c = stage.cast
    ended = yield from stage.create([a])
    target = ([b, c], [a, b, c], [c, b])[stage.choose(3, "target")]
    ended = ended or (yield from stage.move(target))
    caught_up = stage.choose(4, "caught-up")
    if ended is None and caught_up:
        ended = yield from stage.propose([a, (b, b, c)[caught_up - 1]])
    if ended is not None:
        return ended
    match stage.choose(6, "end"):
        case 0 | 1:
            return (yield from stage.move(None))
        case 2:
            return (yield from stage.propose([a, b, c]))
        case 3 | 4:
            others = ([a], [b], [a, b], [a, c])
            return (yield from stage.move(others[stage.choose(len(others), "other")]))
    return None


def _turned(stage: _Stage) -> Steps:
    """Change the order of the replicas: another one should lead, without a request for it."""
    a, b, c = stage.cast
    replicas = [a, b, c][: 2 + stage.choose(2, "factor")]
    ended = yield from stage.create(replicas)
    return ended or (yield from stage.move([*replicas[1:], a]))


def _stranded(stage: _Stage) -> Steps:
    """Allow the loss of records only after no replica in sync is left."""
    a, b, _ = stage.cast
    ended = yield from stage.create([a, b])
    ended = ended or (yield from stage.propose([a]))
    ended = ended or (yield from stage.depart(a))
    value = ("true", "True")[stage.choose(2, "case")]
    return ended or (yield from stage.configure("unclean.leader.election.enable", value))


def _shrunk(stage: _Stage) -> Steps:
    """Reduce the replicas while one of the remaining ones lags behind."""
    a, b, c = stage.cast
    ended = yield from stage.create([a, b, c])
    ended = ended or (yield from stage.propose([[a], [a, c]][stage.choose(2, "in-sync")]))
    ended = ended or (yield from stage.move([a, b]))
    return ended or (yield from stage.propose([a, b]))


def _halted(stage: _Stage) -> Steps:
    """Let a leader die before the controller permits its shutdown, or a replica without a word.

    In the second case an earlier process, which does not know that it was replaced, sends
    heartbeats meanwhile.
    """
    a, b, _ = stage.cast
    ended = yield from stage.create([a, b])
    replaced = next((p for p in (a, b) if p.old_epochs), None)
    if ended is None and replaced is not None and stage.choose(3, "replaced"):
        replaced.haunted = replaced.old_epochs[-1]
        replaced.quiet = 2 * QUIET  # More than most sessions.
        return None
    return ended or (yield from stage.depart(a, stop=True))


def _late(stage: _Stage) -> Steps:
    """Let the session of a leader end during its shutdown; then an older heartbeat arrives.

    The leader is the last replica in sync, so the partition waits for it.
    """
    a, b, _ = stage.cast
    ended = yield from stage.create([a, b][: 1 + stage.choose(2, "factor")])
    ended = ended or (yield from stage.propose([a]))
    if ended is None:
        a.stopping = True
        how, seen = yield from beat(stage.client, a, stop=True)
        if how != "ok":
            return Completion("info" if how == "info" else "fail", error=seen["error"])
        a.quiet, a.delayed = (SHORT, QUIET)[stage.choose(2, "quiet")], True
    return ended


def _dropped(stage: _Stage) -> Steps:
    """Replace the only replica in sync by one that leaves the ISR below the minimum.

    Or change that number for all topics of the cluster, which ends what made replicas eligible.
    """
    a, b, c = stage.cast
    ended = yield from stage.enable(ELR_VERSION)
    ended = ended or (yield from stage.create([a, b]))
    ended = ended or (yield from stage.configure("min.insync.replicas", "2"))
    ended = ended or (yield from stage.propose([a]))
    if ended is None and stage.choose(3, "everywhere") == 0:
        value = ("1", "2", "3")[stage.choose(3, "least")]
        return (yield from stage.configure("min.insync.replicas", value, everywhere=True))
    ended = ended or (yield from stage.move([c, b]))
    return ended or (yield from stage.propose([a, c]))


def _by_majority(stage: _Stage) -> Steps:
    """Shrink the ISR of a topic that a majority commits, replica by replica.

    ``min.insync.replicas`` is another number, which means nothing there.
    """
    a, b, c = stage.cast
    least = ("1", "3")[stage.choose(2, "least")]
    ended = yield from stage.enable(ELR_VERSION)
    ended = ended or (yield from stage.enable(COMMIT_MODE_VERSION))
    configs = {COMMIT_MODE: QUORUM, "min.insync.replicas": least}
    ended = ended or (yield from stage.create([a, b, c], configs))
    ended = ended or (yield from stage.propose([a, b]))
    return ended or (yield from stage.propose([a]))


STORIES: Final[dict[str, Callable[[_Stage], Steps]]] = {
    "story-dropped": _dropped,
    "story-by-majority": _by_majority,
    "story-halted": _halted,
    "story-late": _late,
    "story-partial": _partial,
    "story-shrunk": _shrunk,
    "story-stranded": _stranded,
    "story-turned": _turned,
}


def story_of(seed: int, thread: int, count: int, names: int) -> Body:
    """Return the value of an ``ask`` for a story, with one of ``names`` topics."""
    kinds = sorted(STORIES)
    kind = kinds[draw_below(len(kinds), seed, "story", thread, count)]
    return {"kind": kind, "name": f"{PREFIX}-story{thread}-{count % names}", "creates": True}


def tell(probe: Body, client: ClientState, choose: Choose, timeout_ms: int) -> Invocation:
    """Execute a story; the completion is ``ok`` if all of its steps succeeded."""
    stage = _Stage(client, probe["name"], choose, timeout_ms)
    stage.cast = [p for p in phantoms_of(client) if p.epoch != NO_EPOCH and not p.quiet]
    if len(stage.cast) < 3:
        return Completion("fail", probe, error="too few brokers")
    how, reports = yield from live(client, stage.cast)
    if how != "ok" or any(report.get("fenced", True) for report in reports):
        return Completion("info" if how == "info" else "fail", probe, error="a broker is fenced")
    ended = yield from STORIES[probe["kind"]](stage)
    if ended is None:
        return Completion("ok", probe | {"codes": [error_name(errors.NONE)]})
    ended.value = probe  # The steps before the failed one took effect.
    return ended
