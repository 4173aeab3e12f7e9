"""A read-only web server for one store: its pages, and the files of its runs and nights.

Nothing else below the store is served. Any other request gets the same 404 response, whatever the
reason.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, quote, unquote, urlsplit

from kraftwreck.reports.connections import Seats
from kraftwreck.reports.run_folder import RunFolderError
from kraftwreck.reports.store.compare import render_compare
from kraftwreck.reports.store.entries import StoreReader
from kraftwreck.reports.store.folder import render_folder
from kraftwreck.reports.store.index import ANALYSIS, NIGHTS, is_run
from kraftwreck.reports.store.night_page import render_night
from kraftwreck.reports.store.overview import render_overview
from kraftwreck.reports.store.shell import Page

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".xml": "text/xml; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
PLAIN = frozenset(
    {".jsonl", ".log", ".txt", ".toml", ".edn", ".patch", ".properties", ".md", ".csv"}
)
"""Shown in the browser as text, whatever their contents."""

SANDBOX = "sandbox; default-src 'none'; frame-ancestors 'none'"
REPORT_POLICY = (
    "sandbox allow-scripts; "
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:; "
    "style-src 'unsafe-inline'; img-src data: blob:; connect-src data: blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""The policy of a run's own report: it may compute and draw. It has its own origin, opens no
windows and has no network access, so it cannot read anything else in the store."""
CONNECTIONS = 64
PIECE = 1 << 16
"""Bytes of a response sent at once; a client that receives them makes progress."""
LONGEST_TARGET = 8192
GONE = "There is no such page or file in this store.\n"


def content_type(path: Path) -> str:
    """Return the content type of ``path`` by its name; unknown types are downloads."""
    suffix = path.suffix.lower()
    if suffix in PLAIN:
        return "text/plain; charset=utf-8"
    return CONTENT_TYPES.get(suffix, "application/octet-stream")


def file_policy(path: Path) -> str | None:
    """Return the policy for a file that a browser may execute; None for other files."""
    if path.name == "report.html" and is_run(path.parent):
        return REPORT_POLICY
    return SANDBOX if path.suffix.lower() in (".html", ".svg", ".xml") else None


def resolve(store: Path, target: str) -> Path | None:
    """Return the file or folder below ``store`` for the request target ``target``.

    Return None if it does not exist or is outside: ``..`` in any encoding, a backslash, a hidden
    name, or a link that leads out of the store.
    """
    path = unquote(urlsplit(target).path, errors="surrogateescape")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts):
        return None
    root = store.resolve()
    try:
        found = root.joinpath(*parts).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return found if found.is_relative_to(root) else None


def in_run(store: Path, path: Path) -> bool:
    """Return whether ``path`` is the folder of a run of ``store`` or is inside one."""
    above = [path, *path.parents]
    return any(is_run(folder) for folder in above[: above.index(store)])


def servable(store: Path, path: Path) -> bool:
    """Return whether the file ``path``, below ``store``, is of a run, a night or the analysis."""
    parts = path.relative_to(store).parts
    if any(part.startswith(".") for part in parts):
        return False
    if parts[0] == NIGHTS:
        return len(parts) > 2
    return (parts[0] == ANALYSIS and len(parts) > 1) or in_run(store, path)


