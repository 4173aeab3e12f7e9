"""One subprocess with a time limit: it ends in time, politely or not, with all it started."""

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
"""How long a run on hosts is left to heal and give its hosts back after it was asked to end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: ``code`` negative for a signal; ``late`` when its time was over,
    ``stopped`` when somebody asked for its end. ``cpu_s`` is its own and its children's."""

    code: int
    seconds: float
    cpu_s: float
    late: bool = False
    stopped: bool = False


class Child:
    """A subprocess in a session of its own, so that Ctrl-C reaches only whom we tell."""

    def __init__(self, polite: bool, *, group: bool = False, grace_s: float = GRACE_S) -> None:
        """A ``polite`` one is asked (SIGINT; with ``group`` all its processes are) and left
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
        """Run ``command``, its output appended to a file; ``began`` is told the process.

        Raises OSError when it cannot be started.
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
            self.stop()  # It was asked for while the process was being made.
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
        # What it started must not outlive it; not reaped yet, so its number is still its own.
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
        """Wait for the end without reaping; whether it came in time."""
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
    """Let the kernel send this process a signal when the thread that started it ends.

    For a process that a night has started: what kills the night must not leave runs behind. Ends
    the process at once if that has happened already.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))
    if str(os.getppid()) != os.environ.get(_NIGHT, str(os.getppid())):
        sys.exit("the night has ended")
