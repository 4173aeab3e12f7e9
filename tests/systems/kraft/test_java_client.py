"""Kafka's Java client with a user's properties: what is refused, what it allows, and real runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness.client import Completion
from kraftwreck.harness.deploy.artefacts import MissingToolError
from kraftwreck.harness.deploy.line_clients import HelperPrograms
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS
from kraftwreck.histories.operation import Op
from kraftwreck.oracle import release
from kraftwreck.systems.kraft.java_client import (
    JARS,
    VERSION,
    JavaClient,
    JavaClients,
    is_idempotent,
)
from kraftwreck.systems.kraft.options import PRODUCE
from kraftwreck.systems.kraft.system import SYSTEM


def with_file(folder: Path, text: str) -> tuple[str, ...]:
    file = folder / "mine.properties"
    file.write_text(text)
    return ("client=java", f"properties={file}")


def ignored(line: str) -> None:
    """Say nothing about progress."""


def test_its_jars_are_those_of_the_oracle() -> None:
    locked = {f"{jar.group}:{jar.name}:{jar.version}": jar.sha256 for jar in release.artefacts()}
    assert JARS.jars.items() <= locked.items()
    assert release.kafka_version() == VERSION


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("bootstrap.servers=other:9092\n", "line 1: leave bootstrap.servers out"),
        ("\nkey.serializer=mine\n", "line 2: leave key.serializer out: the run has serializers"),
        ("interceptor.classes=mine\n", "only the client's own code runs"),
        ("ssl.protocol=TLSv1.3\n", "neither encryption nor authentication"),
        ("transactional.id=t\n", "the brokers have no transactions"),
        ("acks=0\n", "acks=0 acknowledges nothing"),
        ("acks=1\nacks=all\n", "line 2: acks is given twice"),
    ],
)
def test_a_property_that_the_run_owns_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(OptionError) as refused:
        SYSTEM.configured(with_file(tmp_path, text))
    assert why in str(refused.value)
    assert "mine.properties" in str(refused.value)


@pytest.mark.parametrize("present", ["", "java"])
def test_without_java_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: str
) -> None:
    if present:
        (tmp_path / present).write_text("#!/bin/sh\n")
        (tmp_path / present).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = "javac" if present else "java"
    with pytest.raises(MissingToolError, match=f"^{missing} is missing: apt-get install") as told:
        SYSTEM.configured(("client=java",))
    assert told.value.exit_code == BAD_ARGUMENTS


@pytest.mark.parametrize(
    ("given", "idempotent"),
    [
        ({}, True),
        ({"acks": "-1"}, True),
        ({"acks": "1"}, False),
        ({"retries": "0"}, False),
        ({"max.in.flight.requests.per.connection": "6"}, False),
        ({"enable.idempotence": "FALSE"}, False),
        ({"enable.idempotence": "true"}, True),
    ],
)
def test_a_producer_is_idempotent_unless_another_property_rules_it_out(
    given: dict[str, str], idempotent: bool
) -> None:
    client = JavaClient(None, given)
    assert is_idempotent(given) is idempotent
    risks = client.facts({"min.insync.replicas": "2"})["risks"]
    assert ("duplicate" in risks) is (not idempotent and given.get("retries") != "0")


def test_a_run_says_which_properties_it_had(tmp_path: Path) -> None:
    file = tmp_path / "mine.properties"
    told = JavaClient(file, {"acks": "1", "max.block.ms": "9"}).facts({})
    assert (told["name"], told["version"]) == ("java", VERSION)
    assert told["properties"] == {"acks": "1", "max.block.ms": "9"}
    assert told["defaults"]["metadata.max.age.ms"] == "1000"
    assert "max.block.ms" not in told["defaults"]
    assert "lost-write" in told["risks"]


HELPER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    told = {"type": "ok", "id": asked["id"], "value": [asked.get("f"), asked.get("value")]}
    print(json.dumps(told | ({"type": "hello", "protocol": 1} if asked["type"] == "hello" else {})))
    sys.stdout.flush()
"""


def op(f: str, value: Any, *, final: bool = False) -> Op:
    return Op(index=0, process=0, type="invoke", f=f, value=value, time=0, final=final)


def test_the_final_poll_reads_everything() -> None:
    clients = JavaClients(HelperPrograms([sys.executable, "-c", HELPER]), "10.0.0.1:9092")
    client = clients.client_of(0)
    assert client.invoke(op("poll", [["poll"]])) == Completion("ok", ["poll", [["poll"]]])
    client.reset()
    read = client.invoke(op("poll", [["poll"]], final=True))
    assert read == Completion("ok", ["read-all", [["poll"]]])
    client.close()
    clients.close()


def test_a_helper_that_does_not_start_fails_the_operation() -> None:
    clients = JavaClients(HelperPrograms(["/no/such/java"]), "10.0.0.1:9092")
    told = clients.client_of(0).invoke(op("assign", []))
    assert told.type == "fail"
    assert "/no/such/java" in str(told.error)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no.such.property=1\n", "a producer has no property no.such.property"),
        ("linger.ms=soon\n", "Invalid value soon for configuration linger.ms"),
        ("acks=1\nenable.idempotence=true\n", "Must set acks to all"),
        ("delivery.timeout.ms=1000\n", "delivery.timeout.ms should be equal to or larger than"),
    ],
)
def test_a_property_that_the_client_refuses_is_one_line(
    tmp_path: Path, text: str, why: str
) -> None:
    system = SYSTEM.configured(with_file(tmp_path, text))
    with pytest.raises(OptionError) as refused:
        system.fetch(ignored)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.oracle
@pytest.mark.cluster
@pytest.mark.usefixtures("netns_possible")
def test_records_through_the_java_client_are_valid(tmp_path: Path) -> None:
    own = with_file(tmp_path, "acks=all\nlinger.ms=0\ncompression.type=lz4\n")
    command = [sys.executable, "-m", "kraftwreck", "run", "-w", "produce", "--nodes", "1"]
    command += ["-n", "none", "-t", "8", "--seed", "1", "--concurrency", "2", "--no-tables"]
    command += ["--client", "java", "--properties", own[1].removeprefix("properties=")]
    done = subprocess.run(
        [*command, "--store", str(tmp_path / "store")], capture_output=True, text=True, check=False
    )
    assert "verdict: valid" in done.stdout, done.stdout + done.stderr


def test_records_in_the_simulator_have_their_own_client() -> None:
    from kraftwreck.systems.kraft.simulated.simulator import SIMULATOR

    with pytest.raises(OptionError, match="real hosts"):
        SIMULATOR.check(RunOptions(workload=PRODUCE, system_options=("client=java",)))
