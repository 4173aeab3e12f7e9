"""A broker as the controllers see it: it registers and sends heartbeats, and has no data.

Apache Kafka's controllers place replicas on registered, unfenced brokers only; without one no topic
can be created.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from kraftwreck.nodes.log.uuids import random_uuid
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.oracle.controller import HOST
from kraftwreck.systems.kraft.client import KafkaClient

HEARTBEAT_S: Final = 0.5
TIMEOUT_MS: Final = 3000
FEATURES: Final = (
    "metadata.version",
    "kraft.version",
    "group.version",
    "share.version",
    "streams.version",
    "transaction.version",
    "eligible.leader.replicas.version",
)


class SilentBroker:
    """Keeps one broker registered with whichever controller is active, from a thread.

    ``unfenced`` is set once a controller has reported the broker as unfenced.
    """

    def __init__(
        self, broker_id: int, port: int, cluster_id: str, controllers: Sequence[int]
    ) -> None:
        self.broker_id = broker_id
        self.unfenced = threading.Event()
        self._port = port
        self._cluster_id = cluster_id
        self._controllers = list(controllers)
        self._incarnation = random_uuid()
        self._directory = random_uuid()
        self._epoch: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def epoch(self) -> int:
        """The broker epoch of its registration, -1 as long as it is not registered."""
        return -1 if self._epoch is None else self._epoch

    def _run(self) -> None:
        while not self._stop.is_set():
            for port in self._controllers:
                client = KafkaClient(HOST, port, f"broker-{self.broker_id}")
                try:
                    while self._turn(client) and not self._stop.wait(HEARTBEAT_S):
                        pass
                finally:
                    client.close()
            self._stop.wait(HEARTBEAT_S)

    def _turn(self, client: KafkaClient) -> bool:
        """Register or send a heartbeat; False if this controller did not accept it."""
        api, version, body = (
            ("BrokerRegistration", 4, self._registration())
            if self._epoch is None
            else ("BrokerHeartbeat", 1, self._heartbeat(self._epoch))
        )
        answered = client.call(api, version, body, TIMEOUT_MS)
        answer = answered.response
        if answered.status != "ok" or answer["error_code"] != NONE:
            return False
        if self._epoch is None:
            self._epoch = answer["broker_epoch"]
        elif not answer["is_fenced"]:
            self.unfenced.set()
        return True

    def _registration(self) -> dict[str, Any]:
        return {
            "broker_id": self.broker_id,
            "cluster_id": self._cluster_id,
            "incarnation_id": self._incarnation,
            "listeners": [
                {"name": "PLAINTEXT", "host": HOST, "port": self._port, "security_protocol": 0}
            ],
            "features": [
                {
                    "name": name,
                    "min_supported_version": 7 if name == "metadata.version" else 0,
                    "max_supported_version": 100,
                }
                for name in FEATURES
            ],
            "log_dirs": [self._directory],
            "previous_broker_epoch": -1,
        }

    def _heartbeat(self, epoch: int) -> dict[str, Any]:
        return {
            "broker_id": self.broker_id,
            "broker_epoch": epoch,
            # A broker that reports that it has caught up is unfenced at once.
            "current_metadata_offset": 2**62,
            "want_fence": False,
            "want_shut_down": False,
        }
