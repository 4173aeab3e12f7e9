"""Run a function in a child process, so that its death affects nothing else.

A checker of a large run may be killed for its memory use, or crash in compiled code. In Spark's own
Python worker that would fail the task, and after a few attempts the whole analysis.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from kraftwreck.histories.tables import HistoryError

Tell = Callable[[str], None]

_PR_SET_PDEATHSIG = 1
_LENGTH = 8


class Died(Exception):  # noqa: N818 - not an error: the caller handles it
    """The child ended without an answer; ``at`` is its last message, "" if there is none."""

    def __init__(self, how: str, at: str) -> None:
        super().__init__(how)
        self.at = at


def apart(do: Callable[[Tell], Any]) -> Any:
    """Return the result of ``do`` in a child process, as plain values; tuples become lists.

    ``do`` is called with a function that reports its progress. If memory runs out, the kernel kills
    the child first; it also ends with this process. Raises :class:`Died`. A
    :class:`~histories.tables.HistoryError` of ``do`` is raised again, any other exception as a
    RuntimeError with the same text.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        # No code of the parent may run here after an error.
        try:
            os.close(reading)
            _die_with(parent)
            with os.fdopen(writing, "wb") as pipe:
                _answer(do, pipe)
        finally:
            os._exit(0)
    os.close(writing)
    at, answer = "", None
    try:
        with os.fdopen(reading, "rb") as pipe:
            while (message := _read(pipe)) is not None:
                if "at" in message:
                    at = message["at"]
                else:
                    answer = message
    finally:
        if answer is None:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if answer is None:
        raise Died(_how(os.waitstatus_to_exitcode(status)), at)
    if "error" in answer:
        raise (HistoryError if answer["history"] else RuntimeError)(answer["error"])
    return answer["found"]


def _answer(do: Callable[[Tell], Any], pipe: Any) -> None:
    def send(message: dict[str, Any]) -> None:
        data = msgspec.msgpack.encode(message)
        pipe.write(len(data).to_bytes(_LENGTH, "little"))
        pipe.write(data)
        pipe.flush()

    try:
        answer = {"found": do(lambda where: send({"at": where}))}
    except Exception as error:
        text = str(error) or type(error).__name__
        answer = {"error": text, "history": isinstance(error, HistoryError)}
    send(answer)


def _read(pipe: Any) -> dict[str, Any] | None:
    head = pipe.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    size = int.from_bytes(head, "little")
    data = pipe.read(size)
    if len(data) < size:
        return None
    message: dict[str, Any] = msgspec.msgpack.decode(data)
    return message


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(0)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("900")


def _how(code: int) -> str:
    if code == -signal.SIGKILL:
        return "killed (SIGKILL: out of memory?)"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"
