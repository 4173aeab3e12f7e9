"""The server over a store: the pages it serves, and all that it must not serve."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftwreck.reports.run_report import write_report
from kraftwreck.reports.store.index import StoreIndex, stamp
from kraftwreck.reports.web import CONNECTIONS, StoreServer, content_type, open_below, resolve
from tests.reports.fake_run import HOSTILE
from tests.reports.made_store import FIRST_DAY, make_night, write_json

SECRET = "not for the web"
RUN = "kraft-register/20261121T020000.000Z-7"


@pytest.fixture(scope="module")
def store(invalid_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three runs and many traps, beside a secret file; tests may add to it."""
    tmp_path = tmp_path_factory.mktemp("served")
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "secret").mkdir()
    write_json(tmp_path / "secret" / "test.json", {"name": SECRET})
    store = tmp_path / "store"
    group = store / "kraft-register"
    first = store / RUN
    shutil.copytree(invalid_run, first)
    write_report(first)
    (first / "escape.txt").symlink_to("../../../secret.txt")
    (first / "hard.txt").hardlink_to(tmp_path / "secret.txt")
    (first / ".hidden").write_text(SECRET)
    (first / "nodes" / "page.html").write_text("<script>alert(1)</script>")
    os.mkfifo(first / "pipe.log")
    (first / "odd <i> name").mkdir()
    (first / "odd <i> name" / "x.bin").write_bytes(b"\0")
    broken = group / "20261121T030000.000Z-8"
    broken.mkdir()
    (broken / "test.json").write_text("{torn")
    (store / "latest").symlink_to(RUN)
    (group / "latest").symlink_to("20261121T020000.000Z-7")
    (store / "away").symlink_to("../secret")
    (store / "private.txt").write_text(SECRET)
    (store / "notes").mkdir()
    (store / "notes" / "diary.txt").write_text(SECRET)
    (store / "nights").mkdir()
    (store / "nights" / "away").symlink_to("../../secret")
    return store


