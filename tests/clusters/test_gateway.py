"""Sockets that another process makes: they connect, and report errors, as usual."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.gateway import dial, listen, serve
from kraftwreck.harness.clusters.hosts import format_inventory, load_inventory
from kraftwreck.harness.remote.session import Remote, UnreachableError

HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC0DDWVXMqsELBNZxZlRcXAYmYsJoydcJtnXZKLKZGxM"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory where sockets are handed out; longer than a socket's path may be."""
    directory = tmp_path_factory.mktemp("x" * 120)
    listener = listen(directory)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    yield directory


def test_a_connection_is_had_by_a_socket_of_the_gateway(gateway: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = dial(server.getsockname(), 5.0, gateway)
        accepted, address = server.accept()
        with made, accepted:
            assert address == made.getsockname()
            accepted.sendall(b"hello")
            assert made.recv(5) == b"hello"


def test_a_port_that_is_closed_is_refused(gateway: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()
    with pytest.raises(ConnectionRefusedError):
        dial(closed, 5.0, gateway)


def test_a_gateway_that_is_gone_is_a_host_that_cannot_be_reached(tmp_path: Path) -> None:
    host = Host("n1", 1, "10.77.0.1", HOST_KEY, gateway=tmp_path)
    with pytest.raises(UnreachableError, match=r"^n1: SSH to root@10\.77\.0\.1:22: "):
        Remote(host).run(["true"])


def test_an_inventory_names_the_gateway(tmp_path: Path) -> None:
    host = Host("n1", 1, "10.77.0.1", HOST_KEY, user="kraftwreck", gateway=tmp_path)
    (tmp_path / "hosts.toml").write_text(format_inventory([host]))
    assert load_inventory(tmp_path / "hosts.toml") == [host]
    assert Host.from_json(host.as_json()) == host


@pytest.mark.parametrize("through", [True, False], ids=["gateway", "at once"])
def test_small_parts_of_a_request_are_sent_without_delay(gateway: Path, through: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = dial(server.getsockname(), 5.0, gateway if through else None)
        with made:
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
