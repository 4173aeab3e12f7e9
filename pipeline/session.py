"""A Spark session tuned for start-up time and quiet logging.

Local sessions over few runs use an archive of Spark's classes (:mod:`pipeline.class_archive`). They
disable the optimizing JIT and code generation, which cost more time there than they save.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kraftwreck.harness.archive import IMPORT_ROOT, PACKAGE
from kraftwreck.pipeline import class_archive
from kraftwreck.pipeline.java import PipelineError, java_version
from kraftwreck.pipeline.scratch import scratch

SHIPPED = ("histories", "nodes", "checkers", "harness", "nemesis", "pipeline")
"""Packages that executors on other machines need."""

ATTEMPTS = 3
"""How often a task is tried on a local master; other masters have the same default."""
_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
"""


@contextmanager
def session(master: str = "local[2]", *, small: bool = True) -> Iterator[SparkSession]:
    """Yield the process's Spark session; stop it, with its JVM, at the end.

    ``small`` is for few runs on this machine. Raises :class:`PipelineError`.
    """
    java_version()
    local = master.startswith("local")
    options = ["-Xlog:disable"]
    if local and small:
        options += ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *class_archive.options()]
    with scratch("spark") as place:
        options.append(f"-Dlog4j2.configurationFile={_log_settings(place)}")
        # Files that Java creates are removed with the rest, even if its JVM is killed.
        options.append(f"-Djava.io.tmpdir={place}")
        _environment(local)
        try:
            spark = _build(master, place, " ".join(options), local and small)
        except Exception as error:
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise PipelineError(f"Spark did not start on {master}: {first}") from error
        if not local:
            spark.sparkContext.addPyFile(str(_zip(place)))
        try:
            yield spark
            if local and small:
                class_archive.write(spark)
        finally:
            _stop(spark)


def _build(master: str, scratch: Path, options: str, small: bool) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g" if small else "2g",
        "spark.driver.extraJavaOptions": options,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.rest.enabled": "false",
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith("local") and not small:
        # Not 200: every partition of a table becomes a file.
        settings["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    if small:
        settings |= {
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        }
    if re.fullmatch(r"local(\[[^],]+\])?", master):
        # By default a local master gives up when the first worker is killed.
        cores = master[6:-1] or "1"
        master = f"local[{cores},{ATTEMPTS}]"
    builder = SparkSession.builder.master(master).appName("kraftwreck")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _environment(local: bool) -> None:
    """Set the environment that the JVM and its Python workers inherit."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if local:  # Executors elsewhere must be able to reach the driver.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(IMPORT_ROOT) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(IMPORT_ROOT), *filter(None, paths)])


def _log_settings(scratch: Path) -> Path:
    """Write the log settings. (SPARK_CONF_DIR would add a folder to the class path, which a class
    archive does not allow.)"""
    path = scratch / "log4j2.properties"
    path.write_text(_LOG_SETTINGS)
    return path


def _zip(scratch: Path) -> Path:
    path = scratch / "kraftwreck.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("kraftwreck/__init__.py", "")
        for package in SHIPPED:
            for file in sorted((PACKAGE / package).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    archive.write(file, file.relative_to(IMPORT_ROOT))
    return path


def _stop(spark: SparkSession) -> None:
    """Stop Spark and its JVM, and wait until the JVM has ended."""
    context = spark.sparkContext
    gateway: Any = context._gateway
    spark.stop()
    process = getattr(gateway, "proc", None)
    with suppress(Exception):
        gateway.shutdown()
    if process is not None:
        # The launcher ends the JVM when this pipe closes.
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    # Otherwise a later session of this process would use the JVM that has ended.
    type(context)._gateway = None
    type(context)._jvm = None
