"""A process that starts Spark at once and then handles requests.

``python -m kraftwreck.pipeline.worker MASTER small|large PARENT SPARE`` prints ``{"ready":
seconds}`` when Spark is up (and for small jobs warm). Nothing is expected to be asked for the next
``SPARE`` seconds: if they suffice, it prepares itself further. Then it prints one line for each
line on stdin: the result, or ``{"error": …}``. A request is ``{"run": folder}``, ``{"check": …}``
(:func:`pipeline.keyed.serve`) or ``{"store": folder, "forget_removed": bool}``. Of a run that is
being judged elsewhere, ``{"measure": folder}`` computes what needs no verdict, and after it
``{"judged": folder}`` the rest.
The process ends when stdin does. It ends at once when its parent, with the pid ``PARENT``, is
killed, even if that happens before this code runs.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from kraftwreck.histories.operation import Op
from kraftwreck.histories.parquet import write_history, write_table
from kraftwreck.histories.tables import HISTORY_SCHEMA, TRACE_SCHEMA, to_table
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.pipeline import class_archive
from kraftwreck.pipeline.analysis import OneRun, analyze_run, analyze_store
from kraftwreck.pipeline.java import PipelineError
from kraftwreck.pipeline.judging import recorded
from kraftwreck.pipeline.keyed import serve as check
from kraftwreck.pipeline.session import session

_PARENT_CHECK_S = 0.5
_REHEARSALS = 3
"""After so many the next analysis takes no less time."""
_SPARE = 2
"""Writing the archive of classes takes less time than starting and warming up does without it, so
that it ends early if so many times the seconds since the start are to spare."""


def main() -> None:
    """Serve requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # Other output must not come between the answers.
    if os.getpgrp() != os.getpid():
        os.setpgrp()  # All child processes, above all the JVM, are in one group.
    master, size, parent, spare = *sys.argv[1:3], int(sys.argv[3]), float(sys.argv[4])
    if os.getppid() != parent:
        return  # The thread is not needed: nothing has been started yet.
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    begun = monotonic()
    # All temporary files of this process, Spark's included, are removed with this folder.
    tempfile.tempdir = tempfile.mkdtemp(prefix="kraftwreck-worker-")
    try:
        with session(master, small=size == "small") as spark:
            if size == "small":
                warm_up(spark)
            _say(answers, {"ready": round(monotonic() - begun, 3)})
            if size == "small":
                prepare(spark, lambda: spare > _SPARE * (monotonic() - begun))
            requests = _Requests(spark)
            for line in sys.stdin.buffer:
                _say(answers, requests.serve(line))
    except PipelineError as error:
        _say(answers, {"error": str(error)})
    finally:
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)


def _end_with(parent: int) -> None:
    """End this process and its group when ``parent`` has ended.

    A JVM that is starting does not notice that by itself: it fails to write its port where Python
    expects it, and keeps running.
    """
    while os.getppid() == parent:
        sleep(_PARENT_CHECK_S)
    for path in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(path.name)
            if pid != os.getpid() and os.getpgid(pid) == os.getpgrp():
                os.kill(pid, signal.SIGKILL)
    if tempfile.tempdir is not None:
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)
    os.killpg(os.getpgrp(), signal.SIGKILL)


class _Requests:
    """Serves requests; ``_run`` is the run that was measured last."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._run: OneRun | None = None

    def serve(self, line: bytes) -> dict[str, Any]:
        """Return the result of the request in ``line``, or its error."""
        try:
            return self._serve(msgspec.json.decode(line, type=dict[str, Any]))
        except Exception as error:
            text = str(error).strip().splitlines()
            return {"error": text[0] if text else type(error).__name__}

    def _serve(self, request: dict[str, Any]) -> dict[str, Any]:
        spark = self._spark
        if "run" in request:
            return analyze_run(spark, Path(request["run"]))
        if "measure" in request:
            self._run = OneRun(spark, Path(request["measure"]))
            self._run.measure()
            return {"measured": request["measure"]}
        if "judged" in request:
            run, self._run = self._run, None
            if run is None or run.folder != Path(request["judged"]):
                raise PipelineError(f"{request['judged']} was not measured")
            return run.finish(recorded(run.folder))
        if "check" in request:
            return check(spark, request["check"])
        return analyze_store(
            lambda: spark, Path(request["store"]), forget_removed=request["forget_removed"]
        )


def _say(answers: Any, answer: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):
        answers.write(msgspec.json.encode(answer) + b"\n")


def prepare(spark: SparkSession, has_time: Callable[[], bool]) -> None:
    """Warm up further until a request comes, or stdin ends. Then write the archive of classes if
    it ``has_time``: the next worker starts faster with it."""
    for _ in range(_REHEARSALS):
        if _asked():
            return
        warm_up(spark)
    if not _asked() and has_time():
        class_archive.write(spark)


def _asked() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def warm_up(spark: SparkSession) -> None:
    """Compute all tables of a tiny run: this loads classes and starts the Python workers."""
    with tempfile.TemporaryDirectory(prefix="kraftwreck-warm-") as scratch:
        folder = Path(scratch) / "warm" / "up"
        folder.mkdir(parents=True)
        test = {"nodes": ["n1"], "checkers": ["stats", "linearizable"]}
        (folder / "test.json").write_bytes(msgspec.json.encode(test))
        ops = [
            Op(index=0, process=0, type="invoke", f="read", key=1, time=0),
            Op(index=1, process=0, type="ok", f="read", key=1, time=1),
        ]
        event = TraceEvent(
            node="n1", incarnation=1, seq=0, mono=0, wall=0, kind="start",
            state="leader", epoch=0, leader=1, voted=-1, leo=0, hw=-1,
        )  # fmt: skip
        history: pa.Table = to_table(ops, HISTORY_SCHEMA)
        (folder / "history.jsonl").write_bytes(b"")
        write_history(history, folder / "history.parquet")
        write_table(to_table([event], TRACE_SCHEMA), folder / "trace.parquet")
        analyze_run(spark, folder)


if __name__ == "__main__":
    main()
