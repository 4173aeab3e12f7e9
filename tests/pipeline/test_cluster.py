"""A real standalone cluster on loopback: master, two workers, executors of their own."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import msgspec
import pyspark
import pytest

from bench.checkers.random_histories import registers
from kraftwreck.checkers.catalogue import Settings, find
from kraftwreck.histories.source import HistoryFile
from kraftwreck.pipeline.background import Handle, start
from kraftwreck.pipeline.gold import read
from kraftwreck.pipeline.schemas import GOLD, PER_RUN
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.xdist_group("spark")]
CLASSES = "org.apache.spark.deploy"
PATIENCE_S = 1800
SETTINGS = {
    # The defaults are for large stores: 200 partitions of each of these tables would be empty.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings that users of a cluster may choose; spark-submit takes them, too."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Standalone:
    """Daemons started from the jars of the pip package; none knows the project's folder."""

    def __init__(self, scratch: Path) -> None:
        home = Path(pyspark.__file__).parent
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_HOME")}
        self._environment = {
            **kept,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
            "-Dspark.master.rest.enabled=false",
            "SPARK_WORKER_DIR": str(scratch / "work"),
        }
        self._class = str(home / "bin" / "spark-class")
        self._scratch = scratch
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.url = f"spark://127.0.0.1:{free_port()}"
        self._page = free_port()

    def up(self) -> None:
        """Start all and wait until both workers are known to the master."""
        port = self.url.rpartition(":")[2]
        self._daemon("master.Master", "--port", port, "--webui-port", str(self._page))
        for _ in range(2):
            self._daemon(
                "worker.Worker", "--cores", "1", "--memory", "1500m", "--webui-port", "0", self.url
            )

        def complete() -> bool:
            assert all(daemon.poll() is None for daemon in self._daemons)
            return self.workers() == 2

        wait_until(complete, f"two workers are there; see {self._scratch}")

    def _daemon(self, name: str, *arguments: str) -> None:
        log = (self._scratch / f"{name}-{len(self._daemons)}.log").open("wb")
        command = [self._class, f"{CLASSES}.{name}", "--host", "127.0.0.1", *arguments]
        self._daemons.append(
            subprocess.Popen(
                command,
                env=self._environment,
                cwd=self._scratch,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        )
        log.close()

    def workers(self) -> int:
        """Return how many workers the master knows to serve."""
        try:
            with urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as answer:  # loopback
                told = msgspec.json.decode(answer.read())
        except (URLError, OSError, msgspec.DecodeError):
            return 0
        return sum(worker["state"] == "ALIVE" for worker in told["workers"])

    def down(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    standalone = Standalone(tmp_path_factory.mktemp("standalone"))
    try:
        standalone.up()
        yield standalone
    finally:
        standalone.down()


@pytest.fixture(scope="module")
def driver(cluster: Standalone) -> Iterator[Handle]:
    """A driver outside the cluster."""
    words = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patched.setenv("PYSPARK_SUBMIT_ARGS", shlex.join([*words, "pyspark-shell"]))
        handle = start(master=cluster.url, small=False)
    yield handle
    handle.wait()


def test_both_workers_serve(cluster: Standalone) -> None:
    assert cluster.workers() == 2


def test_a_history_is_judged_by_executors_of_a_cluster(driver: Handle, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(op) + b"\n" for op in registers(5, 7)))
    job = {"history": "h", "file": str(path), "model": "cas-register"}
    checked = driver.ask({"check": [job]}, timeout_s=PATIENCE_S)
    local = find("cas-register").judge(HistoryFile(path), Settings()).result
    assert checked["results"]["h"]["valid"] == local.valid


def test_a_store_is_analyzed_by_executors_of_a_cluster(
    driver: Handle, analyzed: Any, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    names = ["/".join(analyzed.runs[run].parts[-2:]) for run in ("register", "bad")]
    for name in names:
        shutil.copytree(analyzed.store / name, store / name)
    summary = driver.analyze(store, timeout_s=PATIENCE_S)
    assert (summary["runs"], summary["valid"]) == (2, False)
    for table in PER_RUN:
        here = [row for row in read(analyzed.store, table).to_pylist() if row["run"] in names]
        there = read(store, table).to_pylist()
        assert sorted(map(str, there)) == sorted(map(str, here)), table
    assert set(GOLD) <= set(summary["tables"])
