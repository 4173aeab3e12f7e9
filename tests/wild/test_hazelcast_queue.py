"""The client of Hazelcast's queue, against a member in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import hazelcast_queue
import pytest
from hazelcast_queue import Client

from kraftwreck.api import Place
from kraftwreck.histories.operation import Op


class Member(BaseHTTPRequestHandler):
    """One member: its items, those that a merge brings later, and the answers it gives."""

    protocol_version = "HTTP/1.1"
    items: ClassVar[list[bytes]] = []
    merged: ClassVar[list[bytes]] = []
    sizes: ClassVar[list[int]] = []
    status: ClassVar[int] = 200

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        size = self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]
        self._answer(200, json.dumps({"clusterSize": size, "clusterSafe": True}).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.status == 200:
            self.items.append(body)
        self._answer(self.status)

    def do_DELETE(self) -> None:
        if self.items:
            self._answer(200, self.items.pop(0))
            return
        if self.merged:
            self.items.append(self.merged.pop(0))
        self._answer(204)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Return a client of a member that is alone until it has been asked twice."""
    member = type("Fresh", (Member,), {"items": [], "merged": [], "sizes": [1, 2, 3]})
    server = ThreadingHTTPServer(("127.0.0.1", 0), member)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(hazelcast_queue, "PORT", server.server_address[1])
    monkeypatch.setattr(hazelcast_queue, "QUIET_S", 0.3)
    made = Client(Place("n1", 1, "127.0.0.1", "node"), 3)
    made.member = member  # type: ignore[attr-defined]
    yield made
    made.close()
    server.shutdown()
    server.server_close()
    thread.join()


def op(f: str, value: object = None) -> Op:
    return Op(index=0, process=3, type="invoke", f=f, key="queue", value=value, time=0)


def test_items_leave_the_queue_in_order(client: Client) -> None:
    for value in (4, 5):
        assert client.invoke(op("enqueue", value)).type == "ok"
    assert client.invoke(op("dequeue")).value == 4
    assert client.invoke(op("dequeue")).value == 5
    assert client.invoke(op("dequeue")).type == "fail"


def test_a_drain_waits_for_all_members_and_for_merged_items(client: Client) -> None:
    client.invoke(op("enqueue", 1))
    client.member.merged.append(b"2")  # type: ignore[attr-defined]
    completion = client.invoke(op("drain"))
    assert (completion.type, completion.value) == ("ok", [1, 2])
    assert client.member.sizes == [3]  # type: ignore[attr-defined]


def test_a_drain_of_half_the_members_proves_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hazelcast_queue, "MERGE_S", 0.1)
    client.member.sizes[:] = [2]  # type: ignore[attr-defined]
    client.invoke(op("enqueue", 1))
    assert client.invoke(op("drain")).type == "info"


def test_a_refused_item_has_an_unknown_outcome(client: Client) -> None:
    client.member.status = 500  # type: ignore[attr-defined]
    assert client.invoke(op("enqueue", 1)).type == "info"
