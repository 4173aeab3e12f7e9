"""Apache Kafka's Java client as a helper program, compiled once against the oracle's jars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kafka_records import PARTITIONS, TOPIC

from kraftwreck.harness.deploy.artefacts import file_sha256
from kraftwreck.harness.deploy.cache import ArtefactCache
from kraftwreck.harness.deploy.java_programs import JavaProgram
from kraftwreck.oracle import release

QUIET = ("-Dlog4j2.level=OFF", "-Dorg.apache.logging.log4j.simplelog.level=OFF")


def program() -> JavaProgram:
    """Return the helper program; its source and the locked jars decide what it is."""
    return JavaProgram(
        name="kafka-java-client",
        source=Path(__file__).with_name("kafka_java") / "RecordClient.java",
        class_path=release.class_path,
        pins=[file_sha256(release.LOCK)],
    )


def command(acks: str, say: Callable[[str], None]) -> Sequence[str]:
    """Return the command of the helper program, which is compiled unless it is in the cache."""
    java, *words = program().command(ArtefactCache(say=say))
    return (java, *QUIET, *words, TOPIC, str(PARTITIONS), acks)
