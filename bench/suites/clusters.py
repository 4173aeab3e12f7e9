"""The clusters that the suites meet: one controller, and brokers of either kind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kraftwreck.oracle.broker import CLIENT_LISTENER, Broker, KafkaBroker, OurBroker
from kraftwreck.oracle.controller import HOST
from kraftwreck.oracle.ports import free_ports
from kraftwreck.oracle.quorum import CLUSTER_ID, KAFKA, Quorum, wait_until

PATIENCE_S = 400.0
LOGGED = """status=error
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c: %m%n
appender.requests.type=File
appender.requests.name=requests
appender.requests.fileName={requests}
appender.requests.layout.type=PatternLayout
appender.requests.layout.pattern=%d{{UNIX_MILLIS}} %m%n
logger.requests.name=kafka.request.logger
logger.requests.level=debug
logger.requests.additivity=false
logger.requests.appenderRef.requests.ref=requests
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
"""


class LoggedBroker(KafkaBroker):
    """A broker of Apache Kafka that writes each request to ``requests``."""

    @property
    def requests(self) -> Path:
        """The file with the requests."""
        return self.directory / "requests"

    def own_properties(self) -> Mapping[str, object]:
        """Return what a few brokers on one machine need."""
        return {
            **super().own_properties(),
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
        }

    def command(self) -> list[str]:
        """Return the command line, with a log of our own."""
        logging = self.directory / "log4j2.properties"
        logging.write_text(LOGGED.format(requests=self.requests))
        option = "-Dlog4j2.configurationFile="
        return [
            f"{option}{logging}" if word.startswith(option) else word for word in super().command()
        ]


@dataclass
class Cluster:
    """A running cluster, and how clients reach it."""

    kind: str
    brokers: list[Broker]

    @property
    def servers(self) -> str:
        """Return the addresses for clients."""
        return ",".join(broker.address for broker in self.brokers)

    def requests(self) -> list[str]:
        """Return the lines of the request logs; none of ours."""
        return [
            line
            for broker in self.brokers
            if isinstance(broker, LoggedBroker) and broker.requests.exists()
            for line in broker.requests.read_text(errors="replace").splitlines()
        ]


@contextlib.contextmanager
def running(
    kind: str, folder: Path, ids: range, properties: Mapping[str, object]
) -> Iterator[Cluster]:
    """Start a cluster whose brokers all serve; end it afterwards."""
    build = LoggedBroker if kind == KAFKA else OurBroker
    quorum = Quorum(folder / "quorum", [kind], free_ports(1))
    [controller] = quorum.ports
    if controller in ids:
        raise ValueError(f"{controller} is the controller")
    quorum.format()
    brokers: list[Broker] = [
        build(
            folder / f"broker-{node}",
            node,
            port,
            CLUSTER_ID,
            quorum.ports,
            {"advertised.listeners": f"{CLIENT_LISTENER}://{HOST}:{port}", **properties},
        )
        for node, port in zip(ids, free_ports(len(ids)), strict=True)
    ]
    try:
        quorum.start()
        for broker in brokers:
            broker.format()
            broker.start()
        every = set(ids)
        wait_until("all serve", lambda: all(b.knows() == every for b in brokers), PATIENCE_S)
        yield Cluster(kind, brokers)
    finally:
        for broker in brokers:
            broker.kill()
        quorum.close()
