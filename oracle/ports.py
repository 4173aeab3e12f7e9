"""TCP ports on loopback for controllers of tests and benchmarks."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from typing import Final

from kraftwreck.oracle.controller import HOST

FIRST_PORT: Final = 30_000
PORTS_PER_WORKER: Final = 600
WORKERS: Final = 4
_taken = itertools.count()


def free_ports(count: int) -> list[int]:
    """Return ports that are free now and that no later call returns.

    They are below the kernel's range for outgoing connections, so that none of those can take one
    between its choice and its use; each worker of pytest-xdist has a range of its own.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports: list[int] = []
    for _ in range(PORTS_PER_WORKER):
        if len(ports) == count:
            return ports
        port = FIRST_PORT + worker % WORKERS * PORTS_PER_WORKER + next(_taken) % PORTS_PER_WORKER
        with contextlib.suppress(OSError), socket.create_server((HOST, port)):
            ports.append(port)
    raise OSError(f"no {count} free ports from {FIRST_PORT} on")
