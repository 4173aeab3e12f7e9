"""Hazelcast 5.6 of Maven's jar: a queue, whose items all three members have in memory.

Members that do not see each other become clusters of their own, and merge later. Clients use the
REST interface of one member each.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException

from kraftwreck.api import (
    Artefact,
    Completion,
    Jars,
    Op,
    OptionError,
    Place,
    PlainSystem,
    PortOpen,
    Process,
    dial,
)

JAR = {
    "com.hazelcast:hazelcast:5.6.0": (
        "f16e392740b2d64136590bc52a782c8f8e75b5cb8d3ac221c7c09efae0d7871c"
    )
}
JAVA = "/usr/bin/java"
MAIN = "com.hazelcast.core.server.HazelcastMemberStarter"
PORT, TIMEOUT_S = 5701, 3.0
QUEUE = "/hazelcast/rest/queues/kraftwreck"
EMPTY, DONE = 204, 200
MERGE_S, QUIET_S = 20.0, 3.0
"""How long a drain waits for one cluster of all members, and how long the queue must be empty."""
SETTINGS = """\
hazelcast:
  cluster-name: kraftwreck
  network:
    public-address: {ip}:{port}
    port: {{port: {port}, auto-increment: false}}
    interfaces: {{enabled: true, interfaces: [{ip}]}}
    join:
      auto-detection: {{enabled: false}}
      multicast: {{enabled: false}}
      tcp-ip: {{enabled: true, member-list: [{members}]}}
    rest-api:
      enabled: true
      endpoint-groups:
        DATA: {{enabled: true}}
        HEALTH_CHECK: {{enabled: true}}
  queue:
    default: {{backup-count: {backups}{protected}}}
  split-brain-protection:
    majority: {{enabled: true, minimum-cluster-size: {majority}}}
  properties:
    hazelcast.phone.home.enabled: false
    hazelcast.partition.count: 31
    hazelcast.heartbeat.interval.seconds: 1
    hazelcast.max.no.heartbeat.seconds: 3
    hazelcast.merge.first.run.delay.seconds: 3
    hazelcast.merge.next.run.delay.seconds: 3
"""


class Client:
    """A client of one member, out of ``members``."""

    def __init__(self, place: Place, members: int) -> None:
        self._place, self._members = place, members
        self._http = HTTPConnection(place.ip, PORT)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        if self._http.sock is None:
            self._http.sock = dial((self._place.ip, PORT), TIMEOUT_S, self._place.gateway)
        self._http.request(method, path, body, {"Content-Type": "text/plain"} if body else {})
        response = self._http.getresponse()
        return response.status, response.read()

    def clustered(self) -> int:
        """Return how many members the cluster of this member has; 0 while it moves items."""
        _, body = self._ask("GET", "/hazelcast/health")
        health = json.loads(body)
        return int(health["clusterSize"]) if health["clusterSafe"] else 0

    def _polled(self) -> int | None:
        """Take the first item out of the queue; return None if there is none."""
        status, body = self._ask("DELETE", f"{QUEUE}/0")
        if status not in (DONE, EMPTY):
            raise OSError(f"status {status}")
        return int(body) if status == DONE and body else None

    def _drain(self, taken: list[int]) -> None:
        """Wait until all members are one cluster, and take items until none comes from a merge."""
        deadline = time.monotonic() + MERGE_S
        while self.clustered() < self._members:
            if time.monotonic() > deadline:
                raise OSError("the members are no single cluster")
            time.sleep(0.2)
        quiet = time.monotonic()
        while time.monotonic() < quiet + QUIET_S:
            item = self._polled()
            if item is None:
                time.sleep(0.1)
                continue
            taken.append(item)
            quiet = time.monotonic()

    def invoke(self, op: Op) -> Completion:
        """Carry out an operation of the queue; a lost answer leaves its effect unknown."""
        taken: list[int] = []
        try:
            if op.f == "enqueue":
                status, _ = self._ask("POST", QUEUE, str(op.value).encode())
                if status != DONE:
                    return Completion("info", error=f"status {status}")
                return Completion("ok", op.value)
            if op.f == "dequeue":
                item = self._polled()
                if item is None:
                    return Completion("fail", error="the queue is empty")
                return Completion("ok", item)
            self._drain(taken)
            return Completion("ok", taken)
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            return Completion("info", taken or op.value, error=f"{type(error).__name__}: {error}")

    def close(self) -> None:
        self._http.close()


class HazelcastQueue(PlainSystem):
    """A queue with a copy on each member."""

    name = "hazelcast"
    about = "a queue of Hazelcast 5.6, by its REST interface"
    default_workload = "queue"
    workloads = ()
    verbs = ("enqueue", "dequeue", "drain")
    client_timeout_s = 60.0
    options = {"protection": ("false", "true")}  # noqa: RUF012 - as the base class has it
    _members = 0

    def artefacts(self) -> Sequence[Artefact]:
        if shutil.which("java") is None:
            raise OptionError("java is missing: apt-get install openjdk-17-jre-headless")
        return [Jars(name="hazelcast", jars=JAR)]

    def processes(self, place: Place, places: Sequence[Place]) -> Sequence[Process]:
        file = f"{place.configuration()}/hazelcast.yaml"
        members = ", ".join(f"'{each.ip}:{PORT}'" for each in places)
        self._members = len(places)
        protected = self.option("protection") == "true"
        settings = SETTINGS.format(
            ip=place.ip,
            port=PORT,
            members=members,
            backups=len(places) - 1,
            majority=len(places) // 2 + 1,
            protected=", split-brain-protection-ref: majority" if protected else "",
        )
        options = (
            "-Xmx160m",
            "-XX:+UseSerialGC",
            "-XX:-UseContainerSupport",  # It fails where control groups are not mounted.
            f"-Dhazelcast.config={file}",
        )
        return [
            Process(
                argv=(JAVA, *options, "-cp", f"{place.artefact('hazelcast')}/*", MAIN),
                files={file: settings},
                ports={"members": PORT},
                ready=PortOpen(PORT),
                ready_s=90.0,
            )
        ]

    def client(self, place: Place) -> Client:
        return Client(place, self._members)

    def unready(self, places: Sequence[Place]) -> str:
        for place in places:
            client = Client(place, len(places))
            try:
                found = client.clustered()
            except (OSError, HTTPException, ValueError, KeyError) as error:
                return f"{place.name} does not serve: {error}"
            finally:
                client.close()
            if found != len(places):
                return f"{place.name} sees {found} members"
        return ""


SYSTEM = HazelcastQueue()
