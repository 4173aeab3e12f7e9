"""Apache Kafka 4 of the oracle's locked jars: controllers and brokers under metadata or records.

Both roles are processes of their own (``roles=apart``) or one process (``combined``). Operations on
metadata go to the active controller, reads to the broker of their node (:mod:`kafka_metadata`).
Records go through librdkafka (:mod:`kafka_records`) or, with ``client=java``, through Kafka's own
client (:mod:`kafka_java`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import kafka_java
from kafka_metadata import MetadataClient, active, create_topic, unserved
from kafka_places import BROKERS, CONTROLLERS, Cluster
from kafka_records import PARTITIONS, TOPIC, WORKLOAD, RecordClient

from kraftwreck.api import (
    Artefact,
    Completion,
    Files,
    Host,
    Op,
    OptionError,
    Place,
    PlainSystem,
    PortOpen,
    Process,
    Running,
    RunOptions,
)
from kraftwreck.harness.deploy.plain import PlainDeployed
from kraftwreck.oracle import release
from kraftwreck.oracle.java import LOGGING, find_java

JAVA = "/usr/bin/java"
CLUSTER_ID = "a3JhZnR3cmVja19rYWZrYQ"
HEAP = "-Xmx320m"
FLAGS = (
    *(HEAP, "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-XX:-UseContainerSupport",  # It fails where control groups are not mounted.
)
SETTINGS: Mapping[str, object] = {
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "controller.quorum.fetch.timeout.ms": 1000,
    "broker.heartbeat.interval.ms": 300,
    "broker.session.timeout.ms": 1500,
    "replica.lag.time.max.ms": 2000,
    "leader.imbalance.check.interval.seconds": 3,
    "leader.imbalance.per.broker.percentage": 0,
    "replica.fetch.wait.max.ms": 200,
    "offsets.topic.num.partitions": 1,
    "num.io.threads": 2,
    "num.network.threads": 1,
    "log.cleaner.dedupe.buffer.size": 2 << 20,
    "auto.create.topics.enable": "false",
}
"""Faults last seconds, so brokers and replicas that are silent are given up in 2 s, not in 9 s and
30 s, and partitions return to their preferred leaders within 3 s, not 300 s."""
FORMAT = """\
set -e
if [ ! -e "$1/meta.properties" ]; then
  "$0" $4 kafka.tools.StorageTool format -t "$3" -c "$2" --ignore-formatted
fi
exec "$0" $4 kafka.Kafka "$2"
"""
"""Formats the storage unless it is: meta.properties is the last file that the tool writes."""


class KafkaClient:
    """A client of one node: metadata by Kafka's protocol, records by librdkafka."""

    def __init__(self, place: Place, cluster: Cluster, synced: bool, acks: str) -> None:
        self.metadata = MetadataClient(place, cluster, synced)
        self.records = RecordClient(place, acks)

    def invoke(self, op: Op) -> Completion:
        if op.f in ("send", "poll"):
            return self.records.invoke(op)
        return self.metadata.invoke(op)

    def close(self) -> None:
        self.metadata.close()
        self.records.close()


