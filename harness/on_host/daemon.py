"""On a host: helper processes that outlive the agent, and how to talk to them and end them.

Standard library only, for any Python >= 3.9; it is sent to the host with the agent.

Such a process listens on a Unix socket at a known path. The kernel reports through that socket
whether it lives and its pid (SO_PEERCRED), so no pid file can be outdated. A request is one line of
JSON, and so is its response.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import struct
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

Answer = dict[str, Any]

START_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 10.0
_PR_SET_NAME = 15
_LINE = 1 << 16


class DaemonError(Exception):
    """A process could not be started, or rejected its request; the text is for the user."""


def connect(path: str) -> socket.socket | None:
    """Return a connection to the process listening on ``path``, None if there is none."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(ANSWER_TIMEOUT_S)
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        try:
            client.connect(path)
            return client
        except BlockingIOError:
            # Its queue is full; it is busy.
            if time.monotonic() > deadline:
                client.close()
                raise
            time.sleep(0.005)
        except (FileNotFoundError, ConnectionRefusedError):
            client.close()
            return None


def pid_of(path: str) -> int | None:
    """Return the pid of the process listening on ``path``, None if there is none."""
    client = connect(path)
    if client is None:
        return None
    with client:
        told = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", told)[0])


def ask(path: str, request: Answer) -> Answer | None:
    """Return the response to ``request``, None if no process listens or it ends meanwhile.

    Raises :class:`DaemonError` if the request is rejected.
    """
    client = connect(path)
    if client is None:
        return None
    with client, contextlib.suppress(ConnectionError):
        client.sendall(json.dumps(request).encode() + b"\n")
        line = read_line(client)
        if not line:
            return None
        answer: Answer = json.loads(line)
        if "error" in answer:
            raise DaemonError(answer["error"])
        return answer
    return None


def read_line(client: socket.socket) -> bytes:
    """Return all bytes until the end of a line or of the connection."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = client.recv(_LINE)
        if not chunk:
            break
        line += chunk
    return line


def serve(client: socket.socket, handle: Callable[[Answer], Answer]) -> None:
    """Answer the single request of an accepted connection; never raise OSError."""
    with client, contextlib.suppress(OSError):
        client.settimeout(ANSWER_TIMEOUT_S)
        line = read_line(client)
        if not line:
            return  # A check whether this process lives.
        try:
            answer = handle(json.loads(line))
        except (DaemonError, OSError, ValueError, KeyError) as error:
            answer = {"error": f"{error}" or type(error).__name__}
        client.sendall(json.dumps(answer).encode() + b"\n")


def spawn(path: str, name: str, make: Callable[[], Callable[[socket.socket], None]]) -> int:
    """Start a process that listens on ``path``; return its pid once it is ready.

    ``make`` runs in it and prepares; the function it returns then runs with the listening socket.
    Exceptions of ``make`` are raised here as :class:`DaemonError`, and the process ends.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork():
                os._exit(0)
            _become(name, keep=write)
            Path(path).unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(path)
            Path(path).chmod(0o600)
            run = make()
            listener.listen(16)
            os.write(write, b"%d\n" % os.getpid())
            os.close(write)
            run(listener)
        except BaseException as error:
            said = f"{error}" or type(error).__name__
            with contextlib.suppress(OSError):
                os.write(write, f"!{said}\n".encode())
            with contextlib.suppress(OSError):
                Path(f"{path}.log").write_text(traceback.format_exc())
        finally:
            os._exit(1)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as told:
        line = told.readline().decode().strip()
    if not line or line.startswith("!"):
        Path(path).unlink(missing_ok=True)
        raise DaemonError(line[1:] or f"{name} ended immediately")
    return int(line)


def _become(name: str, keep: int) -> None:
    """Close the files of the agent, and appear in ps as ``name``."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    for entry in list(Path("/proc/self/fd").iterdir()):
        descriptor = int(entry.name)
        if descriptor > 2 and descriptor != keep:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    os.chdir("/")
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def end(path: str) -> Answer:
    """End the process that listens on ``path`` and remove its socket; return its last response.

    It gets an ``{"do": "end"}`` request first, and is killed if it does not respond. On return it
    has ended, otherwise :class:`DaemonError` is raised. Without a process the response is empty.
    """
    last: Answer = {}
    pid = pid_of(path)
    handle = _handle(pid) if pid is not None else None
    if handle is not None:
        try:
            if pid_of(path) == pid:  # The handle always refers to this process.
                with contextlib.suppress(DaemonError, OSError, ValueError):
                    last = ask(path, {"do": "end"}) or {}
                if not _gone(handle, 1.0):
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                    if not _gone(handle, 5.0):
                        raise DaemonError(f"process {pid} still exists 5 s after SIGKILL")
        finally:
            os.close(handle)
    for left in (path, f"{path}.log"):
        Path(left).unlink(missing_ok=True)
    return last


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _gone(handle: int, timeout_s: float) -> bool:
    """Wait until the process has ended and so released everything."""
    return bool(select.select([handle], [], [], timeout_s)[0])
