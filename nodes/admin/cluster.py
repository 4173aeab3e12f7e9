"""The state of a cluster as commands need it: brokers, partitions, moves in progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kraftwreck.nodes.admin.client import Body, Client, refused, wait
from kraftwreck.nodes.admin.failure import NOT_DONE, AdminError
from kraftwreck.nodes.admin.planner import Replicas
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.protocol.errors import MISMATCHED_ENDPOINT_TYPE, NONE

Key = tuple[str, int]
"""Topic and partition."""

ONE_BROKER_S: Final = 2.0
"""How long to try to reach one certain broker before the state is read again."""
_VOTERS: Final = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{}]}]}
_CONTROLLER_LISTENER: Final = "this is a controller's listener; pass the listener of a broker"


@dataclass(slots=True, frozen=True)
class Broker:
    """A registered broker."""

    broker_id: int
    endpoint: Endpoint
    rack: str | None
    fenced: bool


@dataclass(slots=True, frozen=True)
class Partition:
    """A partition as brokers report it; ``target`` are the replicas once its move is complete."""

    replicas: tuple[int, ...]
    target: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int

    @property
    def moving(self) -> bool:
        """Whether a reassignment is in progress."""
        return self.replicas != self.target


@dataclass(slots=True, frozen=True)
class State:
    """A cluster at one moment."""

    cluster_id: str
    brokers: Mapping[int, Broker]
    partitions: Mapping[Key, Partition]

    def on(self, broker_id: int) -> list[Key]:
        """Return the partitions that have, or are to have, a replica on a broker."""
        return [key for key, p in self.partitions.items() if broker_id in p.replicas]

    def placed(self, sizes: Mapping[Key, int]) -> list[Replicas]:
        """Return all partitions for the planner; moves in progress count as complete."""
        return [
            Replicas(topic, number, partition.target, sizes.get((topic, number), 0))
            for (topic, number), partition in sorted(self.partitions.items())
        ]


class Cluster:
    """Reads the state of a cluster through ``client``."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._transient: dict[Key, tuple[int, ...]] = {}
        """The replicas that a partition has only while it moves, for moves seen in progress."""

    def brokers(self) -> tuple[str, dict[int, Broker]]:
        """Return the cluster's id and its registered brokers, fenced ones too."""
        body = {"include_fenced_brokers": True}
        answer = self.client.call("DescribeCluster", body)
        if answer["error_code"] == MISMATCHED_ENDPOINT_TYPE:
            raise AdminError(f"{self.client.servers[0]}: {_CONTROLLER_LISTENER}")
        if answer["error_code"] != NONE:
            raise refused("DescribeCluster", answer["error_code"], answer["error_message"])
        found = {
            each["broker_id"]: Broker(
                each["broker_id"],
                Endpoint(each["host"], each["port"]),
                each["rack"],
                each["is_fenced"],
            )
            for each in answer["brokers"]
        }
        for broker in found.values():
            # Those that the user named may be the ones that go.
            if not broker.fenced and broker.endpoint not in self.client.servers:
                self.client.servers.append(broker.endpoint)
        return answer["cluster_id"], found

    def voters(self) -> set[int]:
        """Return the ids of the quorum's voters."""
        answer = self.client.call("DescribeQuorum", _VOTERS)
        if answer["error_code"] != NONE:
            raise refused("DescribeQuorum", answer["error_code"], answer.get("error_message"))
        [partition] = answer["topics"][0]["partitions"]
        return {voter["replica_id"] for voter in partition["current_voters"]}

    def moving(self) -> dict[Key, Body]:
        """Return the reassignments in progress."""
        answer = self.client.call("ListPartitionReassignments", {"topics": None})
        if answer["error_code"] != NONE:
            what = "ListPartitionReassignments"
            raise refused(what, answer["error_code"], answer["error_message"])
        moving = {
            (topic["name"], part["partition_index"]): part
            for topic in answer["topics"]
            for part in topic["partitions"]
        }
        for key, part in moving.items():
            if part["adding_replicas"] and part["removing_replicas"]:
                self._transient[key] = tuple(part["replicas"])
        return moving

    def state(self) -> State:
        """Return the state once all brokers that are alive agree on the replicas.

        A broker's metadata may lag, and a plan must not be made from an old state. The controller
        knows that a move is complete before any broker does: brokers that all still report the
        replicas of the move lag behind, too.
        """
        reason = ""
        found: list[State] = []

        def read(_limit: float) -> bool:
            nonlocal reason
            cluster_id, brokers = self.brokers()
            moving = self.moving()
            try:
                views = {
                    broker.broker_id: self._partitions(broker)
                    for broker in brokers.values()
                    if not broker.fenced
                }
            except AdminError as error:
                # A broker that has died is reported as alive until its session ends.
                reason = str(error)
                return False
            if not views:
                reason = "all brokers are fenced"
                return False
            first, view = next(iter(views.items()))
            reason = f"the metadata of broker {first} lags behind"
            for other, seen in views.items():
                if _replicas(seen) != _replicas(view):
                    reason = f"brokers {first} and {other} report different replicas"
                    return False
            if any(
                key not in view or list(view[key].replicas) != part["replicas"]
                for key, part in moving.items()
            ):
                return False
            ended = self._transient.keys() - moving.keys()
            if any(key in view and view[key].replicas == self._transient[key] for key in ended):
                return False
            for key in ended:
                del self._transient[key]
            for key, part in moving.items():
                leaving = part["removing_replicas"]
                target = tuple(r for r in part["replicas"] if r not in leaving)
                view[key] = replace(view[key], target=target)
            found.append(State(cluster_id, brokers, view))
            return True

        if not wait(read, self.client.patience_s):
            raise AdminError(
                f"{self.client.servers[0]}: {reason} after {self.client.patience_s:g} s; check "
                "that the brokers run, and repeat the command",
                NOT_DONE,
            )
        return found[0]

    def _partitions(self, broker: Broker) -> dict[Key, Partition]:
        answer = self.client.call("Metadata", {"topics": None}, broker.endpoint, ONE_BROKER_S)
        return {
            (topic["name"], part["partition_index"]): Partition(
                tuple(part["replica_nodes"]),
                tuple(part["replica_nodes"]),
                tuple(part["isr_nodes"]),
                part["leader_id"],
            )
            for topic in answer["topics"]
            for part in topic["partitions"]
        }

    def sizes(self, brokers: Collection[Broker]) -> dict[Key, int]:
        """Return the bytes of each partition's largest replica; empty unless all brokers know."""
        sizes: dict[Key, int] = {}
        for broker in brokers:
            if broker.fenced:
                continue
            answer = self.client.call_if_served(
                "DescribeLogDirs", {"topics": None}, broker.endpoint
            )
            if answer is None or answer["error_code"] != NONE:
                return {}
            for directory in answer["results"]:
                for topic in directory["topics"]:
                    for part in topic["partitions"]:
                        key = topic["name"], part["partition_index"]
                        sizes[key] = max(sizes.get(key, 0), part["partition_size"])
        return sizes

    def wait_until(
        self, ready: Callable[[], bool], patience_s: float, what: Callable[[], str]
    ) -> None:
        """Wait until ``ready()``; raise AdminError with ``what()`` if that takes too long."""
        if not wait(lambda _limit: ready(), patience_s):
            raise AdminError(what(), NOT_DONE)


def _replicas(view: Mapping[Key, Partition]) -> dict[Key, tuple[int, ...]]:
    return {key: partition.replicas for key, partition in view.items()}
