"""The integration tests of kafka-python against one broker, number 0, as they expect it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.suites.clusters import running
from bench.suites.outcomes import Outcome, Sent, requests
from bench.suites.sources import KAFKA_PYTHON, unpacked
from kraftwreck.oracle.release import kafka_version

ROOT = Path(__file__).resolve().parents[2]
SOURCE = KAFKA_PYTHON
IDS = range(1)
PROPERTIES = {"auto.create.topics.enable": "true", "num.partitions": 4}
MODULE = "test/integration"
SERVICE = '''"""Stands in for a module that the archive lacks: the broker runs elsewhere."""


class ExternalService:
    def __init__(self, host, port):
        pass

    def open(self):
        pass

    def close(self):
        pass

    def dump_logs(self):
        pass


SpawnedService = ExternalService
'''


def run(
    kind: str, folder: Path, wanted: Sequence[str], limit_s: float
) -> tuple[list[Outcome], list[Sent]]:
    """Run the tests whose names contain one of ``wanted``, or all, one after another."""
    source = unpacked(SOURCE)
    (source / "test" / "service.py").write_text(SERVICE)
    (source / "test" / "__init__.py").touch()
    written = folder / "outcomes"
    with running(kind, folder, IDS, PROPERTIES) as cluster:
        environment = dict(
            os.environ,
            KAFKA_VERSION=kafka_version(),
            KAFKA_ROOT=str(folder),
            KAFKA_URI=f"PLAINTEXT://{cluster.servers}",
            PYTHONPATH=os.pathsep.join((str(source), str(ROOT))),
            SUITE_OUTCOMES=str(written),
        )
        plugins = ["no:rerunfailures", "no:cacheprovider", "no:kraftwreck", "no:xdist"]
        command = [
            *(sys.executable, "-m", "pytest", MODULE, "-q", "-o", "addopts="),
            *("-p", "bench.suites.pytest_outcomes"),
            *(word for plugin in plugins for word in ("-p", plugin)),
        ]
        if wanted:
            command += ["-k", " or ".join(wanted)]
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(
                command, cwd=source, env=environment, stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                print(f"ended after {limit_s:.0f} s", file=sys.stderr)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        sent = sorted(requests(cluster.requests()), key=lambda each: each.at)
    if not written.exists():
        raise SystemExit((folder / "said").read_text(errors="replace")[-2000:])
    lines = map(json.loads, written.read_text().splitlines())
    return [_named(Outcome(**line)) for line in lines], sent


def _named(outcome: Outcome) -> Outcome:
    """Leave out the folder."""
    name = outcome.test.removeprefix(f"{MODULE}/")
    return Outcome(name, outcome.outcome, outcome.began, outcome.ended, outcome.said)
