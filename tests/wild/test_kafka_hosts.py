"""Apache Kafka on hosts: a short run of each kind of workload."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.wild import installed
from kraftwreck.oracle.release import OracleError, class_path


@pytest.fixture(scope="module")
def apache_kafka() -> None:
    """Fail if Apache Kafka is not fetched: these tests run only on request."""
    try:
        class_path()
    except OracleError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.mark.oracle
@pytest.mark.cluster
@pytest.mark.usefixtures("netns_possible", "apache_kafka")
@pytest.mark.parametrize("words", ["-w produce -n kill", "-w register -n none -o roles=apart"])
def test_a_short_run_is_valid(tmp_path: Path, words: str) -> None:
    command = [sys.executable, "-m", "kraftwreck", "run", "apache-kafka", *words.split()]
    command += ["--nodes", "3", "-t", "6", "--seed", "1", "--no-tables", "--floor", "none"]
    with installed():
        done = subprocess.run(
            [*command, "--store", str(tmp_path)], capture_output=True, text=True, check=False
        )
    assert "verdict: valid" in done.stdout + done.stderr, done.stdout + done.stderr
