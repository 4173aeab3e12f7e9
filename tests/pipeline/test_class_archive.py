"""The archive of Spark's classes: written once, beside the work, and used from then on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from time import time
from types import SimpleNamespace

import pyspark
import pytest
from py4j.java_gateway import (  # type: ignore[import-untyped]
    GatewayParameters,
    JavaGateway,
    launch_gateway,
)

from kraftwreck.pipeline import class_archive, worker

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kraftwreck"


@pytest.mark.spark
@pytest.mark.usefixtures("starting_spark")  # The session of other tests starts meanwhile.
def test_a_jvm_that_runs_writes_an_archive_that_another_uses(cache: Path, tmp_path: Path) -> None:
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port = launch_gateway(
        jarpath=str(jar), classpath=str(jar), javaopts=class_archive.options(), die_on_exit=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    archive = class_archive.archive_path()
    class_archive.dump(gateway, archive)
    assert gateway.jvm.java.lang.Math.abs(-1) == 1, "it goes on"
    gateway.shutdown()
    used = ["-Xshare:on", "-Xlog:class+load", *class_archive.options(), "-cp", str(jar)]
    ended = subprocess.run(
        ["java", *used, "py4j.GatewayServer", "--no-port"], capture_output=True, text=True
    )
    assert "py4j.GatewayServer source: shared objects file (top)" in ended.stdout


def test_a_jvm_without_an_archive_can_write_one_unless_the_cache_is_not_writable(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "-XX:+RecordDynamicDumpInfo" in class_archive.options()
    monkeypatch.setattr(class_archive, "_writable", lambda folder: False)
    assert class_archive.options() == []


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("has_time", [False, True])
def test_a_worker_that_may_be_needed_soon_does_not_write_it(
    monkeypatch: pytest.MonkeyPatch, asked: bool, has_time: bool
) -> None:
    wrote: list[object] = []
    monkeypatch.setattr(worker, "_asked", lambda: asked)
    monkeypatch.setattr(worker, "warm_up", lambda spark: None)
    monkeypatch.setattr(class_archive, "write", wrote.append)
    worker.prepare(None, lambda: has_time)  # type: ignore[arg-type]  # Spark is not used
    assert len(wrote) == (has_time and not asked)


def test_archives_that_nothing_used_for_a_month_are_removed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dump(gateway: object, path: Path) -> None:
        path.write_bytes(b"classes")

    monkeypatch.setattr(class_archive, "dump", dump)
    cache.mkdir()
    old, recent, torn = (cache / f"spark-{name}" for name in ("1.jsa", "2.jsa", "3.4.tmp"))
    for path, days in ((old, 31), (recent, 29), (torn, 1)):
        path.touch()
        os.utime(path, (time() - days * 86_400,) * 2)
    class_archive.write(SimpleNamespace(sparkContext=SimpleNamespace(_gateway=None)))  # type: ignore[arg-type]
    assert set(cache.iterdir()) == {recent, class_archive.archive_path()}
    os.utime(class_archive.archive_path(), (0, 0))
    class_archive.options()
    assert time() - class_archive.archive_path().stat().st_mtime < 86_400, "in use"
