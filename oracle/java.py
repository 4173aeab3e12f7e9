"""Running Java: its program and flags, and a main class to its end."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraftwreck.oracle.release import OracleError, class_path

LEAST_JAVA: Final = 17
LOGGING: Final = Path(__file__).with_name("log4j2.properties")
TOOL_FLAGS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A tool runs for two seconds: no optimizing compiler, no helper threads of a collector."""
TOOL_TIMEOUT_S: Final = 120.0


@functools.cache
def find_java() -> str:
    """Return the java program. Raises :class:`OracleError` if none is new enough."""
    install = "apt-get install openjdk-17-jdk-headless, then make oracle again"
    java = shutil.which("java")
    if java is None:
        raise OracleError(f"java is missing: {install}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    match = re.search(r'version "(\d+)', said)
    if match is None or int(match[1]) < LEAST_JAVA:
        raise OracleError(f"{java} is not Java {LEAST_JAVA} or newer: {install}")
    return java


def java_command(
    main_class: str, arguments: Sequence[str] = (), flags: Sequence[str] = TOOL_FLAGS, *, level: str
) -> list[str]:
    """Return the argument vector that runs ``main_class`` of the fetched jars.

    ``level`` is the least level logged to standard error, as ``"WARN"``.
    """
    return [
        find_java(),
        *flags,
        f"-Dlog4j2.configurationFile={LOGGING}",
        f"-Doracle.log.level={level}",
        *("-cp", class_path()),
        main_class,
        *arguments,
    ]


@dataclass(frozen=True, slots=True)
class Ran:
    """The exit status and the output of a tool."""

    status: int
    stdout: str
    stderr: str


def run_tool(
    main_class: str, *arguments: str, timeout_s: float = TOOL_TIMEOUT_S, stdin: str = ""
) -> Ran:
    """Run a tool of Apache Kafka to its end. Raises subprocess.TimeoutExpired."""
    done = subprocess.run(
        java_command(main_class, arguments, level="ERROR"),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        input=stdin,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
