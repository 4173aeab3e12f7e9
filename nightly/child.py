"""One subprocess with a time limit, which ends together with all processes it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_NIGHT = "KRAFTWRECK_NIGHT_PROCESS"
GRACE_S = 20.0
"""How long a run on hosts may take to heal and release its hosts after an interrupt."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: ``code`` (negative for a signal), ``late`` if it exceeded its time limit,
    ``stopped`` after a request to end, ``cpu_s`` including its children."""

    code: int
    seconds: float
    cpu_s: float
    late: bool = False
    stopped: bool = False


class Child:
    """A subprocess in its own session, so that Ctrl-C does not reach it directly."""

    def __init__(self, polite: bool, *, group: bool = False, grace_s: float = GRACE_S) -> None:
        """A ``polite`` child first gets SIGINT (with ``group`` all its processes do) and has
        ``grace_s`` seconds before it is killed."""
        self._polite = polite
        self._grace_s = grace_s
        self._group = group
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def run(
        self,
        command: Sequence[str],
        *,
        given: bytes,
        output: Path,
        limit_s: float,
        environment: Mapping[str, str] | None = None,
        began: Callable[[int], None] = lambda process: None,
    ) -> Ended:
        """Run ``command``, appending its output to a file; call ``began`` with its process id.

        Raises OSError if it cannot be started.
        """
        begun = time.monotonic()
        mine = {_NIGHT: str(os.getpid())}
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("ab") as out, self._lock:
            if self._stop.is_set():
                return Ended(-signal.SIGKILL, 0.0, 0.0, stopped=True)
            process = self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**(os.environ if environment is None else environment), **mine},
                start_new_session=True,
            )
        if self._stop.is_set():
            self.stop()  # The stop was requested while the process started.
        began(process.pid)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(given)
            process.stdin.close()
        late = not self._ends(process.pid, limit_s)
        if late:
            self._ask(process.pid)
            if not self._polite or not self._ends(process.pid, self._grace_s):
                self._kill(process.pid)
        with self._lock:
            self._process = None
        # Its own children must not outlive it; it is not reaped yet, so its pid is still valid.
        self._kill(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begun
        cpu_s = usage.ru_utime + usage.ru_stime
        return Ended(process.returncode, seconds, cpu_s, late=late, stopped=self._stop.is_set())

    def stop(self, at_once: bool = False) -> None:
        """End the run from another thread or a signal handler: politely, unless ``at_once``."""
        self._stop.set()
        process = self._process
        if process is None:
            return
        if at_once or not self._polite:
            self._kill(process.pid)
        else:
            self._ask(process.pid)

    def _ends(self, process: int, limit_s: float) -> bool:
        """Wait for the end without reaping; return whether it came in time."""
        try:
            handle = os.pidfd_open(process)
        except ProcessLookupError:
            return True
        try:
            ready, _, _ = select.select([handle], [], [], limit_s)
            return bool(ready)
        finally:
            os.close(handle)

    def _ask(self, process: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if self._group else os.kill)(process, signal.SIGINT)

    @staticmethod
    def _kill(group: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def die_with_night(number: int = signal.SIGKILL) -> None:
    """Request a signal for this process when the thread that started it ends.

    For a process started by a night: whatever kills the night must not leave runs behind. Exits at
    once if the night has ended already.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))
    if str(os.getppid()) != os.environ.get(_NIGHT, str(os.getppid())):
        sys.exit("the night has ended")
