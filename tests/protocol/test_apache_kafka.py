"""Our codec against Apache Kafka's own generated classes: all RPCs, and all records of logs.

Runs with ``make test-oracle`` where a Java compiler is installed. The number of
messages of each kind and version is KRAFTWRECK_ROUND_TRIPS (20 if unset).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.nodes.protocol.codec import encode
from kraftwreck.nodes.protocol.schema import Message
from kraftwreck.nodes.protocol.schemas import MESSAGES
from kraftwreck.oracle.release import OracleError, class_path

pytestmark = pytest.mark.oracle

ECHO = Path(__file__).with_name("Echo.java")
MESSAGES_EACH = int(os.environ.get("KRAFTWRECK_ROUND_TRIPS", "20"))
AT_ONCE = 50_000

# Newer than the release the oracle is pinned to.
ABSENT = {
    ("UnregisterControllerRequest", 0),
    ("UnregisterControllerResponse", 0),
    ("UnregisterControllerRecord", 0),
    ("ApiVersionsRequest", 5),
    ("ApiVersionsResponse", 5),
}
# Kafka keeps the marker's version outside of the message, headers apart from both.
OTHERWISE = {"EndTxnMarker", "ResponseHeader"}
OWN_KEYS = 10_000
"""From this API key on messages are ours alone: those of the Raft core."""


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[str]], list[str]]:
    """Send lines through Apache Kafka; see ``Echo.java``."""
    try:
        jars = class_path()
    except OracleError as error:
        pytest.skip(str(error))
    java, javac = shutil.which("java"), shutil.which("javac")
    if java is None or javac is None:
        pytest.skip("no Java compiler: apt-get install openjdk-17-jdk-headless")
    classes = tmp_path_factory.mktemp("echo")
    subprocess.run([javac, "-cp", jars, "-d", str(classes), str(ECHO)], check=True, timeout=120)

    def send(lines: list[str]) -> list[str]:
        command = [java, "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{jars}:{classes}", "Echo"]
        text = "\n".join(lines) + "\n"
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, timeout=600
        )
        return done.stdout.splitlines()

    return send


def test_apache_kafka_reads_our_bytes_and_writes_the_same(
    echo: Callable[[list[str]], list[str]], drawn: Callable[[Message, int, int], dict[str, Any]]
) -> None:
    asked = (
        (message.name, version, encode(message.name, version, drawn(message, version, number)))
        for message in MESSAGES.values()
        if message.name not in OTHERWISE and (message.key or 0) < OWN_KEYS
        for version in range(message.valid.low, message.valid.high + 1)
        for number in range(MESSAGES_EACH)
    )
    absent = set()
    while part := list(islice(asked, AT_ONCE)):
        answers = echo([f"{name} {version} {data.hex()}" for name, version, data in part])
        for (name, version, data), answer in zip(part, answers, strict=True):
            if answer == "absent":
                absent.add((name, version))
            else:
                assert answer == f"0 {data.hex()}", f"{name} v{version}"
    assert absent == ABSENT
