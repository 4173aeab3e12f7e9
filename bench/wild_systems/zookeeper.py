"""Apache ZooKeeper of Maven's jars: an ensemble, registers as the data of nodes, and locks."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Sequence
from typing import Any

from jute import BAD_VERSION, NO_NODE, NODE_EXISTS, Session, ZooKeeperError
from zookeeper_locks import LOCKS, Locks

from kraftwreck.api import (
    VERBS,
    Artefact,
    Completion,
    Jars,
    Member,
    Op,
    OptionError,
    Place,
    PlainSystem,
    PortOpen,
    Process,
    carry_out,
    dial,
    keys_of,
)

CLIENTS, PEERS, ELECTIONS = 2181, 2888, 3888
JAVA = "/usr/bin/java"
JARS = {
    "ch.qos.logback:logback-classic:1.2.13": (
        "937afb220b91d8a394d78befdbf587c71aeed289d582e2a91e72a7d92172371d"
    ),
    "ch.qos.logback:logback-core:1.2.13": (
        "07b1586faf220c05821d0f3ed8e2e417e214c83f40641f76e8a90b134c31ff6b"
    ),
    "io.dropwizard.metrics:metrics-core:4.1.12.1": (
        "cec34936faa625039f4e46123eccaa10a9eb9d9a40c6075830cd81330e259cf9"
    ),
    "io.netty:netty-buffer:4.1.105.Final": (
        "cc1b0108a60b1eb69bd01a10922851a166c58972cc0683f2116a9e8e7ecdaf0b"
    ),
    "io.netty:netty-codec:4.1.105.Final": (
        "c4f62480b408fb835b454c74cf6394a4c7088ffdaec78742fcece816c46bb58e"
    ),
    "io.netty:netty-common:4.1.105.Final": (
        "399a8045fb43861afb7fc1ef3371f95a0b176692fb268f4867cff4957e63fd25"
    ),
    "io.netty:netty-handler:4.1.105.Final": (
        "5a6945cf1de374628b37ab1c35a4c47c2f5616db3a94b150720641477112be8e"
    ),
    "io.netty:netty-resolver:4.1.105.Final": (
        "7202edd076a1edab50fdb0f3e54f56a02129b326296d9f35f4194f8cfb9b96ef"
    ),
    "io.netty:netty-transport:4.1.105.Final": (
        "be9b8a2f86685a876e469c904cb9fce53a1e826e178d44d2b1d92f6a99054737"
    ),
    "org.slf4j:slf4j-api:1.7.30": (
        "cdba07964d1bb40a0761485c6b1e8c2f8fd9eb1d19c53928ac0d7f9510105c57"
    ),
    "org.xerial.snappy:snappy-java:1.1.10.5": (
        "0f3f1857ed33116583f480b4df5c0218836c47bfbc9c6221c0d73f356decf37b"
    ),
    "org.apache.zookeeper:zookeeper:3.8.4": (
        "2d77b152039e7f85dc5438a9304febff86a2f3e55c88976a8be309af39028e97"
    ),
    "org.apache.zookeeper:zookeeper-jute:3.8.4": (
        "93e854b55d731e745bafec187e2e7bf3389fd2a88e2fc8d1a3c1b9110284b284"
    ),
}
SETTINGS = """\
tickTime=500
initLimit=20
syncLimit=6
dataDir={folder}
clientPort={port}
clientPortAddress={ip}
4lw.commands.whitelist=srvr
admin.enableServer=false
"""
LOGGING = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="out"/></root>
</configuration>
"""
SESSION_MS = 4000
TIMEOUT_S = 2.0
MANY_KEYS = ("txn", "append")
"""Verbs of several keys: a read of several nodes is not of one moment."""


