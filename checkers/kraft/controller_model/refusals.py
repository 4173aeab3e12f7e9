"""Which error codes a request calls for in a state of the metadata, by API.

Each function returns the error codes that are :class:`Allowed` for one part of a request in one
state. Where a request breaks several rules, any of their codes is right: the order of the
controller's checks is not specified. None means that the state does not decide it.

Source: Kafka's ``ReplicationControlManager``, ``ConfigurationControlManager``,
``ClusterControlManager`` and ``FeatureControlManager``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from kraftwreck.checkers.kraft.controller_model.config_values import altered, is_legal
from kraftwreck.checkers.kraft.controller_model.metadata_model import (
    BROKER,
    ELR_FEATURE,
    NO_LEADER,
    TOPIC,
    Broker,
    Partition,
)
from kraftwreck.checkers.kraft.controller_model.state import ELIGIBLE_LEADERS, State
from kraftwreck.nodes.protocol import errors

Body = dict[str, Any]


class Allowed:
    """The error codes that an answer may have. With ``must`` it must have one of either; without,
    it may also report success."""

    __slots__ = ("may", "must")

    def __init__(self, *must: int, may: Iterable[int] = ()) -> None:
        self.must = set(must)
        self.may = set(may) if may else set[int]()

    def __contains__(self, code: int) -> bool:
        return code in self.must or code in self.may or (code == errors.NONE and not self.must)

    @property
    def codes(self) -> set[int]:
        """All of these codes, and that of success where no other must be."""
        return self.must | self.may | (set() if self.must else {errors.NONE})

    def add(self, *codes: int) -> None:
        """Add codes of which the answer must have one."""
        self.must.update(codes)

    def join(self, other: Allowed) -> Allowed:
        """Add all of ``other``; return self."""
        self.must |= other.must
        self.may |= other.may
        return self


Codes = Allowed | None

METADATA_TOPIC: Final = "__cluster_metadata"
NO_ID: Final = bytes(16)
LONGEST_NAME: Final = 249
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_NODE_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")
LOST: Final = (2).to_bytes(16, "big")
RESERVED: Final = 100
"""Directory ids below this one are reserved."""

PREFERRED, UNCLEAN = 0, 1

COMMIT_MODE: Final = "commit.mode"
QUORUM_COMMIT: Final = (COMMIT_MODE, "quorum")
COMMIT_FEATURE: Final = "commit.mode.version"
"""The feature without which no topic may have it."""


def is_legal_name(name: str) -> bool:
    """Whether a topic may have this name."""
    return name not in (".", "..") and len(name) <= LONGEST_NAME and bool(_NAME.fullmatch(name))


def candidates(state: State) -> list[int]:
    """Return the brokers that may get new replicas."""
    return [
        broker_id
        for broker_id, broker in state.brokers().items()
        if not broker.stopping
        and not (broker.directories and set(broker.directories) <= set(broker.cordoned or ()))
    ]


def _assignment(state: State, replicas: Sequence[int], factor: int | None = None) -> bool:
    """Whether ``replicas`` may be a list of replicas, of ``factor`` if that is given."""
    known = state.brokers()
    return (
        bool(replicas)
        and len(set(replicas)) == len(replicas)
        and all(replica in known for replica in replicas)
        and (factor is None or len(replicas) == factor)
    )


def _manual(state: State, lists: Sequence[Sequence[int]], factor: int) -> Allowed:
    """Check replicas that the request assigns itself, by partition."""
    wrong = any(
        not _assignment(state, each, factor) or not any(map(state.is_active, each))
        for each in lists
    )
    if wrong and not state.brokers():
        return Allowed(may=[errors.INVALID_REPLICA_ASSIGNMENT])  # The voters count as brokers.
    return Allowed(errors.INVALID_REPLICA_ASSIGNMENT) if wrong else Allowed()


def _placement(state: State, factor: int) -> Allowed:
    if not state.brokers():
        # The voters count as brokers, and there may be too few of them.
        return Allowed(may=[errors.INVALID_REPLICATION_FACTOR])
    may = candidates(state)
    if not 0 < factor <= len(may) or all(state.brokers()[i].fenced for i in may):
        return Allowed(errors.INVALID_REPLICATION_FACTOR)
    return Allowed()


# --- topics -------------------------------------------------------------------------------


def collide(one: str, other: str) -> bool:
    """Whether the names of two topics are one name in metrics, where '.' and '_' are equal."""
    if one == other or len(one) != len(other):
        return False
    return one.replace(".", "_") == other.replace(".", "_")


def create_topic(
    state: State,
    topic: Body,
    names: Sequence[str],
    defaults: Body,
    created: Collection[str] = (),
) -> Codes:
    """CreateTopics: ``names`` are all of the request, ``defaults`` the cluster's settings.

    The same answer reports success for ``created``. One of several names that collide may be there.
    """
    name, found = topic["name"], Allowed()
    if names.count(name) > 1:
        found.add(errors.INVALID_REQUEST)
    if name == METADATA_TOPIC:
        found.add(errors.TOPIC_AUTHORIZATION_FAILED)
    if not is_legal_name(name):
        found.add(errors.INVALID_TOPIC_EXCEPTION)
    if state.topic(name) is not None:
        found.add(errors.TOPIC_ALREADY_EXISTS)
    elif any(collide(name, other) for other in (*state.topics(), *created)):
        found.add(errors.INVALID_TOPIC_EXCEPTION)
    settings = [config["name"] for config in topic["configs"]]
    if len(set(settings)) != len(settings):
        found.add(errors.INVALID_CONFIG)
    for config in topic["configs"]:
        legal = is_legal(TOPIC, config["name"], config["value"])
        if legal is None:
            return None
        if not legal:
            found.add(errors.INVALID_CONFIG)
        if (config["name"], config["value"]) == QUORUM_COMMIT and not state.level(COMMIT_FEATURE):
            found.add(errors.INVALID_CONFIG)
    return found.join(_new_partitions(state, topic, defaults))


def _new_partitions(state: State, topic: Body, defaults: Body) -> Allowed:
    count, factor = topic["num_partitions"], topic["replication_factor"]
    found = Allowed()
    if manual := topic["assignments"]:
        if count != -1 or factor != -1:
            found.add(errors.INVALID_REQUEST)
        lists = [list(each["broker_ids"]) for each in manual]
        numbers = sorted(each["partition_index"] for each in manual)
        if numbers != list(range(len(manual))):
            found.add(errors.INVALID_REPLICA_ASSIGNMENT)
        return found.join(_manual(state, lists, len(lists[0])))
    if factor == 0 or factor < -1:
        found.add(errors.INVALID_REPLICATION_FACTOR)
    else:
        found.join(_placement(state, defaults["factor"] if factor == -1 else factor))
    if count == 0 or count < -1:
        found.add(errors.INVALID_PARTITIONS)
    return found


def delete_topic(state: State, wanted: Body, meant: Sequence[tuple[str | None, bytes]]) -> Codes:
    """DeleteTopics: ``meant`` are (name, id) of all of the request."""
    name, topic_id = wanted["name"], bytes(wanted["topic_id"])
    if (name is None) == (topic_id == NO_ID):
        return Allowed(errors.INVALID_REQUEST)

    def target(each: tuple[str | None, bytes]) -> str | bytes:
        return each[0] if each[0] is not None else state.name(each[1]) or each[1]

    found = Allowed()
    if [target(each) for each in meant].count(target((name, topic_id))) > 1:
        found.add(errors.INVALID_REQUEST)
    if name is not None and state.topic(name) is None:
        found.add(errors.UNKNOWN_TOPIC_OR_PARTITION)
    if name is None and state.name(topic_id) is None:
        found.add(errors.UNKNOWN_TOPIC_ID)
    return found


def grow_topic(state: State, topic: Body, names: Sequence[str]) -> Codes:
    """CreatePartitions."""
    name, found = topic["name"], Allowed()
    if names.count(name) > 1:
        found.add(errors.INVALID_REQUEST)
    topic_id = state.topic(name)
    if topic_id is None:
        return found.join(Allowed(errors.UNKNOWN_TOPIC_OR_PARTITION))
    partitions = state.partitions(topic_id)
    more = topic["count"] - len(partitions)
    if more <= 0:
        return found.join(Allowed(errors.INVALID_PARTITIONS))
    factor = len(partitions[0].replicas) - len(partitions[0].removing)
    manual = topic["assignments"]
    if manual is None:
        return found.join(_placement(state, factor))
    lists = [list(each["broker_ids"]) for each in manual]
    if len(lists) != more:
        found.add(errors.INVALID_REPLICA_ASSIGNMENT)
    return found.join(_manual(state, lists, factor))


# --- configurations -----------------------------------------------------------------------


def resource(state: State, kind: int, name: str, nodes: Sequence[int]) -> Allowed:
    """A topic or broker resource; ``nodes`` are the ids of those that need no registration."""
    if kind not in (TOPIC, BROKER):
        return Allowed(errors.INVALID_REQUEST)
    if kind == TOPIC:
        return Allowed() if state.topic(name) else Allowed(errors.UNKNOWN_TOPIC_OR_PARTITION)
    if not name:
        return Allowed()
    if not _NODE_ID.fullmatch(name):
        return Allowed(errors.INVALID_REQUEST)
    if state.broker(int(name)) is not None:
        return Allowed()
    # A controller needs no registration, but it may have been removed from the voters for a while.
    unknown = errors.BROKER_ID_NOT_REGISTERED
    return Allowed(may=[unknown]) if int(name) in nodes else Allowed(unknown)


def alter_configs(
    state: State, wanted: Body, twice: bool, incremental: bool, nodes: Sequence[int]
) -> Codes:
    """AlterConfigs and IncrementalAlterConfigs, one resource; ``twice`` if it is named twice."""
    kind, name = wanted["resource_type"], wanted["resource_name"]
    found = resource(state, kind, name, nodes)
    names = [config["name"] for config in wanted["configs"]]
    if twice or len(set(names)) != len(names):
        found.add(errors.INVALID_REQUEST)
    if kind not in (TOPIC, BROKER):
        return found
    for config in wanted["configs"]:
        key, value = config["name"], config["value"]
        operation = config["config_operation"] if incremental else 0
        legal, result = altered(kind, key, operation, value, state.config(kind, name, key))
        if legal is None:
            return None
        if not legal:
            found.add(errors.INVALID_CONFIG, errors.INVALID_REQUEST)
        if key == COMMIT_MODE and (result or "isr") != commit_mode(state, name):
            found.add(errors.INVALID_CONFIG)  # It is chosen when a topic is created.
        if key == "min.insync.replicas" and kind == BROKER and state.elr_enabled():
            return None
    least = state.config(kind, name, "min.insync.replicas")
    dropped = not incremental and least is not None and "min.insync.replicas" not in names
    if dropped and kind == BROKER and state.elr_enabled():
        found.add(errors.INVALID_CONFIG)  # Every broker must use the same number.
    kept = incremental or COMMIT_MODE in names or kind != TOPIC
    if not kept and commit_mode(state, name) != "isr":
        found.add(errors.INVALID_CONFIG)
    return found


def commit_mode(state: State, topic: str) -> str:
    """Return whether the ISR or a quorum of the replicas commits the records of a topic."""
    return state.config(TOPIC, topic, COMMIT_MODE) or "isr"


# --- partitions ---------------------------------------------------------------------------


def is_online(state: State, partition: Partition, broker_id: int) -> bool:
    """Whether the broker is active, with the directory of its replica online."""
    if not state.is_active(broker_id):
        return False
    broker = state.broker(broker_id)
    return broker is None or has_online_replica(partition, broker_id, broker)


def has_online_replica(partition: Partition, broker_id: int, broker: Broker) -> bool:
    """Whether the directory of the broker's replica is online; True if none is known."""
    if not partition.directories or broker_id not in partition.replicas:
        return True
    directory = partition.directories[partition.replicas.index(broker_id)]
    if int.from_bytes(directory, "big") < RESERVED:
        return directory != LOST
    return not broker.directories or directory in broker.directories


