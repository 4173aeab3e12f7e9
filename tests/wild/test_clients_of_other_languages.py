"""The clients of etcd in Go and of Apache Kafka in Java: which verbs they have, what they need."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import apache_kafka
import kafka_java
import pytest

from bench.wild import installed
from kraftwreck.harness.deploy.artefacts import MissingToolError
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS
from tests import tutorial

GO = pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")


@pytest.fixture
def etcd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of etcd's clients, which needs the tutorial's."""
    monkeypatch.syspath_prepend(str(tutorial.write(tmp_path)))
    return import_module("etcd_clients")


def test_a_client_of_fewer_verbs_runs_fewer_workloads(etcd: Any) -> None:
    assert "append" in etcd.EtcdClients().configured([]).verbs
    assert etcd.EtcdClients().configured(["client=go"]).verbs == ("read", "write", "cas")
    system = apache_kafka.ApacheKafka()
    assert "add" in system.configured([]).verbs
    assert system.configured(["client=java", "acks=1"]).verbs == ()


def test_without_a_compiler_one_line_says_what_to_install(
    etcd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="go is missing: apt-get install") as told:
        etcd.module().download(tmp_path, tmp_path)
    assert told.value.exit_code == BAD_ARGUMENTS
    with pytest.raises(MissingToolError, match="javac is missing: apt-get install") as told:
        kafka_java.program().download(tmp_path, tmp_path)
    assert told.value.exit_code == BAD_ARGUMENTS


def test_the_client_in_go_is_pinned_by_the_hashes_of_its_modules(etcd: Any) -> None:
    files = etcd.module().files
    assert "go.etcd.io/etcd/client/v3 v3.5.9 h1:" in files["go.sum"]


def ran(tmp_path: Path, *words: str) -> str:
    """Return what a short run on hosts prints."""
    command = [sys.executable, "-m", "kraftwreck", "run", *words]
    command += ["--nodes", "3", "-t", "5", "--seed", "1", "--no-tables", "--floor", "none"]
    with installed():
        done = subprocess.run(
            [*command, "--store", str(tmp_path)], capture_output=True, text=True, check=False
        )
    return done.stdout + done.stderr


@GO
@pytest.mark.whole_run
@pytest.mark.cluster
@pytest.mark.usefixtures("netns_possible")
def test_etcd_is_valid_through_its_client_in_go(tmp_path: Path) -> None:
    said = ran(tmp_path, "etcd", "-o", "client=go", "-w", "cas-register", "-n", "none")
    assert "verdict: valid" in said, said


@pytest.mark.oracle
@pytest.mark.cluster
@pytest.mark.usefixtures("netns_possible")
def test_apache_kafka_is_valid_through_its_client_in_java(tmp_path: Path) -> None:
    said = ran(tmp_path, "apache-kafka", "-o", "client=java", "-n", "none")
    assert "verdict: valid" in said, said