class Client:
    """A client of one server. Reads follow a ``sync`` if ``synced``."""

    def __init__(self, place: Place, synced: bool, locks: Locks) -> None:
        self.place, self.synced, self.locks = place, synced, locks
        self.session: Session | None = None

    def open(self) -> Session:
        """Return the session, opened if it is not."""
        if self.session is None:
            self.session = self.opened()
        return self.session

    def opened(self, *resumed: tuple[int, bytes]) -> Session:
        """Return a new session, or resume the one with this key."""
        return Session(self.place, CLIENTS, TIMEOUT_S, SESSION_MS, *resumed)

    def read(self, path: str) -> tuple[Any, int]:
        """Return value and version of a node; -1 if there is none."""
        session = self.open()
        if self.synced:
            session.sync(path)
        try:
            data, version = session.get(path)
        except ZooKeeperError as error:
            if error.code != NO_NODE:
                raise
            return None, -1
        return json.loads(data), version

    def write(self, path: str, value: Any, version: int) -> bool:
        """Write the value unless the node has another version; return whether it was done."""
        data = json.dumps(value).encode()
        try:
            if version < 0:
                self.open().create(path, data)
            else:
                self.open().set(path, data, version)
        except ZooKeeperError as error:
            if error.code in (NODE_EXISTS, BAD_VERSION):
                return False
            raise
        return True

    def invoke(self, op: Op) -> Completion:
        if op.f in LOCKS:
            return self.locks.invoke(op, self.opened)
        (key,) = keys_of(op)
        path, sent = f"/{key}", False
        end = time.monotonic() + TIMEOUT_S
        try:
            while time.monotonic() < end:
                value, version = self.read(path)
                values, completion = carry_out(op, {key: value})
                sent = bool(values)
                if not sent or self.write(path, values[key], version):
                    return completion
                sent = False  # Another client was faster, or this server has another version.
            return Completion("fail", error="each time the node had another version")
        except (OSError, ZooKeeperError) as error:
            self.close()
            return Completion("info" if sent else "fail", error=str(error))

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
        self.session = None


class ZooKeeper(PlainSystem):
    """A server answers reads from what it has applied; ``sync`` catches up with the leader."""

    name = "zookeeper"
    about = "Apache ZooKeeper 3.8.4 of Maven's jars"
    default_workload = "register"
    workloads = ()
    verbs = tuple(verb for verb in VERBS if verb not in MANY_KEYS)
    checkers = ("members",)
    preloads = True
    options = {"sync": ("true", "false")}  # noqa: RUF012 - as the base class has it

    def __init__(self) -> None:
        self._inspected: dict[str, Session] = {}
        self._locks = Locks()

    def artefacts(self) -> Sequence[Artefact]:
        if shutil.which("java") is None:
            raise OptionError("java is missing: apt-get install openjdk-17-jre-headless")
        return [Jars(name="zookeeper", jars=JARS)]

    def processes(self, place: Place, places: Sequence[Place]) -> Sequence[Process]:
        folder, configuration = place.data(), place.configuration()
        settings = SETTINGS.format(folder=folder, port=CLIENTS, ip=place.ip)
        for each in places:
            settings += f"server.{each.number}={each.ip}:{PEERS}:{ELECTIONS}\n"
        jars = f"{configuration}:{place.artefact('zookeeper')}/*"
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [
            Process(
                argv=(
                    JAVA,
                    "-Xmx192m",
                    "-XX:+UseSerialGC",
                    "-XX:-UseContainerSupport",  # It fails where control groups are not mounted.
                    "-cp",
                    jars,
                    main,
                    f"{configuration}/zoo.cfg",
                ),
                files={
                    f"{configuration}/zoo.cfg": settings,
                    f"{configuration}/logback.xml": LOGGING,
                    f"{folder}/myid": f"{place.number}\n",
                },
                folders=(folder,),
                ports={"clients": CLIENTS, "peers": PEERS, "elections": ELECTIONS},
                ready=PortOpen(ELECTIONS),
                ready_s=60.0,
            )
        ]

    def client(self, place: Place) -> Client:
        return Client(place, self.option("sync") == "true", self._locks)

    def inspect(self, place: Place) -> Member:
        """Return the nodes of one server; its session stays open, as opening one is an entry."""
        try:
            session = self._inspected.get(place.name)
            if session is None:
                session = Session(place, CLIENTS, TIMEOUT_S, 10 * SESSION_MS)
                self._inspected[place.name] = session
            names = [name for name in session.children("/") if name != "zookeeper"]
            state = {name: json.loads(session.get(f"/{name}")[0]) for name in sorted(names)}
        except (OSError, ZooKeeperError):
            self._inspected.pop(place.name, None)
            raise
        return Member(f"0x{session.zxid:x}", state)

    def unready(self, places: Sequence[Place]) -> str:
        for place in places:
            client = Client(place, True, self._locks)
            try:
                client.read("/ready")
            except (OSError, ZooKeeperError) as error:
                return f"{place.name} does not serve: {error}"
            finally:
                client.close()
        return ""

    def leader(self, places: Sequence[Place]) -> str | None:
        for place in places:
            with contextlib.suppress(OSError):
                asked = dial((place.ip, CLIENTS), 0.2, place.gateway)
                asked.sendall(b"srvr")
                told = asked.makefile("rb").read()
                asked.close()
                if b"Mode: leader" in told:
                    return place.name
        return None


SYSTEM = ZooKeeper()