def elect(state: State, name: str, number: int, kind: int) -> Codes:
    """ElectLeaders, one partition."""
    partition = state.partition(state.topic(name), number)
    if partition is None:
        return Allowed(errors.UNKNOWN_TOPIC_OR_PARTITION)
    if kind == PREFERRED:
        first = partition.replicas[0]
        if partition.leader == first:
            return Allowed(errors.ELECTION_NOT_NEEDED)
        if not state.brokers():
            return None  # The voters count as brokers, and the voters are not known here.
        if first in (partition.isr or partition.elr) and is_online(state, partition, first):
            return Allowed()
        last_known = not partition.isr and not partition.elr and partition.last_known_elr
        if last_known == (first,) and is_online(state, partition, first):
            return None
        return Allowed(errors.PREFERRED_LEADER_NOT_AVAILABLE)
    if partition.leader != NO_LEADER:
        return Allowed(errors.ELECTION_NOT_NEEDED)
    if not state.brokers():
        return None
    able = [b for b in partition.replicas if is_online(state, partition, b)]
    return Allowed() if able else Allowed(errors.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def left_out(state: State, answer: Body) -> Iterator[tuple[str, int]]:
    """Yield the partitions (topic, number) that an answer to ElectLeaders for all leaves out."""
    told = {
        (result["topic"], part["partition_id"])
        for result in answer["replica_election_results"]
        for part in result["partition_result"]
    }
    for name in state.topics():
        for number in range(len(state.partitions(state.topic(name) or b""))):
            if (name, number) not in told:
                yield name, number


def leave_out(state: State, name: str, number: int, kind: int) -> Codes:
    """ElectLeaders for all, one left-out partition: no election is needed, or it is gone."""
    codes = elect(state, name, number, kind)
    if codes is not None and errors.UNKNOWN_TOPIC_OR_PARTITION in codes.must:
        return Allowed(errors.ELECTION_NOT_NEEDED)
    return codes


def reassign(state: State, name: str, wanted: Body, may_resize: bool) -> Codes:
    """AlterPartitionReassignments, one partition."""
    partition = state.partition(state.topic(name), wanted["partition_index"])
    if partition is None:
        return Allowed(errors.UNKNOWN_TOPIC_OR_PARTITION)
    target = wanted["replicas"]
    if target is None:
        if not partition.adding and not partition.removing:
            return Allowed(errors.NO_REASSIGNMENT_IN_PROGRESS)
        rest = [replica for replica in partition.replicas if replica not in partition.adding]
        lossy = partition.isr and not set(partition.isr) - set(partition.adding)
        if not rest:
            return Allowed(errors.INVALID_REPLICA_ASSIGNMENT)
        return None if lossy else Allowed()
    found = Allowed()
    if not state.brokers():
        return None
    if not _assignment(state, target):
        found.add(errors.INVALID_REPLICA_ASSIGNMENT)
    if not may_resize and len(target) != len(partition.replicas) - len(partition.removing):
        found.add(errors.INVALID_REPLICATION_FACTOR)
    return found


def propose(state: State, sender: int, topic_id: bytes, proposal: Body) -> Codes:
    """AlterPartition, one partition."""
    if state.name(topic_id) is None:
        return Allowed(errors.UNKNOWN_TOPIC_ID)
    partition = state.partition(topic_id, proposal["partition_index"])
    if partition is None:
        return Allowed(errors.UNKNOWN_TOPIC_OR_PARTITION)
    leader_epoch, epoch = proposal["leader_epoch"], proposal["partition_epoch"]
    if leader_epoch > partition.leader_epoch or epoch > partition.partition_epoch:
        return Allowed(errors.NOT_CONTROLLER)
    found = Allowed()
    if leader_epoch < partition.leader_epoch:
        found.add(errors.FENCED_LEADER_EPOCH)
    if epoch < partition.partition_epoch:
        found.add(errors.INVALID_UPDATE_VERSION)
    members = [(m["broker_id"], m["broker_epoch"]) for m in proposal["new_isr_with_epochs"]]
    isr = [broker for broker, _ in members]
    recovery = proposal["leader_recovery_state"]
    if (
        sender != partition.leader
        or len(set(isr)) != len(isr)
        or not set(isr) <= set(partition.replicas)
        or partition.leader not in isr
        or recovery not in (0, 1)
        or (recovery == 1 and (len(isr) > 1 or partition.recovery == 0))
    ):
        found.add(errors.INVALID_REQUEST)
    for broker_id, broker_epoch in members:
        broker = state.broker(broker_id)
        if broker is None or not broker.active or broker_epoch not in (-1, broker.epoch):
            found.add(errors.INELIGIBLE_REPLICA)
    return found


# --- brokers ------------------------------------------------------------------------------


def speak(state: State, broker_id: int, epoch: int) -> Allowed:
    """Requests on behalf of a broker must carry its current broker epoch."""
    broker = state.broker(broker_id)
    if broker is None:
        return Allowed(errors.BROKER_ID_NOT_REGISTERED)
    return Allowed() if broker.epoch == epoch else Allowed(errors.STALE_BROKER_EPOCH)


def register(state: State, body: Body, cluster_id: str | None) -> Codes:
    """BrokerRegistration; the rules C1 and C16 judge whether a session is valid."""
    found = Allowed()
    if cluster_id is not None and body["cluster_id"] != cluster_id:
        found.add(errors.INCONSISTENT_CLUSTER_ID)
    known = state.broker(body["broker_id"])
    if known is not None and known.incarnation != bytes(body["incarnation_id"]):
        found.may.add(errors.DUPLICATE_BROKER_REGISTRATION)
    if body["is_migrating_zk_broker"]:
        found.add(errors.BROKER_ID_NOT_REGISTERED)
    directories = [bytes(each) for each in body["log_dirs"]]
    if state.has_directories() and (
        not directories
        or len(set(directories)) != len(directories)
        or any(int.from_bytes(each, "big") < RESERVED for each in directories)
        or any(
            other_id != body["broker_id"] and not set(directories).isdisjoint(other.directories)
            for other_id, other in state.brokers().items()
        )
    ):
        found.add(errors.INVALID_REGISTRATION)
    ranges = {
        f["name"]: (f["min_supported_version"], f["max_supported_version"])
        for f in body["features"]
    }
    if "metadata.version" not in ranges:
        found.add(errors.INVALID_REGISTRATION)
    for feature, level in state.levels().items():
        low, high = ranges.get(feature, (0, 0))
        if not low <= level <= high:
            found.add(errors.UNSUPPORTED_VERSION)
    return found


FEATURES: Final = {
    "metadata.version": (7, 27),
    ELR_FEATURE: (0, 1),
    COMMIT_FEATURE: (0, 1),
}
LOSSY: Final = frozenset((7, 8, 11, 13, 14, 15, 16, 17, 23))
"""Levels of metadata.version that cannot be downgraded."""


def update_features(state: State, body: Body) -> Codes:
    """UpdateFeatures from version 1 on, as a whole."""
    updates = body["feature_updates"]
    names = [update["feature"] for update in updates]
    found = Allowed()
    if len(set(names)) != len(names):
        found.add(errors.INVALID_REQUEST)
    planned = {update["feature"]: update["max_version_level"] for update in updates}
    for update in updates:
        name, level = update["feature"], update["max_version_level"]
        if name == "kraft.version":
            return None
        kind, now = update["upgrade_type"], state.level(name)
        if kind not in (1, 2, 3):
            found.add(errors.INVALID_REQUEST)
        low, high = FEATURES.get(name, (0, -1))
        if not low <= level <= high or (level < now and kind == 1) or (level > now and kind != 1):
            found.add(errors.INVALID_UPDATE_VERSION)
        needed = any(commit_mode(state, topic) != "isr" for topic in state.topics())
        if name == COMMIT_FEATURE and level == 0 < now and needed:
            found.add(errors.INVALID_UPDATE_VERSION)
        if name == "metadata.version" and any(x in LOSSY for x in range(level + 1, now + 1)):
            found.add(errors.INVALID_UPDATE_VERSION)
        for broker in state.brokers().values():
            told = {feature: (least, most) for feature, least, most in broker.features}
            least, most = told.get(name, (0, 0))
            if not least <= level <= most:
                found.add(errors.INVALID_UPDATE_VERSION)
    elr = planned.get(ELR_FEATURE, state.level(ELR_FEATURE))
    level = planned.get("metadata.version", state.level("metadata.version"))
    if elr > 0 and level < ELIGIBLE_LEADERS:
        found.add(errors.INVALID_UPDATE_VERSION)
    return found
