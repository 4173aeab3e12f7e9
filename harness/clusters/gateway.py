"""The way to hosts whose network no interface of this machine leads to: a plain user's.

A socket belongs to the network it was made in, whoever uses it. A process in the cluster's own
network makes sockets and hands them out (SCM_RIGHTS) by a Unix socket in the cluster's state
directory, which only its user may enter; who has got one connects by itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

SOCKET = "gateway.sock"


def listen(directory: Path, name: str = SOCKET) -> socket.socket:
    """Return a socket that listens in ``directory``; its short name fits, however long that is."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{name}")
    finally:
        os.close(folder)
    listener.listen(64)
    return listener


def reach(directory: Path, name: str, timeout_s: float) -> socket.socket:
    """Return a connection to what listens in ``directory``. Raises OSError."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        client.settimeout(timeout_s)
        client.connect(f"/proc/self/fd/{folder}/{name}")
    except BaseException:
        client.close()
        raise
    finally:
        os.close(folder)
    return client


def serve(listener: socket.socket) -> None:
    """Give everybody who comes one new TCP socket; never returns."""
    while True:
        client, _ = listener.accept()
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with contextlib.suppress(OSError), client, made:
            socket.send_fds(client, [b"s"], [made.fileno()])


def dial(address: tuple[str, int], timeout_s: float, gateway: Path | None = None) -> socket.socket:
    """Return a TCP connection to ``address``, by a socket of ``gateway`` if there is one.

    Raises OSError, TimeoutError after ``timeout_s`` seconds.
    """
    if gateway is None:
        return socket.create_connection(address, timeout=timeout_s)
    with reach(gateway, SOCKET, timeout_s) as client:
        _, descriptors, _, _ = socket.recv_fds(client, 1, 1)
    if not descriptors:
        raise ConnectionRefusedError("the hosts' network is gone")
    made = socket.socket(fileno=descriptors[0])
    try:
        made.settimeout(timeout_s)
        made.connect(address)
    except BaseException:
        made.close()
        raise
    return made
