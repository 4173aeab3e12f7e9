"""The workload of records through Kafka's own Java client, on hosts.

The client is a helper program of the line protocol (``java/RecordsClient.java``), one for each
thread. A producer has the properties of the user's file; consumers have none of them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from kraftwreck.harness.client import Completion
from kraftwreck.harness.deploy.artefacts import Jars, require
from kraftwreck.harness.deploy.cache import ArtefactCache
from kraftwreck.harness.deploy.declaration import Place
from kraftwreck.harness.deploy.java_programs import JDK, JavaProgram
from kraftwreck.harness.deploy.line_clients import HelperError, HelperPrograms, LineClient
from kraftwreck.harness.options import OptionError
from kraftwreck.harness.remote.errors import RemoteError
from kraftwreck.histories.operation import Op
from kraftwreck.systems.kraft import properties
from kraftwreck.systems.kraft.options import JAVA
from kraftwreck.systems.kraft.properties import ACKS, IDEMPOTENCE, IN_FLIGHT, RETRIES
from kraftwreck.systems.kraft.workloads.log_client import PARTITIONS, PREFIX, REPLICAS

VERSION: Final = "4.3.1"
JARS: Final = Jars(
    name="kafka-clients",
    jars={
        f"org.apache.kafka:kafka-clients:{VERSION}": (
            "52501b7b47510c66f898871adaf6d2968ab7246561d44ced43643a8a587f0b36"
        ),
        "org.slf4j:slf4j-api:1.7.36": (
            "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0"
        ),
        "at.yawk.lz4:lz4-java:1.10.2": (
            "252dabd586d22149a31661a8afc1a50747714eb1a298bd4a6e780c8c91a13866"
        ),
        "com.github.luben:zstd-jni:1.5.6-10": (
            "b6c3237e24b8252a5a9c3a0e1ae30ef8f323412e74bd358548b7a9e527d676df"
        ),
        "org.xerial.snappy:snappy-java:1.1.10.7": (
            "4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36"
        ),
        "com.fasterxml.jackson.core:jackson-annotations:2.21": (
            "53ca085f4a150f703f49e1aabd935bd03b43e1ea3d55d135438292af22cef56b"
        ),
        "com.fasterxml.jackson.core:jackson-core:2.21.2": (
            "12e8655b100267b44d0f14d01b1f5082a5105e616174dc4307be1a761e92407b"
        ),
        "com.fasterxml.jackson.core:jackson-databind:2.21.2": (
            "8c982f01f148d805f0aaac2339011244757e0df7c6ff8951f2fa3f433b8ed849"
        ),
    },
)
SOURCE: Final = Path(__file__).with_name("java") / "RecordsClient.java"
ANSWER_S: Final = 75.0
"""How long the helper may take for an operation: more than the 60 s of its final poll."""
START_S: Final = 60.0
"""How long a JVM may take to start on a busy machine."""
_SERIALIZES: Final = "the run has serializers of its own"
DIALECT: Final = properties.Dialect(
    aliases={},
    owned={
        "key.serializer": _SERIALIZES,
        "value.serializer": _SERIALIZES,
        "interceptor.classes": properties.OWN_CODE,
        "partitioner.class": properties.OWN_CODE,
        "metric.reporters": properties.OWN_CODE,
        "config.providers": properties.OWN_CODE,
        "transaction.two.phase.commit.enable": "the brokers have no transactions",
    },
    defaults={**properties.DEFAULTS, "metadata.max.age.ms": "1000", "max.block.ms": "3000"},
)
UNSET: Final[Mapping[str, str]] = {ACKS: "all", RETRIES: "2147483647", IN_FLIGHT: "5"}
"""The values of the Java client for properties that a file leaves out."""
_MOST_IN_FLIGHT: Final = 5
"""Requests in flight with which a producer is idempotent by default."""
_OTHERS: Final = (
    "request.timeout.ms",
    "reconnect.backoff.max.ms",
    "socket.connection.setup.timeout.ms",
    "metadata.max.age.ms",
)
"""Defaults of a run that consumers and creators of topics have, too."""


@dataclass
class JavaClient:
    """Producers with the properties of ``file``; ``given`` are those that it has.

    ``command`` is that of the helper program, empty before :meth:`fetch`.
    """

    file: Path | None
    given: Mapping[str, str]
    name: str = JAVA
    command: Sequence[str] = ()

    @classmethod
    def of(cls, file: Path | None) -> JavaClient:
        """Read ``file``. Raises OptionError for a property that it must leave out, and
        MissingToolError without Java."""
        given = {} if file is None else properties.read(file, DIALECT)
        require("java", JDK)
        require("javac", JDK)
        return cls(file, given)

    def fetch(self, say: Callable[[str], None]) -> None:
        """Fetch the jars, compile the helper program, and let it try the properties.

        Raises OptionError, one line, for a property that the client refuses.
        """
        cache = ArtefactCache(say=say)
        jars = cache.fetch(JARS).tar.with_name("downloads")
        program = JavaProgram(
            name="kafka-records-client",
            source=SOURCE,
            class_path=lambda: f"{jars}/*",
            pins=JARS.identity(),
        )
        self.command = program.command(cache)
        tried = subprocess.run(
            [*self.command, "check"],
            input=json.dumps(DIALECT.settings(self.given)),
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S,
        )
        told = tried.stdout.strip() or (tried.stderr.strip() if tried.returncode else "")
        if told:
            line = told.splitlines()[-1]
            raise OptionError(f"--properties {self.file}: the Java client refuses it: {line}")

    def facts(self, topics: Mapping[str, str]) -> dict[str, Any]:
        """Return what ``test.json`` says of the clients of a run."""
        effective = {**UNSET, **self.given, IDEMPOTENCE: str(is_idempotent(self.given)).lower()}
        told = DIALECT.facts(self.file, self.given, effective, topics)
        return {"name": self.name, "version": VERSION, **told}

    def opened(
        self, servers: str, brokers: int, topics: Mapping[str, str], threads: int
    ) -> JavaClients:
        """Return the clients of a run; its programs are running. Raises RemoteError."""
        assert self.command, "fetch comes first"
        hello = {
            "servers": servers,
            "properties": DIALECT.settings(self.given),
            "connecting": {name: DIALECT.defaults[name] for name in _OTHERS},
            "patience_ms": round(DIALECT.patience_s(self.given) * 1000),
            "prefix": PREFIX,
            "partitions": PARTITIONS,
            "replicas": min(REPLICAS, brokers),
            "topics": dict(topics),
        }
        programs = HelperPrograms(self.command, hello=hello, start_s=START_S)
        try:
            programs.start(threads)  # A JVM takes seconds, and the clock of the run starts later.
        except HelperError as error:
            programs.close()
            raise RemoteError("control node", str(error)) from None
        return JavaClients(programs, servers)


def is_idempotent(given: Mapping[str, str]) -> bool:
    """Return whether the producer is: by default it is, unless another property rules it out."""
    if IDEMPOTENCE in given:
        return given[IDEMPOTENCE].lower() == "true"
    chosen = {**UNSET, **given}
    few = chosen[IN_FLIGHT].isdecimal() and int(chosen[IN_FLIGHT]) <= _MOST_IN_FLIGHT
    return chosen[ACKS] in ("all", "-1") and chosen[RETRIES] != "0" and few


@dataclass
class JavaClients:
    """The clients of one run, each in a helper program of its thread."""

    programs: HelperPrograms
    servers: str

    def client_of(self, thread: int) -> JavaRecordsClient:
        """Return the client of one thread."""
        place = Place("records", 0, self.servers, "")
        return JavaRecordsClient(
            lambda: self.programs.client(place, f"kraftwreck-{thread}", ANSWER_S)
        )

    def close(self) -> None:
        """End all helper programs."""
        self.programs.close()


@dataclass
class JavaRecordsClient:
    """A client of one thread (:class:`~harness.client.BlockingClient`)."""

    start: Callable[[], LineClient]
    blocking: Literal[True] = True
    _client: LineClient | None = field(default=None, init=False)

    def invoke(self, op: Op) -> Completion:
        """Carry out ``op`` in the helper program."""
        if self._client is None:
            try:
                self._client = self.start()
            except (HelperError, ConnectionError) as error:
                return Completion("fail", error=str(error))
        # The line protocol does not say that an operation is the final one.
        asked = msgspec.structs.replace(op, f="read-all") if op.f == "poll" and op.final else op
        return self._client.invoke(asked)

    def reset(self) -> None:
        """Begin as another producer and consumer."""
        self.close()

    def close(self) -> None:
        """Give producer and consumer up; the program stays for others."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
