"""Access for a plain user to hosts in a network that no interface of this machine leads to.

A socket belongs to the network in which it was created, whichever process uses it. A process in the
cluster's own network creates sockets and hands them out (SCM_RIGHTS) over a Unix socket in the
cluster's state directory, which only its user may enter. The receiver then connects by itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

SOCKET = "gateway.sock"


def listen(directory: Path, name: str = SOCKET) -> socket.socket:
    """Return a socket that listens in ``directory``; its path may be longer than 107 bytes."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{name}")
    finally:
        os.close(folder)
    listener.listen(64)
    return listener


def reach(directory: Path, name: str, timeout_s: float) -> socket.socket:
    """Return a connection to the listener in ``directory``. Raises OSError."""
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
    """Give every client one new TCP socket; never returns."""
    while True:
        client, _ = listener.accept()
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with contextlib.suppress(OSError), client, made:
            socket.send_fds(client, [b"s"], [made.fileno()])


def dial(address: tuple[str, int], timeout_s: float, gateway: Path | None = None) -> socket.socket:
    """Return a TCP connection to ``address``, with a socket of ``gateway`` if given.

    It sends without delay (TCP_NODELAY). Raises OSError, TimeoutError after ``timeout_s`` seconds.
    """
    if gateway is None:
        made = socket.create_connection(address, timeout=timeout_s)
    else:
        made = _connected(address, timeout_s, gateway)
    try:
        # A request in two parts would wait for the acknowledgement of the first one, for 40 ms.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        made.close()
        raise
    return made


def _connected(address: tuple[str, int], timeout_s: float, gateway: Path) -> socket.socket:
    with reach(gateway, SOCKET, timeout_s) as client:
        _, descriptors, _, _ = socket.recv_fds(client, 1, 1)
    if not descriptors:
        raise ConnectionRefusedError("the hosts' network no longer exists")
    made = socket.socket(fileno=descriptors[0])
    try:
        made.settimeout(timeout_s)
        made.connect(address)
    except BaseException:
        made.close()
        raise
    return made
