"""Spark started at the beginning of a run and used at its end.

Starting Spark takes as long as many a test. Beside a run, until something waits for its answer, the
worker gets a small share of the processors: the nodes under test come first, then the judges. It is
a separate process, so that neither its death nor its memory affects the run.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from kraftwreck.harness.archive import IMPORT_ROOT
from kraftwreck.histories.store import RUNNING
from kraftwreck.pipeline.java import PipelineError, java_version

TIMEOUT_S = 120.0
_IN_BACKGROUND, _LIKE_OTHERS = 5, 0
"""How much nicer than this process the worker is before and after something waits for its answer.
Where Linux shares processors among sessions first (autogroups, sched(7)) the nice value of its
session counts, elsewhere those of its processes."""


class Handle:
    """A worker that is starting or ready. Use :meth:`finish` once, :meth:`close` always."""

    def __init__(self, process: subprocess.Popen[bytes], run_folder: Path) -> None:
        self._process = process
        self._run_folder = run_folder
        self._buffer = b""
        self._measuring = False

    def finish(
        self, run_folder: Path | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """Compute the tables of the complete run; return the summary.

        ``run_folder`` is the run's current folder; the default is the folder given to
        :func:`start`, or its new name after completion. Tables are written to its ``analysis``
        folder. Raises :class:`~pipeline.java.PipelineError`, one line, after at most ``timeout_s``
        seconds.
        """
        folder = run_folder or self._complete_folder()
        return self.ask({"run": str(folder.resolve())}, timeout_s=timeout_s)

    def measure(self, run_folder: Path) -> None:
        """Begin to compute the tables of a complete run that need no verdict; return at once."""
        self._send({"measure": str(run_folder.resolve())})
        self._measuring = True

    def finish_judged(self, run_folder: Path, *, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        """Wait for :meth:`measure`, then compute the other tables, with the verdict in
        ``results.json``; see :meth:`finish`."""
        deadline = monotonic() + timeout_s
        _share(self._process.pid, _LIKE_OTHERS)
        if self._measuring:
            self._measuring = False
            self._answer(deadline)
        self._send({"judged": str(run_folder.resolve())})
        return self._answer(deadline)

    def analyze(
        self, store: Path, *, forget_removed: bool = False, timeout_s: float
    ) -> dict[str, Any]:
        """Update the tables of ``store``; return the summary. See :meth:`finish`."""
        request = {"store": str(store.resolve()), "forget_removed": forget_removed}
        return self.ask(request, timeout_s=timeout_s)

    def ask(self, request: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Send a request of :mod:`pipeline.worker`; see :meth:`finish`."""
        deadline = monotonic() + timeout_s
        _share(self._process.pid, _LIKE_OTHERS)
        self._send(request)
        return self._answer(deadline)

    def _send(self, request: dict[str, Any]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # If it died, its last answer has the reason.
            stdin.write(msgspec.json.encode(request) + b"\n")
            stdin.flush()

    def _answer(self, deadline: float) -> dict[str, Any]:
        """Return the answer to the oldest request that has none yet."""
        answer = self._read(deadline)
        if "ready" in answer:
            ready = answer["ready"]
            answer = {**self._read(deadline), "spark_start_s": ready}
        if "error" in answer:
            raise PipelineError(f"analysis with Spark failed: {answer['error']}")
        return answer

    def close(self) -> None:
        """Let the worker end, without waiting for it: a thread does that."""
        self._hang_up()
        threading.Thread(target=self._reap, name="spark-end", daemon=True).start()

    def wait(self, timeout_s: float = TIMEOUT_S) -> None:
        """Close and wait; kill a worker that does not end in time, and its JVM."""
        self._hang_up()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
        self._reap()

    def _hang_up(self) -> None:
        """Close the worker's input, at whose end it ends."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def _reap(self) -> None:
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _complete_folder(self) -> Path:
        folder = self._run_folder
        if not folder.exists() and folder.suffix == RUNNING:
            return folder.with_suffix("")
        return folder

    def _read(self, deadline: float) -> dict[str, Any]:
        """Return the next line from the worker."""
        stdout = self._process.stdout
        assert stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = deadline - monotonic()
                if left <= 0 or not selector.select(left):
                    raise PipelineError("analysis with Spark failed: no answer in time")
                data = stdout.read1(65536)  # type: ignore[attr-defined]  # a BufferedReader
                if not data:
                    code = self._process.wait()
                    raise PipelineError(f"analysis with Spark failed: worker ended with {code}")
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        return answer


def start(
    run_folder: Path = IMPORT_ROOT,
    *,
    master: str = "local[2]",
    small: bool = True,
    spare_s: float = 0.0,
) -> Handle:
    """Start Spark in the background for the run in ``run_folder``, which may have just begun.

    ``small`` means a few runs only. The worker is not expected to be needed for ``spare_s``
    seconds; if there are any, it leaves the processors to others until then. Raises
    :class:`~pipeline.java.PipelineError` if there is no Java.
    """
    java_version()
    size = "small" if small else "large"
    arguments = [str(os.getpid()), str(spare_s)]
    process = subprocess.Popen(
        [sys.executable, "-m", "kraftwreck.pipeline.worker", master, size, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=IMPORT_ROOT,
        start_new_session=True,
    )
    _share(process.pid, _IN_BACKGROUND if spare_s else _LIKE_OTHERS)
    return Handle(process, run_folder.resolve())


def _share(session: int, nicer: int) -> None:
    """Let a session of processes be ``nicer`` than this process, as far as this user may."""
    with contextlib.suppress(OSError):  # A kernel without autogroups.
        Path(f"/proc/{session}/autogroup").write_text(str(nicer))
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):  # Only root may take a share back.
        os.setpriority(os.PRIO_PGRP, session, min(own + nicer, 19))
