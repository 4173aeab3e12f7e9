"""A process of the oracle or of ours, that ends with the thread that started it."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraftwreck.harness.clusters.kernel import die_with_parent
from kraftwreck.oracle.release import OracleError

ROOT: Final = Path(__file__).resolve().parents[1]
STOP_S: Final = 30.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Process(ABC):
    """A process with its files in ``directory``; ``name`` is its name in errors.

    It dies with the thread that started it.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.name = name
        self.config = directory / "node.properties"
        self.output = directory / "output"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def write_config(self, values: Mapping[str, object]) -> None:
        """Write the properties file."""
        self.config.write_text("".join(f"{key}={value}\n" for key, value in values.items()))

    @abstractmethod
    def command(self) -> list[str]:
        """Return the argument vector of the process."""

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id. Raises :class:`OracleError` when it does not run."""
        if self._process is None:
            raise OracleError(f"{self.name} does not run")
        return self._process.pid

    def start(self) -> None:
        """Start the process, without waiting until it is ready."""
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
            )

    def kill(self) -> None:
        """Send SIGKILL and wait for the end; harmless when it does not run."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """Send SIGTERM and return the exit status; after 30 s send SIGKILL."""
        if self._process is None:
            raise OracleError(f"{self.name} does not run")
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_S)
        finally:
            self.kill()

    def said(self) -> str:
        """Return all output of the processes so far."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def cpu_seconds(self) -> float:
        """Return user and system time of the process so far."""
        # The program's name, in brackets, may have spaces.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def resident_bytes(self) -> int:
        """Return the resident set of the process."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
