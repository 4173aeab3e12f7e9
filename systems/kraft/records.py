"""The clients of the workload of records on hosts: its own, or librdkafka with a user's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kraftwreck.harness.client import BlockingClient, Client
from kraftwreck.harness.workload import ClientSetting
from kraftwreck.systems.kraft.librdkafka import Librdkafka, RecordsClient, Topics
from kraftwreck.systems.kraft.options import OWN_CLIENT
from kraftwreck.systems.kraft.properties import UNCLEAN, risks
from kraftwreck.systems.kraft.workloads.log_client import topic_configs
from kraftwreck.systems.kraft.workloads.produce import ProduceWorkload


class Records:
    """Makes the clients; topics get the configs ``topics``, and ``foreign`` is None without a
    client that is not ours."""

    def __init__(self, topics: Mapping[str, str], foreign: Librdkafka | None) -> None:
        self.foreign = foreign
        self._topics = topics
        self._shared: Topics | None = None

    def client(
        self, workload: ProduceWorkload, setting: ClientSetting, servers: str
    ) -> Client | BlockingClient:
        """Return the client of one thread, which begins with ``servers``."""
        if self.foreign is None:
            own = workload.client(setting)
            own.state.topic_configs = self._topics
            return own
        if self._shared is None:
            brokers = len(setting.gateways)
            configs = topic_configs(setting.seed, brokers, self._topics)
            self._shared = Topics(servers, brokers, configs)
        return RecordsClient(self.foreign, servers, self._shared)

    def facts(self, seed: int, brokers: int) -> dict[str, Any]:
        """Return the field ``client`` of ``test.json``."""
        configs = topic_configs(seed, brokers, self._topics)
        if self.foreign is not None:
            return {"client": {**self.foreign.facts(configs), "topics": configs}}
        # Ours asks for acks=all and never repeats a record that may be there; a leader that is
        # alone in its ISR keeps what it acknowledged, since hosts lose no disks in these runs.
        allowed = {"acks": "all", "enable.idempotence": "true"}
        unclean = {UNCLEAN: configs[UNCLEAN]} if UNCLEAN in configs else {}
        return {"client": {"name": OWN_CLIENT, "topics": configs, "risks": risks(allowed, unclean)}}
