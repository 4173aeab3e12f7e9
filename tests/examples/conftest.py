"""Ports for the example's processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from itertools import count

import pytest

_taken = count()


def _free(number: int) -> list[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 4
    ports: list[int] = []
    while len(ports) < number:
        port = 6000 + worker * 500 + next(_taken) % 500
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        ports.append(port)
    return ports


@pytest.fixture
def free_ports() -> Callable[[int], list[int]]:
    """Make a list of ports below the range the kernel takes for outgoing connections."""
    return _free
