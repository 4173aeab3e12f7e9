"""Whatever happens to brokers and partitions, the records keep C3 to C8 and C14.

:class:`Model` knows nothing of how changes are computed. It reads the log as any node does
and says what is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kraftwreck.nodes.metadata.elections import elect_preferred, elect_unclean
from kraftwreck.nodes.metadata.partition_change import changes_for_fenced

Fields = dict[str, Any]
P = dict[str, Any]
NAMES = {
    "replicas": "replicas",
    "isr": "isr",
    "removing_replicas": "removing",
    "adding_replicas": "adding",
    "eligible_leader_replicas": "elr",
    "last_known_elr": "known",
}


class BrokenInvariantError(AssertionError):
    """The log breaks an invariant, whose name comes first."""


def need(condition: bool, invariant: str, *facts: object) -> None:
    if not condition:
        raise BrokenInvariantError(f"{invariant}: {facts}")


@dataclass
class Model:
    """Brokers and partitions after the batches so far."""

    level: int = 0
    elr: bool = False
    min_isr: dict[str, int] = field(default_factory=dict)
    unclean: dict[str, bool] = field(default_factory=dict)
    topics: dict[bytes, str] = field(default_factory=dict)
    active: dict[int, bool] = field(default_factory=dict)
    parts: dict[tuple[bytes, int], P] = field(default_factory=dict)

    def batch(self, records: list[tuple[str, Fields]], proposed: set[int]) -> None:
        """Take a batch in and judge it; ``proposed`` is the ISR it was to bring about."""
        before: dict[tuple[bytes, int], P | None] = {}
        gone: set[int] = set()
        for name, f in records:
            if name in ("PartitionRecord", "PartitionChangeRecord"):
                key = (f["topic_id"], f["partition_id"])
                need(key not in before, "one change of a partition in a batch", key)
                before[key] = self.parts.get(key)
                self._partition(key, f, name == "PartitionRecord")
            else:
                self._other(name, f, gone)
        for key, old in before.items():
            self._changed(self.topics[key[0]], old, self.parts[key], proposed)
        for key, p in self.parts.items():
            need(not gone & {p["leader"]}, "C3", "gone and leads", key, p)
            need(not gone & set(p["isr"]) or (len(p["isr"]) == 1 and not self.elr), "C3", key, p)
            led = p["leader"] != -1
            need(not led or self.active.get(p["leader"], False), "C4", "dead leader", key, p)
            minimum = min(self.min_isr.get(self.topics[key[0]], 1), len(p["replicas"]))
            safe = not self.elr or not p["elr"] or len(p["isr"]) < minimum
            need(safe, "C7", "needless ELR", key, p)
            may = any(self.active.get(b, False) for b in p["isr"] or p["elr"])
            need(led or not may, "C4", "leaderless with a candidate", key, p)

    def _other(self, name: str, f: Fields, gone: set[int]) -> None:
        match name:
            case "ClearElrRecord":
                for key, p in self.parts.items():
                    if f["topic_name"] in ("", self.topics[key[0]]) and p["elr"] + p["known"]:
                        p["elr"], p["known"] = [], []
                        p["epochs"] = (p["epochs"][0], p["epochs"][1] + 1)
            case "TopicRecord":
                self.topics[f["topic_id"]] = f["name"]
            case "FeatureLevelRecord" if f["name"] == "metadata.version":
                self.level = f["feature_level"]
            case "FeatureLevelRecord":
                self.elr = f["feature_level"] > 0
            case "ConfigRecord" if f["name"] == "min.insync.replicas":
                self.min_isr[f["resource_name"]] = int(f["value"])
            case "ConfigRecord":
                self.unclean[f["resource_name"]] = f["value"] == "true"
            case "RegisterBrokerRecord":
                self.active[f["broker_id"]] = False
            case "BrokerRegistrationChangeRecord":
                self.active[f["broker_id"]] = f["fenced"] == -1
                if f["fenced"] != -1:
                    gone.add(f["broker_id"])

    def _partition(self, key: tuple[bytes, int], f: Fields, new: bool) -> None:
        p: P = {} if new else dict(self.parts[key])
        for name, short in NAMES.items():
            if new or f.get(name) is not None:
                p[short] = f.get(name) or []
        led = new or f["leader"] != -2
        p["leader"] = f["leader"] if led else p["leader"]
        p["epochs"] = (0, 0) if new else (p["epochs"][0] + led, p["epochs"][1] + 1)
        if new or f["leader_recovery_state"] != -1:
            p["recovering"] = f["leader_recovery_state"] == 1
        self.parts[key] = p

    def _changed(self, topic: str, old: P | None, p: P, proposed: set[int]) -> None:
        """Judge one changed partition."""
        isr, elr, replicas, leader = p["isr"], p["elr"], p["replicas"], p["leader"]
        was: set[int] = set(old["isr"]) if old else set()
        need(all(self.active.get(b, False) for b in set(isr) - was), "C3", "joins dead", p)
        need(bool(isr) or self.elr or not was, "C3", "last member gone", old, p)
        need(leader == -1 or leader in isr, "C4", "leader not in ISR", p)
        need(set(isr) <= set(replicas), "C4", "ISR outside of the replicas", p)
        need(set(elr) <= set(replicas), "C7", "ELR outside of the replicas", p)
        need(len(set(isr)) == len(isr) and len(set(replicas)) == len(replicas), "C4", "twice", p)
        need(not set(isr) & set(elr), "C7", "ISR meets ELR", p)
        need(set(p["adding"]) | set(p["removing"]) <= set(replicas), "C14", "outside", p)
        if old is None:
            return
        need(set(elr) <= was | set(old["elr"]), "C7", "ELR from nowhere", old, p)
        lost = not set(old["replicas"]) <= set(replicas)
        shrunk = not was <= set(isr)
        bump = leader != old["leader"] or lost or (shrunk and self.level < 12)
        unclean = leader not in was | set(old["elr"]) | proposed | {-1}
        need(p["epochs"][0] - old["epochs"][0] == (bump or unclean), "C5", old, p)
        if unclean and leader != old["leader"]:
            last = self.elr and old["known"] == [leader]
            need(self.unclean.get(topic, False) or last, "C6", "not allowed", old, p)
            need(p["recovering"] and isr == [leader], "C6", "not marked", p)
        self._reassigned(old, p)

    def _reassigned(self, old: P, p: P) -> None:
        before, after = old["replicas"], p["replicas"]
        under_way = bool(p["adding"] or p["removing"])
        if under_way:
            target = [b for b in after if b not in p["removing"]]
            need(after == target + p["removing"], "C14", "order", old, p)
            need(set(before) <= set(after), "C14", "replicas lost too early", old, p)
            return
        left = set(before) - set(after)
        if not left:
            return
        joined = set(after) - set(before)
        came, went = (set(old["adding"]) | joined) - left, left
        if went == set(old["adding"]) and set(after) == set(before) - went:
            return  # cancelled
        # What is wanted is what was under way, or what came and went at once.
        need(bool(p["isr"]) and came <= set(p["isr"]), "C14", "completed too early", old, p)
        if len(came) < len(went):
            need(set(after) <= set(p["isr"]), "C14", "too few in sync", old, p)


BROKERS = st.integers(1, 5)
TOPICS = st.sampled_from(["safe", "unclean", "small"])
SUBSET = st.lists(BROKERS, min_size=1, max_size=4, unique=True)
STALE = st.sampled_from([0, 0, 0, 0, 0, -1, 1])
STEPS = st.one_of(
    st.tuples(st.sampled_from(["fence", "unfence", "shut_down"]), BROKERS),
    st.tuples(st.sampled_from(["fence", "unfence"]), BROKERS),
    st.tuples(st.just("restart"), BROKERS, st.booleans()),
    st.tuples(st.just("propose"), TOPICS, st.sets(BROKERS), STALE, STALE, STALE, STALE),
    st.tuples(st.just("propose"), TOPICS, st.sets(BROKERS), *[st.just(0)] * 4),
    st.tuples(st.just("propose"), TOPICS, st.sets(BROKERS), *[st.just(0)] * 3, st.just(-1)),
    st.tuples(st.just("grow"), TOPICS),
    st.tuples(st.just("disaster"), TOPICS),
    st.tuples(st.just("create"), SUBSET, st.sampled_from(["new", "newer"])),
    st.tuples(st.just("reassign"), TOPICS, st.none() | SUBSET),
    st.tuples(st.just("elect"), TOPICS, st.integers(0, 1)),
    st.tuples(st.sampled_from(["balance", "rescue"])),
    st.tuples(st.just("elr"), st.booleans()),
    st.tuples(st.just("minimum"), TOPICS, st.integers(1, 4)),
    st.tuples(st.just("allow"), TOPICS, st.booleans()),
)


class Driver:
    """Makes things happen in a cluster, and has every batch judged."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.model = Model()
        self.judged = 0
        cluster.topic("safe", [1, 2, 3], min_insync_replicas="3")
        cluster.topic(
            "unclean",
            [2, 3, 4],
            min_insync_replicas="2",
            unclean_leader_election_enable="true",
        )
        cluster.topic("small", [4, 1])
        self.judge()

    def judge(self, proposed: set[int] | None = None) -> None:
        for batch in self.cluster.batches[self.judged :]:
            self.model.batch(batch, proposed or set())
        self.judged = len(self.cluster.batches)
        for key, p in self.model.parts.items():
            found = self.cluster.image.partitions[key]
            need((found.leader_epoch, found.partition_epoch) == p["epochs"], "C5", key, p)

    def step(self, name: str, *what: Any) -> None:
        getattr(self, name)(*what)
        self.judge()

    def _state(self, broker: int) -> str:
        found = self.cluster.image.brokers[broker]
        return "fenced" if found.fenced else "stopping" if found.in_controlled_shutdown else "up"

    def fence(self, broker: int) -> None:
        if self._state(broker) != "fenced":
            self.cluster.fence(broker)

    def unfence(self, broker: int) -> None:
        if self._state(broker) == "fenced":
            if self.cluster.image.brokers[broker].in_controlled_shutdown:
                self.cluster.restart(broker, clean=True)
            self.cluster.unfence(broker)

    def shut_down(self, broker: int) -> None:
        if self._state(broker) == "up":
            self.cluster.shut_down(broker)

    def restart(self, broker: int, clean: bool) -> None:
        self.cluster.restart(broker, clean)
        if not clean and self.model.elr:
            self.judge()
            for key, p in self.model.parts.items():
                need(broker not in p["isr"] + p["elr"], "C7", "unclean and eligible", key, p)

    def disaster(self, topic: str) -> None:
        """Let all who hold the topic lose power."""
        for broker in self.cluster.partition(topic).replicas:
            self.restart(broker, clean=False)
            self.judge()

    def propose(
        self, topic: str, isr: set[int], leader: int, partition: int, sender: int, member: int
    ) -> None:
        """Propose an ISR with epochs that are right (0), stale (-1) or ahead (1)."""
        found = self.cluster.partition(topic)
        if found.leader == -1:
            return
        wanted = sorted({found.leader, *isr & set(found.replicas)})
        epochs = {b: self.cluster.epoch(b) for b in wanted}
        epochs[wanted[-1]] += member
        fit = all(self.model.active[b] for b in wanted)
        body = self.cluster.proposal(
            wanted,
            topic,
            leader_epoch=found.leader_epoch + leader,
            partition_epoch=found.partition_epoch + partition,
            sender_epoch=self.cluster.epoch(found.leader) + sender,
            new_isr_with_epochs=[{"broker_id": b, "broker_epoch": e} for b, e in epochs.items()],
        )
        if sender:
            need(self.cluster.refused("AlterPartition", 3, body) == 77, "C8", "sender", body)
            return
        answer = self.cluster.call("AlterPartition", 3, body)
        part = answer["topics"][0]["partitions"][0]
        self.judge(set(wanted))
        ahead = leader > 0 or partition > 0
        need(not ahead or part["error_code"] == 41, "C8", "the leader knows more", part)
        accepted = part["error_code"] in (0, 108)
        need(accepted == (not (leader or partition or member) and fit), "C8", body, part)
        if part["error_code"] == 0:
            key = self.cluster.key(topic)
            told = (part["leader_epoch"], part["partition_epoch"])
            need(told == self.model.parts[key]["epochs"], "C5", "told otherwise", part)
            need(part["isr"] == self.model.parts[key]["isr"], "C8", "told otherwise", part)

    def grow(self, topic: str) -> None:
        """Propose all active replicas, as leaders do eventually."""
        self.propose(topic, {b for b, up in self.model.active.items() if up}, 0, 0, 0, 0)

    def create(self, replicas: list[int], name: str) -> None:
        part = {"partition_index": 0, "broker_ids": replicas}
        topic = {"name": name, "num_partitions": -1, "replication_factor": -1}
        body = {"topics": [topic | {"assignments": [part]}]}
        code = self.cluster.call("CreateTopics", 7, body)["topics"][0]["error_code"]
        up = any(self.model.active[b] for b in replicas)
        exists = name in self.model.topics.values()
        need(code == (36 if exists else 0 if up else 39), "create", code, replicas)

    def reassign(self, topic: str, target: list[int] | None) -> None:
        before = self.cluster.partition(topic)
        if self.cluster.reassign(target, topic) != 0:
            need(self.cluster.partition(topic) == before, "C14", "refused and changed")
        elif target is None:
            need(len(self.cluster.partition(topic).replicas) > 0, "C14")
        else:
            after = self.cluster.partition(topic)
            settled = [b for b in after.replicas if b not in after.removing]
            need(settled == target, "C14", "not what was asked for", after)

    def elect(self, topic: str, kind: int) -> None:
        before = self.cluster.partition(topic)
        code = self.cluster.elect(kind, topic)
        if kind == 1 and code == 0:
            # Asked for by hand, it needs no configuration.
            allowed = self.model.unclean.get(topic, False)
            self.model.unclean[topic] = True
            self.judge()
            self.model.unclean[topic] = allowed
        after = self.cluster.partition(topic)
        need(code != 0 or kind == 1 or after.leader == after.replicas[0], "elections", after)
        need(code == 0 or after == before, "elections", "refused and changed", before, after)

    def balance(self) -> None:
        self.cluster.write(elect_preferred(self.cluster.context()))

    def rescue(self) -> None:
        self.cluster.write(elect_unclean(self.cluster.context()))

    def elr(self, on: bool) -> None:
        if self.model.level >= 23:
            update = {
                "feature": "eligible.leader.replicas.version",
                "max_version_level": int(on),
                "upgrade_type": 1 if on else 2,
            }
            body = {"timeout_ms": 1000, "feature_updates": [update], "validate_only": False}
            self.cluster.call("UpdateFeatures", 2, body)

    def minimum(self, topic: str, value: int) -> None:
        """Alter min.insync.replicas; replicas eligible by the old number no longer are."""
        config = {"name": "min.insync.replicas", "config_operation": 0, "value": str(value)}
        resource = {"resource_type": 2, "resource_name": topic, "configs": [config]}
        self.cluster.call("IncrementalAlterConfigs", 1, {"resources": [resource]})

    def allow(self, topic: str, on: bool) -> None:
        value = "true" if on else "false"
        self.cluster.config("unclean.leader.election.enable", value, topic)