def open_below(store: Path, path: Path) -> BinaryIO | None:
    """Open the regular file ``path``; return None if it is not one, or not below ``store``.

    A link may replace the file after its path was checked, so the opened file is checked again. A
    file with several hard links may belong to another place and is rejected; stores have none.
    Opening does not block on a pipe.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | os.O_NONBLOCK
    try:
        number = os.open(path, flags)
    except OSError:
        return None
    file = os.fdopen(number, "rb")
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        try:
            place = Path(f"/proc/self/fd/{number}").readlink()
        except OSError:
            place = path.resolve()
        if place.is_relative_to(store):
            return file
    file.close()
    return None


class StoreServer(ThreadingHTTPServer):
    """Serves ``store`` on ``host``:``port`` (0: a free port). Raises OSError if it is in use."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, store: Path, host: str, port: int) -> None:
        self.store = store.resolve()
        self.reader = StoreReader(self.store)
        self.making = threading.Lock()
        self.local_only = _is_loopback(host)
        self.seats = Seats(CONNECTIONS)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)
        threading.Thread(target=self._look_ahead, name="look ahead", daemon=True).start()

    def _look_ahead(self) -> None:
        """Read the runs in advance, so that the first page does not have to wait."""
        with contextlib.suppress(RunFolderError):
            self.reader.index.runs()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a request in a thread; if all seats are taken, the slowest client's is closed."""
        self.seats.take(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a request, then release the seat."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.seats.leave(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print an error in one line; ignore clients that disconnected."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"kraftwreck serve: a request failed: {error!r}", file=sys.stderr)

    @property
    def url(self) -> str:
        """The address to open."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}/" if ":" in str(host) else f"http://{host!s}:{port}/"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class _Handler(BaseHTTPRequestHandler):
    server: StoreServer
    server_version = "kraftwreck"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def setup(self) -> None:
        """Find the seat of this connection."""
        super().setup()
        self._seat = self.server.seats.of(self.request)

    def _answer(self, *, body: bool) -> None:
        self._seat.moved()
        # The body of a request is not read and must not be taken for the next request.
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True
        # Another site may map its own name to a loopback address (DNS rebinding).
        try:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        except ValueError:
            host = ""
        if self.server.local_only and not _is_loopback(host):
            text = "This server only accepts loopback host names, such as localhost.\n"
            self._plain(HTTPStatus.FORBIDDEN, text, body)
        elif not self.server.store.is_dir():
            self._plain(HTTPStatus.NOT_FOUND, "The store no longer exists.\n", body)
        elif len(self.path) > LONGEST_TARGET:
            self._plain(HTTPStatus.NOT_FOUND, GONE, body)
        else:
            self._route(body)

    def _route(self, body: bool) -> None:
        store = self.server.store
        try:
            place = urlsplit(self.path)
        except ValueError:
            self._plain(HTTPStatus.NOT_FOUND, GONE, body)
            return
        if place.path == "/favicon.ico":
            # Browsers always request it, and log an error on a 404.
            self.send_response(HTTPStatus.NO_CONTENT)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            return
        if place.path == "/compare":
            self._compare(place.query, body)
            return
        path = resolve(store, self.path)
        if path == store:
            self._made(self._overview, body)
            return
        if path is None:
            self._plain(HTTPStatus.NOT_FOUND, GONE, body)
            return
        parts = path.relative_to(store).parts
        night = parts[1] if len(parts) == 2 and parts[0] == NIGHTS else None
        if path.is_file() and servable(store, path):
            self._file(path, body)
        elif not path.is_dir() or not (night or in_run(store, path)):
            self._plain(HTTPStatus.NOT_FOUND, GONE, body)
        elif not place.path.endswith("/"):
            self._redirect(path)
        elif night:
            self._made(lambda: render_night(self.server.reader, night), body)
        else:
            self._made(lambda: render_folder(store, path), body)

    def _overview(self) -> Page:
        reader = self.server.reader
        return render_overview(reader.contents(), reader.gold)

    def _compare(self, query: str, body: bool) -> None:
        try:
            given = parse_qs(query, max_num_fields=4)
        except ValueError:
            given = {}
        a, b = (given.get(name, [""])[0].strip("/") for name in "ab")
        self._made(lambda: render_compare(self.server.reader, a, b), body)

    def _made(self, make: Callable[[], Page | None], body: bool) -> None:
        """Send the page that ``make`` returns; only one page is made at a time."""
        try:
            with self.server.seats.work(self._seat), self.server.making:
                page = make()
        except RunFolderError as error:
            self._plain(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}\n", body)
            return
        if page is None:
            self._plain(HTTPStatus.NOT_FOUND, GONE, body)
        else:
            kind = "text/html; charset=utf-8"
            self._send(HTTPStatus.OK, kind, page.text, body, page.policy)

    def _redirect(self, path: Path) -> None:
        """Redirect to the folder with a trailing slash, by its path in the store."""
        place = quote(path.relative_to(self.server.store).as_posix())
        self.send_response(HTTPStatus.MOVED_PERMANENTLY)
        self.send_header("Location", f"/{place}/")
        self._common_headers("text/plain; charset=utf-8", 0)
        self.end_headers()

    def _plain(self, status: HTTPStatus, text: str, body: bool) -> None:
        self._send(status, "text/plain; charset=utf-8", text, body, "default-src 'none'")

    def _send(self, status: HTTPStatus, kind: str, text: str, body: bool, policy: str) -> None:
        data = text.encode("utf-8", "replace")
        self.send_response(status)
        self._common_headers(kind, len(data))
        self.send_header("Content-Security-Policy", policy)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if body:
            self._write(io.BytesIO(data), len(data))

    def _file(self, path: Path, body: bool) -> None:
        file = open_below(self.server.store, path)
        if file is None:
            self._plain(HTTPStatus.NOT_FOUND, GONE, body)
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            self.send_response(HTTPStatus.OK)
            self._common_headers(content_type(path), size)
            policy = file_policy(path)
            if policy is not None:
                self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            if body:
                self._write(file, size)

    def _write(self, content: BinaryIO, size: int) -> None:
        """Send ``size`` bytes of ``content``, whose size may have changed since."""
        left = size
        while left and (chunk := content.read(min(left, PIECE))):
            self.wfile.write(chunk)
            self._seat.moved()
            left -= len(chunk)
        if left:
            self.close_connection = True

    def _common_headers(self, kind: str, length: int) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Reject other methods and malformed requests, without repeating their contents."""
        self.close_connection = True
        self.request_version = "HTTP/1.1"  # otherwise the response would have no headers
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._plain(HTTPStatus.METHOD_NOT_ALLOWED, "This server is read-only.\n", body=True)
        else:
            self._plain(HTTPStatus(code), "The request is malformed.\n", body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""
