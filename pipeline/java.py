"""Check that there is a PySpark, and a Java for it, before Spark itself is imported."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from kraftwreck.histories.exit_codes import BadInputError


class PipelineError(BadInputError):
    """The pipeline cannot work; the message is one line: the problem and what to do."""


def java_version() -> str:
    """Return the output of ``java -version``.

    Raises :class:`PipelineError` without Java or PySpark.
    """
    if find_spec("pyspark") is None:
        raise PipelineError("Spark needs pyspark: pip install 'kraftwreck[spark]'")
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    try:
        if java is None:
            raise FileNotFoundError
        return _version(java)
    except (OSError, subprocess.CalledProcessError) as error:
        where = f"JAVA_HOME={home}" if home else "PATH"
        raise PipelineError(
            f"no working Java found ({where}): install one, for example openjdk-17-jre-headless"
        ) from error


@cache
def _version(java: str) -> str:
    """Ask ``java`` once; starting it takes a tenth of a second. Errors are not kept."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    return done.stderr
