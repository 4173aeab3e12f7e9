"""Redis 7.0 of Debian with Sentinel: a primary, its replicas, and one sentinel on each host."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from kraftwreck.api import (
    Artefact,
    Completion,
    DebianPackages,
    Op,
    Place,
    PlainSystem,
    PortOpen,
    Process,
    dial,
    library_path,
)

PORT, SENTINELS = 6379, 26379
PACKAGES = {
    "redis-server=5:7.0.15-1~deb12u10": (
        "784e17b51024ff878fd7d709a68346658fa9b21f6de740cb75e474f28790971c"
    ),
    "redis-tools=5:7.0.15-1~deb12u10": (
        "f791cfcbf3054832bd6e786546acb0d4e046888f8e63bcf567c1c65fbfaf69e2"
    ),
    "libjemalloc2=5.3.0-1": "a4117c23c5c8acf6c9678a6cb086f000b79476369da7efe8a78a70826956ad3d",
    "liblzf1=3.6-3": "9854b0866201b63e04f1e446f45f01ef4a6f72c61f2250b75f944f6046cc7e8c",
    "libatomic1=12.2.0-14+deb12u1": (
        "fbd4e154a6b444229ea002cc209df099209c0adc09102e5fd21239a3d2b55e2d"
    ),
}
COMMON = (
    "port {port}\nbind {ip}\nbind-source-addr {ip}\nprotected-mode no\ndaemonize no\ndir {dir}\n"
)
SENTINEL = """\
sentinel monitor group {first} 6379 2
sentinel down-after-milliseconds group 1000
sentinel failover-timeout group 5000
sentinel parallel-syncs group 1
"""


class ReplyError(Exception):
    """An error that the server returned: the command was certainly not carried out."""


class Connection:
    """A connection to one server, by RESP 2."""

    def __init__(self, place: Place, ip: str, port: int, timeout_s: float) -> None:
        self.socket = dial((ip, port), timeout_s, place.gateway)
        self.socket.settimeout(timeout_s)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words: object) -> Any:
        """Return the reply to a command. Raises :class:`ReplyError` and OSError."""
        texts = [str(word).encode() for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(text), text) for text in texts]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(parts))
        return self._reply()

    def _reply(self) -> Any:
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the connection was closed")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise ReplyError(rest)
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self.file.read(length + 2)[:-2].decode()
        return int(rest) if kind == b":" else rest

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def primary(place: Place, timeout_s: float) -> str:
    """Return the address of the primary according to the sentinel of ``place``."""
    sentinel = Connection(place, place.ip, SENTINELS, timeout_s)
    try:
        return str(sentinel("SENTINEL", "get-master-addr-by-name", "group")[0])
    finally:
        sentinel.close()


class Client:
    """A client that writes to and reads from the primary that one sentinel names.

    A write is acknowledged once ``replicas`` replicas have it (``WAIT``), within half a second.
    """

    def __init__(self, place: Place, replicas: int = 0) -> None:
        self.place, self.replicas = place, replicas
        self.server: Connection | None = None

    def invoke(self, op: Op) -> Completion:
        sent = written = False
        try:
            if self.server is None:
                self.server = Connection(self.place, primary(self.place, 1.0), PORT, 1.0)
            sent = op.f != "read"
            value = carried_out(self.server, op)
            written = sent
            if sent and self.replicas:
                had = self.server("WAIT", self.replicas, 500)
                if had < self.replicas:
                    return Completion("info", error=f"{had} of {self.replicas} replicas had it")
            return Completion("ok", value)
        except ReplyError as error:
            self.close()
            return Completion("info" if written else "fail", error=str(error))
        except OSError as error:
            self.close()
            return Completion("info" if sent else "fail", error=str(error))

    def close(self) -> None:
        if self.server is not None:
            self.server.close()
        self.server = None


def carried_out(server: Connection, op: Op) -> Any:
    """Carry out an operation; return its value."""
    if op.key == "set":
        if op.f == "read":
            return sorted(map(int, server("SMEMBERS", "set")))
        server("SADD", "set", op.value)
    elif op.f == "read":
        found = server("GET", op.key)
        return int(found) if found is not None else 0 if op.key == "counter" else None
    else:
        server("INCRBY" if op.f == "add" else "SET", op.key, op.value)
    return op.value


class RedisSentinel(PlainSystem):
    """Replicas follow the primary without consensus; sentinels vote for a new one."""

    name = "redis-sentinel"
    about = "Redis 7.0 of Debian with Sentinel"
    default_workload = "set"
    workloads = ()
    verbs = ("read", "write", "add")
    preloads = True
    options = {"wait": ("0", "1", "2")}  # noqa: RUF012 - as the base class has it

    def artefacts(self) -> Sequence[Artefact]:
        return [DebianPackages(name="redis", packages=PACKAGES)]

    def processes(self, place: Place, places: Sequence[Place]) -> Sequence[Process]:
        first = places[0].ip
        redis = COMMON.format(port=PORT, ip=place.ip, dir=place.data()) + "appendonly yes\n"
        if place.number > 1:
            redis += f"replicaof {first} {PORT}\n"
        folder = place.data("sentinel")
        sentinel = COMMON.format(port=SENTINELS, ip=place.ip, dir=folder)
        sentinel += SENTINEL.format(first=first)
        return [
            _process(place, "", redis, PORT),
            _process(place, "sentinel", sentinel, SENTINELS, "--sentinel"),
        ]

    def client(self, place: Place) -> Client:
        return Client(place, int(self.option("wait")))

    def unready(self, places: Sequence[Place]) -> str:
        try:
            server = Connection(places[0], places[0].ip, PORT, 1.0)
            replicas = f"connected_slaves:{len(places) - 1}"
            missing = "" if replicas in server("INFO", "replication") else "replicas are missing"
            server.close()
            for place in places:
                sentinel = Connection(place, place.ip, SENTINELS, 1.0)
                sentinel("SENTINEL", "CKQUORUM", "group")
                # A sentinel learns of replicas from the primary every ten seconds. It never moves
                # one that it does not know to a new primary.
                known = len(sentinel("SENTINEL", "REPLICAS", "group"))
                sentinel.close()
                if known < len(places) - 1:
                    missing = f"the sentinel of {place.name} knows {known} replicas"
        except (OSError, ReplyError) as error:
            return f"the group does not serve: {error}"
        return missing

    def leader(self, places: Sequence[Place]) -> str | None:
        """Return the host that most sentinels call primary."""
        votes: Counter[str] = Counter()
        for place in places:
            with contextlib.suppress(OSError, ReplyError):
                votes[primary(place, 0.2)] += 1
        names = {place.ip: place.name for place in places}
        return names.get(votes.most_common(1)[0][0]) if votes else None


def _process(place: Place, name: str, settings: str, port: int, *more: str) -> Process:
    """Return a process with a configuration file that it rewrites itself."""
    prefix, file = place.artefact("redis"), f"{place.configuration(name)}/redis.conf"
    return Process(
        name=name,
        argv=(f"{prefix}/usr/bin/redis-server", file, *more),
        environment={"LD_LIBRARY_PATH": library_path(prefix)},
        files={file: settings},
        folders=(place.data(name),),
        ports={"clients": port},
        ready=PortOpen(port),
    )


SYSTEM = RedisSentinel()
