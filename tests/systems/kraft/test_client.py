"""The client of a node, which reaches it as the deployment says."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from kraftwreck.harness.clusters.gateway import listen, serve
from kraftwreck.systems.kraft.client import KafkaClient


def test_a_port_that_is_closed_is_refused_through_a_gateway_too(tmp_path: Path) -> None:
    listener = listen(tmp_path)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for gateway in (tmp_path, None):
        answer = KafkaClient("127.0.0.1", port, gateway=gateway).call("ApiVersions", 0, {}, 2000)
        assert (answer.status, answer.error) == ("refused", "connection refused")
