"""Apache Kafka's Java client as a helper program, compiled once against the oracle's jars."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_records import PARTITIONS, TOPIC

from kraftwreck.harness.deploy.artefacts import file_sha256, require, run_tool
from kraftwreck.harness.deploy.cache import ArtefactCache
from kraftwreck.oracle import release
from kraftwreck.oracle.java import TOOL_FLAGS, find_java

SOURCE = Path(__file__).with_name("kafka_java") / "RecordClient.java"


@dataclass(frozen=True)
class Compiled:
    """The classes of :data:`SOURCE`; their source and the locked jars decide what they are."""

    name: str = "kafka-java-client"

    def identity(self) -> Sequence[str]:
        """Return the digests of the source and of the lock."""
        return ["java", file_sha256(SOURCE), file_sha256(release.LOCK)]

    def download(self, folder: Path, scratch: Path) -> None:
        """Compile. Raises MissingToolError without a compiler."""
        require("javac", "openjdk-17-jdk-headless")
        command = ["javac", "-proc:none", "-cp", release.class_path(), "-d", str(folder)]
        run_tool([*command, str(SOURCE)], self.name, scratch)

    def check(self, folder: Path) -> None:
        """Accept what was compiled: the identity has all that it depends on."""

    def lay_out(self, folder: Path, prefix: Path) -> None:
        """Copy the classes."""
        shutil.copytree(folder, prefix, dirs_exist_ok=True)


def command(acks: str, say: Callable[[str], None]) -> Sequence[str]:
    """Return the command of the helper program, which is compiled unless it is in the cache."""
    classes = ArtefactCache(say=say).fetch(Compiled()).tar.with_name("downloads")
    path = f"{classes}:{release.class_path()}"
    quiet = ("-Dlog4j2.level=OFF", "-Dorg.apache.logging.log4j.simplelog.level=OFF")
    words = (find_java(), *TOOL_FLAGS, *quiet, "-cp", path, SOURCE.stem)
    return (*words, TOPIC, str(PARTITIONS), acks)
