"""The store's list, and the read-only server over it."""

from __future__ import annotations

import http.client
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reports.run_folder import RunFolderError
from reports.run_report import write_report
from reports.store_index import list_runs, render_index, write_index
from reports.web import StoreServer, content_type, resolve
from tests.reports.fake_run import HOSTILE

SECRET = "not for the web"


@pytest.fixture
def store(invalid_run: Path, tmp_path: Path) -> Path:
    """A store of three runs and a few traps, beside a secret file."""
    (tmp_path / "secret.txt").write_text(SECRET)
    store = tmp_path / "store"
    group = store / "kraft-register"
    first = group / "20261121T020000.000Z-7"
    shutil.copytree(invalid_run, first)
    write_report(first)
    broken = group / "20261121T030000.000Z-8"
    broken.mkdir()
    (broken / "test.json").write_text("{torn")
    running = group / "20261121T040000.000Z-9.running"
    running.mkdir()
    (running / "test.json").write_text('{"name": "<b>bold</b>", "seed": 9}')
    (store / "latest").symlink_to("kraft-register/20261121T020000.000Z-7")
    (group / "latest").symlink_to("20261121T020000.000Z-7")
    (store / "escape.txt").symlink_to("../secret.txt")
    (store / ".hidden").write_text(SECRET)
    (store / "odd <i> name").mkdir()
    (store / "odd <i> name" / "x.bin").write_bytes(b"\0")
    return store


@pytest.fixture
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
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=5)
    connection.putrequest(method, target, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_address[1]}")
    connection.endheaders()
    response = connection.getresponse()
    body = response.read().decode(errors="replace")
    connection.close()
    return response.status, {k.lower(): v for k, v in response.getheaders()}, body


def test_runs_are_listed_newest_first_whatever_their_state(store: Path) -> None:
    runs = list_runs(store)
    assert [(r.run[-9:], r.label) for r in runs] == [
        ("9.running", "unfinished"),
        ("00.000Z-8", "not checked"),
        ("00.000Z-7", "INVALID"),
    ]
    assert runs[1].why == "test.json cannot be read"
    assert runs[2].why == "epochs: 1 anomaly, linearizable: 2 anomalies, committed: undecided"
    assert runs[2].href.endswith("-7/report.html")


def test_the_list_escapes_what_runs_call_themselves(store: Path) -> None:
    page = render_index(store)
    assert "&lt;b&gt;bold" in page
    assert "<b>bold" not in page
    assert write_index(store).read_text() == page


def test_a_missing_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no such folder"):
        list_runs(tmp_path / "nothing")


def test_the_first_page_lists_the_runs(server: StoreServer) -> None:
    status, headers, body = ask(server, "/")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["x-content-type-options"] == "nosniff"
    assert "20261121T020000.000Z-7" in body


def test_a_report_is_served_also_through_latest(server: StoreServer) -> None:
    status, _, body = ask(server, "/latest/report.html")
    assert status == 200
    assert "<h1>INVALID</h1>" in body
    assert HOSTILE not in body


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
        "/escape.txt",
        "/.hidden",
        "/latest/../../secret.txt",
        "/nothing",
        "/" + "a" * 5000,
    ],
)
def test_nothing_outside_the_store_is_served(server: StoreServer, target: str) -> None:
    status, _, body = ask(server, target)
    assert status == 404
    assert SECRET not in body


def test_an_absolute_path_stays_below_the_store(store: Path) -> None:
    assert resolve(store, "//etc/passwd") is None
    assert resolve(store, "/" + str(store.parent / "secret.txt")) is None


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_only_reads(server: StoreServer, method: str) -> None:
    assert ask(server, "/", method)[0] == 501


def test_head_has_the_headers_only(server: StoreServer) -> None:
    status, headers, body = ask(server, "/latest/test.json", "HEAD")
    assert status == 200
    assert int(headers["content-length"]) > 10
    assert body == ""


def test_a_name_that_points_here_from_elsewhere_is_refused(server: StoreServer) -> None:
    assert ask(server, "/", host="evil.example")[0] == 403
    assert ask(server, "/", host="localhost:80")[0] == 200
    assert ask(server, "/", host="[::1]:80")[0] == 200


def test_folders_are_listed_with_their_names_escaped(server: StoreServer) -> None:
    status, _, body = ask(server, "/odd%20%3Ci%3E%20name/")
    assert status == 200
    assert "odd &lt;i&gt; name" in body
    assert "<i>" not in body


def test_a_folder_without_its_slash_redirects_inside_the_store_only(server: StoreServer) -> None:
    status, headers, _ = ask(server, "//kraft-register")
    assert status == 301
    assert headers["location"] == "/kraft-register/"


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