ELR_OFF_AND_ON = [
    ("grow", "safe"),
    ("fence", 1),
    ("elr", False),
    ("minimum", "safe", 1),
    ("elr", True),
]
"""The minimum falls while eligible replicas are off; the old ones must not come back with it."""


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@example(level=25, elr=True, steps=ELR_OFF_AND_ON)
@given(
    level=st.sampled_from([25, 25, 25, 7, 11, 12, 17, 23]),
    elr=st.sampled_from([True, True, False]),
    steps=st.lists(STEPS, min_size=8, max_size=50),
)
# What chance finds only now and then: each is the shortest way to one planted bug.
@example(25, True, [("disaster", "safe"), ("unfence", 1)])
@example(25, True, [("fence", 1), ("restart", 1, False)])
@example(25, False, [("fence", 2), ("propose", "safe", {1, 2, 3}, 0, 0, 0, 0)])
@example(25, False, [("propose", "safe", {1, 2}, 0, 0, 0, -1)])
@example(25, False, [("propose", "safe", {1, 2}, 1, 0, 0, 0)])
@example(25, False, [("fence", 2), ("create", [1, 2], "new")])
@example(
    25,
    True,
    [
        ("fence", 3),
        ("fence", 2),
        ("reassign", "safe", [1, 2, 4]),
        ("propose", "safe", {1, 4}, 0, 0, 0, 0),
    ],
)
def test_histories(make_cluster: Any, level: int, elr: bool, steps: list[tuple[Any, ...]]) -> None:
    driver = Driver(make_cluster(level, elr and level >= 23, brokers=5))
    for step in steps:
        driver.step(*step)


def test_the_model_sees_two_brokers_fenced_on_the_same_base(make_cluster: Any) -> None:
    """KAFKA-13173: the second change would elect who the first one takes out."""
    cluster = make_cluster(25, brokers=5)
    driver = Driver(cluster)
    batches = [
        [*changes_for_fenced(cluster.context(), broker), cluster.change(broker, fenced=1)]
        for broker in (1, 2)
    ]
    for batch in batches:
        cluster.write(batch)
    with pytest.raises(BrokenInvariantError):
        driver.judge()