@pytest.fixture(scope="module")
def server(store: Path) -> Iterator[StoreServer]:
    """The server, on a free loopback port."""
    with StoreServer(store, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(
    server: StoreServer, target: str, method: str = "GET", host: str | None = None
) -> tuple[int, dict[str, str], str]:
    """Send ``target`` exactly as it is (a client library would tidy it)."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    connection.putrequest(method, target, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_address[1]}")
    connection.endheaders()
    response = connection.getresponse()
    body = response.read().decode(errors="replace")
    connection.close()
    return response.status, {k.lower(): v for k, v in response.getheaders()}, body


def ask_raw(server: StoreServer, data: bytes) -> bytes:
    """Send ``data`` and return all that comes back until the connection is closed."""
    address = ("127.0.0.1", int(server.server_address[1]))
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_the_first_page_lists_the_runs(server: StoreServer) -> None:
    status, headers, body = ask(server, "/")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert "20261121T020000.000Z-7" in body
    assert HOSTILE not in body
    assert SECRET not in body, "a run behind a link out of the store is none of its runs"


@pytest.mark.parametrize(
    "target", ["/", f"/{RUN}/", f"/{RUN}/test.json", "/nothing", f"/compare?a={RUN}&b={RUN}"]
)
def test_every_answer_is_guarded(server: StoreServer, target: str) -> None:
    _, headers, _ = ask(server, target)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    if "html" in headers["content-type"]:
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


def test_a_report_is_served_also_through_latest(server: StoreServer) -> None:
    status, headers, body = ask(server, "/latest/report.html")
    assert status == 200
    assert "<h1>INVALID</h1>" in body
    assert HOSTILE not in body
    assert "connect-src data: blob:" in headers["content-security-policy"]
    assert headers["content-security-policy"].startswith("sandbox allow-scripts;")


def test_any_other_markup_of_a_run_is_put_in_a_sandbox(server: StoreServer) -> None:
    _, headers, _ = ask(server, f"/{RUN}/nodes/page.html")
    assert headers["content-security-policy"].startswith("sandbox;")


@pytest.mark.parametrize(
    "target",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/%2E%2E%2Fsecret.txt",
        "/kraft-register/../../secret.txt",
        "/kraft-register/%2e%2e/%2e%2e/secret.txt",
        "/..%5csecret.txt",
        "/%252e%252e/secret.txt",
        "//secret.txt/../../secret.txt",
        "/.%00./secret.txt",
        f"/{RUN}/escape.txt",
        f"/{RUN}/hard.txt",
        f"/{RUN}/.hidden",
        f"/{RUN}/pipe.log",
        "/latest/../../secret.txt",
        "/away/test.json",
        "/away/",
        "/nights/away/",
        "/nights/away/test.json",
        "/nights/../../secret.txt",
        "/nothing",
        "/" + "a" * 5000,
        "/" + "a" * 20000,
        "/[::1",
        "/%ff%fe",
    ],
)
def test_nothing_outside_the_store_is_served(server: StoreServer, target: str) -> None:
    status, _, body = ask(server, target)
    assert status == 404
    assert SECRET not in body


@pytest.mark.parametrize(
    "target",
    ["/private.txt", "/notes/", "/notes/diary.txt", "/kraft-register/", "/nights/", "/analysis/"],
)
def test_of_the_store_only_runs_nights_and_tables_are_served(
    server: StoreServer, target: str
) -> None:
    status, _, body = ask(server, target)
    assert status == 404
    assert SECRET not in body


def test_an_absolute_path_stays_below_the_store(store: Path, server: StoreServer) -> None:
    assert resolve(store, "//etc/passwd") is None
    assert resolve(store, "/" + str(store.parent / "secret.txt")) is None
    assert ask(server, "http://127.0.0.1/etc/passwd")[0] == 404


def test_a_link_put_in_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    secret, run = root / "secret", root / "store" / "test" / "run"
    for folder in (secret, run):
        folder.mkdir(parents=True)
        (folder / "test.json").write_text(SECRET)
    opened = open_below(root / "store", run / "test.json")
    assert opened is not None
    opened.close()
    (run / "test.json").unlink()
    (run / "test.json").symlink_to(secret / "test.json")
    assert open_below(root / "store", run / "test.json") is None
    shutil.rmtree(run)
    run.symlink_to(secret)
    assert open_below(root / "store", run / "test.json") is None


def test_a_run_whose_files_are_hard_links_to_others_shows_nothing_of_them(tmp_path: Path) -> None:
    secret, run = tmp_path / "secret.json", tmp_path / "store" / "kraft-x" / "run"
    write_json(secret, {"name": SECRET, "seed": SECRET})
    run.mkdir(parents=True)
    (run / "test.json").hardlink_to(secret)
    assert stamp(str(run / "test.json")) is None
    assert not [each for each in StoreIndex(tmp_path / "store").runs() if SECRET in repr(each)]


def slow_connections(server: StoreServer, count: int, sent: bytes) -> list[socket.socket]:
    """Connect ``count`` clients that send ``sent`` and then neither send nor read anything."""
    address = ("127.0.0.1", int(server.server_address[1]))
    found = []
    for _ in range(count):
        connection = socket.create_connection(address, timeout=30)
        connection.sendall(sent)
        found.append(connection)
    return found


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost: loc", b"GET /%s/huge.bin HTTP/1.1\r\nHost: [::1]\r\n\r\n"],
    ids=["silent", "half a request", "an answer that is not read"],
)
def test_slow_connections_keep_no_visitor_out(
    store: Path, server: StoreServer, sent: bytes
) -> None:
    with (store / RUN / "huge.bin").open("wb") as file:
        file.truncate(64 << 20)
    before = server.seats.evicted
    slow = slow_connections(server, 200, sent.replace(b"%s", RUN.encode()))
    try:
        for _ in range(3):
            assert ask(server, "/latest/test.json")[0] == 200
        assert server.seats.evicted - before >= 200 - CONNECTIONS, "only the slow ones paid"
        assert len(server.seats.open) <= CONNECTIONS
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_it_only_reads(server: StoreServer, method: str) -> None:
    status, headers, body = ask(server, "/<b>", method)
    assert status == 405
    assert headers["allow"] == "GET, HEAD"
    assert "<b>" not in body


def test_head_has_the_headers_only(server: StoreServer) -> None:
    for target in ("/latest/test.json", "/", f"/{RUN}/"):
        status, headers, body = ask(server, target, "HEAD")
        assert status == 200
        assert int(headers["content-length"]) > 10
        assert body == ""


def test_a_body_is_never_taken_for_the_next_request(server: StoreServer) -> None:
    inner = b"GET /latest/test.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(inner)
    assert ask_raw(server, head + inner).count(b"HTTP/1.1 ") == 1


def test_browsers_that_ask_for_an_icon_get_none(server: StoreServer) -> None:
    assert ask(server, "/favicon.ico")[0] == 204


def test_malformed_requests_are_refused_without_an_echo(server: StoreServer) -> None:
    answer = ask_raw(server, b"<script>alert(1)</script> / HTTP/9.9\r\n\r\n")
    assert b" 505 " in answer or b" 400 " in answer
    assert b"<script>" not in answer


def test_a_name_that_points_here_from_elsewhere_is_refused(server: StoreServer) -> None:
    assert ask(server, "/", host="evil.example")[0] == 403
    assert ask(server, "/", host="localhost:80")[0] == 200
    assert ask(server, "/", host="[::1]:80")[0] == 200


def test_folders_of_runs_are_listed_with_their_names_escaped(server: StoreServer) -> None:
    status, _, body = ask(server, f"/{RUN}/odd%20%3Ci%3E%20name/")
    assert status == 200
    assert "odd &lt;i&gt; name" in body
    assert "<i>" not in body
    listing = ask(server, f"/{RUN}/")[2]
    assert "history.jsonl" in listing
    assert "escape.txt" not in listing
    assert "hard.txt" not in listing
    assert ".hidden" not in listing


def test_a_folder_without_its_slash_redirects_inside_the_store_only(server: StoreServer) -> None:
    status, headers, _ = ask(server, f"//{RUN}")
    assert status == 301
    assert headers["location"] == f"/{RUN}/"


def test_a_night_has_a_page_and_its_files(server: StoreServer, store: Path) -> None:
    name = make_night(store, 3, 1, FIRST_DAY, runs=60)
    status, _, body = ask(server, f"/nights/{name}/")
    assert status == 200
    assert "1 thing broke" in body
    assert ask(server, f"/nights/{name}")[1]["location"] == f"/nights/{name}/"
    assert ask(server, f"/nights/{name}/runs.jsonl")[0] == 200
    assert ask(server, f"/nights/{name}/reds/")[0] == 404, "no listing outside of runs"


def test_large_files_are_streamed_and_as_long_as_promised(server: StoreServer, store: Path) -> None:
    size = 5_000_000
    (store / RUN / "large.bin").write_bytes(b"\7" * size)
    _, headers, body = ask(server, f"/{RUN}/large.bin")
    assert int(headers["content-length"]) == size
    assert len(body) == size
    assert headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("report.html", "text/html; charset=utf-8"),
        ("history.jsonl", "text/plain; charset=utf-8"),
        ("stdout.log", "text/plain; charset=utf-8"),
        ("results.json", "application/json; charset=utf-8"),
        ("trace.parquet", "application/octet-stream"),
        ("00000000000000000000", "application/octet-stream"),
    ],
)
def test_content_types(name: str, kind: str) -> None:
    assert content_type(Path(name)) == kind
