"""Real clients of Kafka talk to a broker as they would to Kafka's."""

from __future__ import annotations

import shutil
from typing import Any, cast

import confluent_kafka
import confluent_kafka.admin
import pytest

from tests.server.kcat import listing_with

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka|importlib")
admin = cast(Any, confluent_kafka.admin)  # its stubs do not export what they document


def bootstrap(cluster: Any) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in cluster.broker_ports.values())


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
@pytest.mark.parametrize("broker", [4, 6])
def test_kcat_lists_brokers_and_topics(shared_brokers: Any, wait_until: Any, broker: int) -> None:
    shared_brokers.create("by-kcat")
    listing, _ = wait_until(
        lambda: listing_with("by-kcat", shared_brokers.broker_ports[broker]),
        "the broker knows the topic",
    )
    assert {b["name"] for b in listing["brokers"]} == {
        f"127.0.0.1:{port}" for port in shared_brokers.broker_ports.values()
    }
    assert listing["controllerid"] in (4, 5, 6)


def test_kafka_python_administers_topics(shared_brokers: Any, wait_until: Any) -> None:
    from kafka.admin import (
        ConfigResource,
        ConfigResourceType,
        KafkaAdminClient,
        NewPartitions,
        NewTopic,
    )

    client = KafkaAdminClient(bootstrap_servers=bootstrap(shared_brokers).split(","))
    name = "by-kafka-python"
    resource = ConfigResource(ConfigResourceType.TOPIC, name)

    def config(key: str) -> Any:
        told = client.describe_configs([resource])["topic"][name]
        return told.get(key, {}).get("value")

    try:
        client.create_topics([NewTopic(name, num_partitions=2, replication_factor=3)])
        wait_until(lambda: name in client.list_topics(), "the brokers know the topic")
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"flush.ms": "9"})])
        wait_until(lambda: config("flush.ms") == "9", "the brokers know the value")
        client.create_partitions({name: NewPartitions(5)})
        wait_until(
            lambda: len(client.describe_topics([name])[0]["partitions"]) == 5,
            "the brokers know the partitions",
        )
        cluster = client.describe_cluster()
        assert cluster["cluster_id"] == "loopback-cluster"
        assert {broker["broker_id"] for broker in cluster["brokers"]} == {4, 5, 6}
        [partition] = client.describe_metadata_quorum()["topics"][0]["partitions"]
        assert partition["leader_id"] == shared_brokers.controller()
        client.delete_topics([name])
        wait_until(lambda: name not in client.list_topics(), "the brokers know it is gone")
    finally:
        client.close()


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(timeout=300) for future in futures.values()]


def test_confluent_administers_topics(shared_brokers: Any, wait_until: Any) -> None:
    servers = bootstrap(shared_brokers)
    # Silent: it goes on in the background until it is collected, long after the cluster is gone.
    values = {"bootstrap.servers": servers, "socket.timeout.ms": 10_000, "log_level": 0}
    client = admin.AdminClient(values)
    name = "by-confluent"
    done(client.create_topics([admin.NewTopic(name, 2, 3)]))
    wait_until(lambda: name in client.list_topics(timeout=300).topics, "the brokers know it")
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        done(client.create_topics([admin.NewTopic(name, 1, 1)]))
    assert refused.value.args[0].name() == "TOPIC_ALREADY_EXISTS"

    def resource(**options: Any) -> Any:
        return admin.ConfigResource(admin.ResourceType.TOPIC, name, **options)

    entry = admin.ConfigEntry(
        "retention.ms", "5000", incremental_operation=admin.AlterConfigOpType.SET
    )
    done(client.incremental_alter_configs([resource(incremental_configs=[entry])]))
    wait_until(
        lambda: done(client.describe_configs([resource()]))[0]["retention.ms"].value == "5000",
        "the brokers know the value",
    )
    done(client.create_partitions([admin.NewPartitions(name, 4)]))
    wait_until(
        lambda: len(client.list_topics(timeout=300).topics[name].partitions) == 4,
        "the brokers know the partitions",
    )
    cluster = client.describe_cluster(request_timeout=300).result(timeout=300)
    assert {node.id for node in cluster.nodes} == {4, 5, 6}
    assert cluster.cluster_id == "loopback-cluster"
    done(client.delete_topics([name]))
    wait_until(lambda: name not in client.list_topics(timeout=300).topics, "it is gone")
