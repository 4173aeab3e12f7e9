"""The clients of the workload of records on hosts: its own, or another with a user's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kraftwreck.harness.client import BlockingClient, Client
from kraftwreck.harness.workload import ClientSetting
from kraftwreck.systems.kraft.options import OWN_CLIENT
from kraftwreck.systems.kraft.properties import UNCLEAN, risks
from kraftwreck.systems.kraft.workloads.log_client import topic_configs
from kraftwreck.systems.kraft.workloads.produce import ProduceWorkload


class ForeignClients(Protocol):
    """The clients of one run, in a library that is not ours."""

    def client_of(self, thread: int) -> BlockingClient:
        """Return the client of one thread."""
        ...

    def close(self) -> None:
        """End what the clients share."""
        ...


class Foreign(Protocol):
    """A library of clients, with a user's properties."""

    @property
    def name(self) -> str:
        """The name that people know it by."""
        ...

    def facts(self, topics: Mapping[str, str]) -> dict[str, Any]:
        """Return what ``test.json`` says of the clients of a run."""
        ...

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch the library unless it is there, and try the properties, before hosts are up."""
        ...

    def opened(
        self, servers: str, brokers: int, topics: Mapping[str, str], threads: int
    ) -> ForeignClients:
        """Return clients for so many threads; they begin with ``servers``, and topics get the
        configs ``topics``."""
        ...


class Records:
    """Makes the clients; topics get the configs ``topics``, and ``foreign`` is None without a
    client that is not ours."""

    def __init__(self, topics: Mapping[str, str], foreign: Foreign | None) -> None:
        self.foreign = foreign
        self._topics = topics
        self._opened: ForeignClients | None = None

    def open(self, servers: str, brokers: int, seed: int, threads: int) -> None:
        """Prepare the clients of a run with these brokers."""
        if self.foreign is not None:
            configs = topic_configs(seed, brokers, self._topics)
            self._opened = self.foreign.opened(servers, brokers, configs, threads)

    def client(self, workload: ProduceWorkload, setting: ClientSetting) -> Client | BlockingClient:
        """Return the client of one thread."""
        if self._opened is not None:
            return self._opened.client_of(setting.thread)
        own = workload.client(setting)
        own.state.topic_configs = self._topics
        return own

    def close(self) -> None:
        """End what the clients share."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

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
