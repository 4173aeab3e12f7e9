"""Cut the power of namespace hosts and boot them, by requests to the process that owns them.

The owner of a cluster listens on a socket in its state directory. A request is one JSON line,
``{"do": "crash" | "boot", "host": name}``; the response is evidence or ``{"error": "one line"}``.
Standard library only: the owner must start quickly.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kraftwreck.harness.clusters import disk_image, gateway

SOCKET = "machines.sock"
LONGEST_S = 30.0
"""How long a host may take to end or to boot."""

CarryOut = Callable[[str, str], dict[str, Any]]


class MachineError(Exception):
    """A host cannot be crashed or booted; one line gives the reason."""


def listen(directory: Path) -> socket.socket:
    """Return the owner's socket."""
    return gateway.listen(directory, SOCKET)


def serve(listener: socket.socket, leash: int, carry_out: CarryOut) -> None:
    """Carry out requests, one after the other, until ``leash`` is released."""
    while True:
        ready, _, _ = select.select([listener.fileno(), leash], [], [])
        if leash in ready:
            return
        client, _ = listener.accept()
        # A client that disconnects does not block others.
        with contextlib.suppress(OSError), client:
            client.settimeout(1.0)
            client.sendall(json.dumps(_answer(client, carry_out)).encode() + b"\n")


def _answer(client: socket.socket, carry_out: CarryOut) -> dict[str, Any]:
    try:
        with client.makefile("rb") as lines:
            request = json.loads(lines.readline())
        return carry_out(request["do"], request["host"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {"error": " ".join(str(error).split()) or type(error).__name__}


def ask(directory: Path, do: str, host: str) -> dict[str, Any]:
    """Let the owner crash or boot a host; return evidence. Raises MachineError."""
    try:
        with gateway.reach(directory, SOCKET, LONGEST_S) as client:
            client.sendall(json.dumps({"do": do, "host": host}).encode() + b"\n")
            with client.makefile("rb") as lines:
                answer: dict[str, Any] = json.loads(lines.readline())
    except (OSError, ValueError) as error:
        raise MachineError(f"{do} {host}: {error}") from error
    if "error" in answer:
        raise MachineError(f"{do} {host}: {answer['error']}")
    return answer


def end(pid: int, *, disk: bool) -> dict[str, Any]:
    """Kill PID 1 of a host (kill -9) and wait for its end; the kernel kills all others there.

    If the host has its own ``disk``, data that was not fsynced is lost. Raises OSError.
    """
    began = time.monotonic()
    held = disk_image.hold(pid) if disk else -1
    handle = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        if not select.select([handle], [], [], LONGEST_S)[0]:
            raise OSError(f"process {pid} does not end")
        if disk:
            disk_image.cut_power(held)
    finally:
        os.close(handle)
        if disk:
            os.close(held)
    means = "FS_IOC_SHUTDOWN" if disk else "the machine keeps all written data"
    return {"disk": means, "gone_after_us": round((time.monotonic() - began) * 1e6)}