class ApacheKafka(PlainSystem):
    """Every host has a broker and a controller."""

    name = "apache-kafka"
    about = f"Apache Kafka {release.kafka_version()}: controllers and brokers of its jars"
    default_workload = WORKLOAD.name
    workloads = (WORKLOAD.name,)
    own_workloads = {WORKLOAD.name: WORKLOAD}  # noqa: RUF012 - a declaration
    verbs: Sequence[str] = ("read", "write", "add")
    preloads = True
    client_timeout_s = 30.0
    options = {  # noqa: RUF012 - as the base class has it
        "roles": ("combined", "apart"),
        "sync": ("true", "false"),
        "acks": ("all", "1"),
        "unclean": ("false", "true"),
        "client": ("librdkafka", "java"),
    }

    def __init__(self) -> None:
        self._cluster = Cluster((), False)

    def artefacts(self) -> Sequence[Artefact]:
        """Return the jars of the oracle. Raises OptionError without them, or without Java."""
        try:
            find_java()
            release.class_path()
        except release.OracleError as error:
            raise OptionError(str(error)) from None
        folder = release.jar_folder()
        pinned = {f"{folder.name}/{jar.file_name}": jar.sha256 for jar in release.artefacts()}
        return [Files(name="apache-kafka", paths=(folder,), sha256=pinned)]

    def deploy(self, hosts: Sequence[Host], options: RunOptions, nodes: Path) -> PlainDeployed:
        """Install everything. Raises OptionError where librdkafka is missing or cannot connect."""
        if options.workload == WORKLOAD.name and any(host.gateway for host in hosts):
            raise OptionError(
                "librdkafka cannot reach the hosts of a plain user: run as root, or use -c vagrant"
                " or hosts:FILE"
            )
        return super().deploy(hosts, options, nodes)

    def fetch(self, say: Callable[[str], None]) -> None:
        """Verify the jars, and that the client of records is there."""
        java = self.option("client") == "java"
        if not java and find_spec("confluent_kafka") is None:
            raise OptionError("confluent-kafka is missing: uv pip install confluent-kafka")
        super().fetch(say)
        if java:
            self.helper = kafka_java.command(self.option("acks"), say)

    def configured(self, given: Sequence[str]) -> ApacheKafka:
        """Return the system with these options; the Java client is for records only."""
        system = super().configured(given)
        assert isinstance(system, ApacheKafka)
        if system.option("client") == "java":
            system.verbs = ()
        return system

    def processes(self, place: Place, places: Sequence[Place]) -> Sequence[Process]:
        apart = self.option("roles") == "apart"
        self._cluster = cluster = Cluster(tuple(places), apart)
        voters = ",".join(
            f"{cluster.controller_id(each)}@{each.ip}:{CONTROLLERS}" for each in places
        )
        quorum = {"controller.quorum.voters": voters}
        broker = {
            "listeners": f"PLAINTEXT://{place.ip}:{BROKERS}",
            "node.id": cluster.broker_id(place),
            "process.roles": "broker",
        }
        controller = {
            "listeners": f"CONTROLLER://{place.ip}:{CONTROLLERS}",
            "node.id": cluster.controller_id(place),
            "process.roles": "controller",
        }
        if apart:
            return [
                _process(place, "", {**quorum, **broker}, {"clients": BROKERS}),
                _process(place, "controller", {**quorum, **controller}, {"quorum": CONTROLLERS}),
            ]
        both = {
            **broker,
            "process.roles": "broker,controller",
            "listeners": f"{broker['listeners']},{controller['listeners']}",
        }
        ports = {"clients": BROKERS, "quorum": CONTROLLERS}
        return [_process(place, "", {**quorum, **both}, ports)]

    def client(self, place: Place) -> KafkaClient:
        synced = self.option("sync") == "true"
        return KafkaClient(place, self._cluster, synced, self.option("acks"))

    def unready(self, places: Sequence[Place]) -> str:
        """Return what is missing of an active controller, all brokers and the topic of records."""
        topic = {
            "min.insync.replicas": "2" if self.option("acks") == "all" else "1",
            "unclean.leader.election.enable": self.option("unclean"),
        }
        replicas = min(3, len(places))
        return (
            unserved(self._cluster)
            or create_topic(self._cluster, TOPIC, PARTITIONS, replicas, topic)
            or unserved(self._cluster, TOPIC)
        )

    def leader(self, places: Sequence[Place]) -> str | None:
        found = active(self._cluster, 300)
        return None if found is None else found.name


def _process(
    place: Place, name: str, settings: Mapping[str, object], ports: Mapping[str, int]
) -> Process:
    """Return a process with these settings. A broker listens only once a controller knows it, so
    it is ready when it runs; :meth:`ApacheKafka.unready` waits for all."""
    folder, configuration = place.data(name), place.configuration(name)
    properties = f"{configuration}/server.properties"
    logging = f"{configuration}/{LOGGING.name}"
    texts = {**SETTINGS, **settings, "log.dirs": folder}
    jars = f"{place.artefact('apache-kafka')}/{release.kafka_version()}/*"
    flags = (*FLAGS, f"-Dlog4j2.configurationFile={logging}", "-Doracle.log.level=INFO")
    words = " ".join((*flags, "-cp", jars))
    return Process(
        argv=("/bin/sh", "-fc", FORMAT, JAVA, folder, properties, CLUSTER_ID, words),
        name=name,
        files={
            properties: "".join(f"{key}={value}\n" for key, value in texts.items()),
            logging: LOGGING.read_text(),
        },
        folders=(folder,),
        ports=ports,
        ready=PortOpen(CONTROLLERS) if CONTROLLERS in ports.values() else Running(),
        ready_s=90.0,
        stop_s=8.0,
    )


SYSTEM = ApacheKafka()
