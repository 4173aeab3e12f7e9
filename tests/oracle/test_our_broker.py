"""Our brokers under Apache Kafka's controllers: they register, forward, answer, and stop."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraftwreck.oracle.broker import OurBroker
from kraftwreck.oracle.java import Ran
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import CLUSTER_ID, KAFKA, Quorum, wait_until

pytestmark = pytest.mark.oracle
Tool = Callable[..., Ran]
TOOLS = "org.apache.kafka.tools"
IDS = [100, 101]
SESSION = {"broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 500}


@pytest.fixture(scope="module")
def brokers(
    make_quorum: Callable[..., Quorum], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[OurBroker]]:
    quorum = make_quorum(KAFKA, properties=SESSION)
    folder: Path = tmp_path_factory.mktemp("brokers")
    found = [
        OurBroker(folder / f"b{node}", node, port, CLUSTER_ID, quorum.ports, SESSION)
        for node, port in zip(IDS, free_ports(2), strict=True)
    ]
    try:
        quorum.start()
        for broker in found:
            broker.format()
            broker.start()
        wait_until("both are unfenced", lambda: all(broker.knows() == set(IDS) for broker in found))
        yield found
    finally:
        for broker in found:
            broker.kill()
        quorum.close()


def test_brokers_forward_requests_and_serve_the_result(
    brokers: list[OurBroker], tool: Tool
) -> None:
    def ask(main_class: str, *arguments: str) -> str:
        addresses = ",".join(broker.address for broker in brokers)
        return tool(main_class, "--bootstrap-server", addresses, *arguments).stdout

    topics = f"{TOOLS}.TopicCommand"
    size = ("--partitions", "3", "--replication-factor", "2", "--config", "retention.ms=4321")
    assert "Created topic told." in ask(topics, "--create", "--topic", "told", *size)

    def described() -> str:
        return ask(topics, "--describe", "--topic", "told")

    # Another broker than the one that forwarded may be asked.
    wait_until("the topic is told of", lambda: described().count("Leader: 10") == 3)
    assert "retention.ms=4321" in described()
    entity = ("kafka.admin.ConfigCommand", "--entity-type", "topics", "--entity-name", "told")
    ask(*entity, "--alter", "--add-config", "retention.ms=1234")
    wait_until("the config", lambda: "retention.ms=1234" in ask(*entity, "--describe"))
    status = ask(f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"^LeaderId: +1$", status, re.MULTILINE)
    observers = re.search(r"^CurrentObservers: +(.*)$", status, re.MULTILINE)
    assert observers
    assert sorted(map(int, re.findall(r'"id": (\d+)', observers[1]))) == IDS


def test_one_hands_its_partitions_over_and_comes_back(brokers: list[OurBroker]) -> None:
    stays, goes = brokers
    assert goes.stop() == 0
    assert stays.knows() == {stays.node_id}
    goes.start()
    wait_until("both are unfenced", lambda: stays.knows() == goes.knows() == set(IDS))
