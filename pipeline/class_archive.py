"""An application class data sharing archive (JEP 350) of the classes that Spark loads.

The start of a JVM with Spark's ten thousand classes is slow; with the archive, which lies in the
user's cache folder, it takes less than half the CPU time. A new Spark or Java needs a new archive.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from kraftwreck.harness.deploy.cache import cache_folder
from kraftwreck.pipeline.java import java_version

_LEFT_BEHIND_S = 3600
_UNUSED_S = 30 * 86_400


def archive_path() -> Path:
    """Return the path of the archive for this Java and this Spark.

    Raises :class:`~pipeline.java.PipelineError` if there is no Java.
    """
    name = hashlib.sha256(f"{java_version()}\n{pyspark.__version__}\n{pyspark.__file__}".encode())
    return cache_folder().parent / f"spark-{name.hexdigest()[:16]}.jsa"


def options() -> list[str]:
    """Return the options of a JVM that uses the archive, or can write one."""
    archive = archive_path()
    if archive.exists():
        with suppress(OSError):
            os.utime(archive)
        return [f"-XX:SharedArchiveFile={archive}"]
    if _writable(archive.parent):
        return ["-XX:+IgnoreUnrecognizedVMOptions", "-XX:+RecordDynamicDumpInfo"]
    return []


def write(spark: SparkSession) -> None:
    """Write the archive of the classes that are loaded now, unless there is one.

    Takes seconds, in which the JVM does nothing else. If it fails, a later session writes it.
    """
    archive = archive_path()
    if archive.exists() or not _writable(archive.parent):
        return
    making = archive.with_suffix(f".{os.getpid()}.tmp")
    with suppress(Exception):
        dump(spark.sparkContext._gateway, making)
    with suppress(OSError):
        making.replace(archive)
    # Those of processes that were killed while writing, and of environments that are gone.
    for suffix, old_s in (("tmp", _LEFT_BEHIND_S), ("jsa", _UNUSED_S)):
        for left in archive.parent.glob(f"spark-*.{suffix}"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > old_s:
                    left.unlink()


def dump(gateway: Any, path: Path) -> None:
    """Give the JVM behind py4j's ``gateway`` the command ``VM.cds dynamic_dump PATH``."""
    types = gateway.jvm.java.lang

    def array(of: object, *values: object) -> object:
        made = gateway.new_array(of, len(values))
        for place, value in enumerate(values):
            made[place] = value
        return made

    server = types.management.ManagementFactory.getPlatformMBeanServer()
    commands = gateway.jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    given = array(types.Object, array(types.String, "dynamic_dump", str(path)))
    signature = array(types.String, "[Ljava.lang.String;")
    # The server's own class is not public, so its method is found through the interface.
    methods = types.Class.forName("javax.management.MBeanServer").getMethods()
    [invoke] = [method for method in methods if method.getName() == "invoke"]
    invoke.invoke(server, array(types.Object, commands, "vmCds", given, signature))


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
