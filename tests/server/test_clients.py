"""Real clients of Kafka talk to a node as they would to Kafka."""

from __future__ import annotations

import shutil
from typing import Any, cast

import confluent_kafka
import confluent_kafka.admin
import pytest

from tests.server.kcat import listing_with

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka|importlib")
admin = cast(Any, confluent_kafka.admin)  # its stubs do not export what they document
KAFKA_PYTHON = "by-kafka-python"
CONFLUENT = "by-confluent"


def bootstrap(cluster: Any) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
@pytest.mark.parametrize("node", [1, 2, 3])
def test_kcat_lists_brokers_and_topics(shared: Any, wait_until: Any, node: int) -> None:
    shared.create("by-hand")
    # A follower applies the topic a little later than the leader.
    listing, topics = wait_until(
        lambda: listing_with("by-hand", shared.ports[node]), "the topic is listed"
    )
    assert {b["name"] for b in listing["brokers"]} == {
        f"127.0.0.1:{port}" for port in shared.ports.values()
    }
    assert listing["controllerid"] == shared.controller()
    assert len(topics["by-hand"]) == 1


@pytest.fixture
def kafka_python(shared: Any, wait_until: Any) -> Any:
    """An admin client that happens to be connected to the leader.

    It sends much to whichever node it is connected to, and keeps to that one; behind a
    broker that would be forwarded to the controller, here only the leader answers.
    """
    from kafka.admin import KafkaAdminClient

    def connected() -> Any:
        client = KafkaAdminClient(bootstrap_servers=bootstrap(shared).split(","))
        [partition] = client.describe_metadata_quorum()["topics"][0]["partitions"]
        if partition["error"] is None:
            return client
        client.close()
        return None

    client = wait_until(connected, "the client chose the leader")
    yield client
    client.close()


def test_kafka_python_administers_topics(kafka_python: Any) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

    client = kafka_python
    name = KAFKA_PYTHON
    client.create_topics(
        [NewTopic(name, num_partitions=2, replication_factor=3, topic_configs={"flush.ms": "9"})]
    )
    assert name in client.list_topics()
    [topic] = client.describe_topics([name])
    assert len(topic["partitions"]) == 2

    def config(key: str) -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        return client.describe_configs([resource])["topic"][name][key]["value"]

    assert config("flush.ms") == "9"
    client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"flush.ms": "10"})])
    assert config("flush.ms") == "10"
    client.delete_topics([name])
    assert name not in client.list_topics()


def test_kafka_python_describes_cluster_and_quorum(shared: Any, kafka_python: Any) -> None:
    cluster = kafka_python.describe_cluster()
    assert cluster["cluster_id"] == "loopback-cluster"
    assert cluster["controller_id"] == shared.controller()
    [partition] = kafka_python.describe_metadata_quorum()["topics"][0]["partitions"]
    assert partition["leader_id"] == shared.controller()
    assert [v["replica_id"] for v in partition["current_voters"]] == [1, 2, 3]
    assert len({v["replica_directory_id"] for v in partition["current_voters"]}) == 3


@pytest.fixture
def confluent(shared: Any) -> Any:
    # Silent: it goes on in the background until it is collected, long after the cluster is gone.
    values = {"bootstrap.servers": bootstrap(shared), "socket.timeout.ms": 10_000, "log_level": 0}
    return admin.AdminClient(values)


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(timeout=300) for future in futures.values()]


def test_confluent_administers_topics(shared: Any, confluent: Any, wait_until: Any) -> None:
    name = CONFLUENT
    done(confluent.create_topics([admin.NewTopic(name, 2, 3)]))

    def listed() -> Any:
        # Each node answers from its own metadata, which may lag behind the answer to the change.
        return confluent.list_topics(timeout=300).topics.get(name)

    assert len(wait_until(listed, "the new topic is listed").partitions) == 2
    assert confluent.list_topics(timeout=300).controller_id == shared.controller()

    def resource(**options: Any) -> Any:
        return admin.ConfigResource(admin.ResourceType.TOPIC, name, **options)

    def answered() -> Any:
        try:
            return done(confluent.describe_configs([resource()]))[0]
        except confluent_kafka.KafkaException as error:
            assert error.args[0].code() == confluent_kafka.KafkaError.NOT_CONTROLLER
            return None

    def described() -> Any:
        return wait_until(answered, "the active controller was asked")

    key = "follower.replication.throttled.replicas"
    for operation, value in (("SET", "0:1"), ("APPEND", "0:2"), ("APPEND", "0:3")):
        kind = admin.AlterConfigOpType[operation]
        entry = admin.ConfigEntry(key, value, incremental_operation=kind)
        change = resource(incremental_configs=[entry])
        done(confluent.incremental_alter_configs([change]))
    assert described()[key].value == "0:1,0:2,0:3"
    assert described()["retention.ms"].is_default

    done(confluent.delete_topics([name]))
    wait_until(lambda: listed() is None, "the deleted topic is listed no longer")


def test_confluent_hears_why_it_is_refused(shared: Any, confluent: Any) -> None:
    shared.create("by-hand")
    for topic, reason in (
        (admin.NewTopic("by-hand", 1, 1), "TOPIC_ALREADY_EXISTS"),
        (admin.NewTopic("not a name", 1, 1), "TOPIC_EXCEPTION"),
        (admin.NewTopic("x", 1, 9), "INVALID_REPLICATION_FACTOR"),
        (admin.NewTopic("x", 1, 1, config={"no.such": "1"}), "INVALID_CONFIG"),
    ):
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            done(confluent.create_topics([topic]))
        assert reason in refused.value.args[0].name()


def test_confluent_describes_the_cluster(shared: Any, confluent: Any) -> None:
    cluster = confluent.describe_cluster(request_timeout=300).result(timeout=300)
    assert cluster.cluster_id == "loopback-cluster"
    assert cluster.controller.id == shared.controller()
    assert len(cluster.nodes) == 3
