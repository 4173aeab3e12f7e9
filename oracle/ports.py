"""TCP ports on loopback for nodes of tests and benchmarks."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from typing import Final

from kraftwreck.oracle.controller import HOST

PORTS: Final = range(10_000, 32_000)
"""Below the kernel's range for outgoing connections: none of those can take a port between its
choice and its use."""
_taken = itertools.count()


def of_worker(worker: int, workers: int) -> range:
    """Return the ports of one of ``workers`` processes that share the machine."""
    share = len(PORTS) // workers
    return PORTS[worker * share : (worker + 1) * share]


def free_ports(count: int) -> list[int]:
    """Return ports that are free now and that no later call returns.

    Each worker of pytest-xdist has a range of its own. Raises :class:`OSError` if there are none.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = of_worker(worker, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    ports: list[int] = []
    for _ in own:
        if len(ports) == count:
            return ports
        port = own[next(_taken) % len(own)]
        with contextlib.suppress(OSError), socket.create_server((HOST, port)):
            ports.append(port)
    raise OSError(f"no {count} free ports from {own.start} to {own.stop - 1}")
