"""A read-only web server for one store. It serves files below the store and nothing else."""

from __future__ import annotations

import ipaddress
import socket
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from markupsafe import Markup

from reports.page import environment, policy, style
from reports.store_index import render_index
from reports.tables import size_text

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
"""Shown in the browser as text, whatever is in them."""


def content_type(path: Path) -> str:
    """Return the content type of ``path`` by its name; unknown ones are downloads."""
    suffix = path.suffix.lower()
    if suffix in PLAIN:
        return "text/plain; charset=utf-8"
    return CONTENT_TYPES.get(suffix, "application/octet-stream")


def resolve(store: Path, target: str) -> Path | None:
    """Return the file or folder below ``store`` that request target ``target`` names.

    None when there is none, or when it would lie outside: no ``..`` however encoded, no
    backslash, no hidden name, and links only to what is inside the store as well.
    """
    path = unquote(urlsplit(target).path, errors="replace")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts):
        return None
    root = store.resolve()
    try:
        found = root.joinpath(*parts).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return found if found.is_relative_to(root) else None


class StoreServer(ThreadingHTTPServer):
    """Serves ``store`` on ``host``:``port`` (0: a free one). Raises OSError if it is taken."""

    daemon_threads = True

    def __init__(self, store: Path, host: str, port: int) -> None:
        self.store = store.resolve()
        self.local_only = _is_loopback(host)
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say what failed in one line; a client that went away is nothing to tell."""
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

    def _answer(self, *, body: bool) -> None:
        # A page elsewhere may point a name of its own at loopback (DNS rebinding).
        try:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        except ValueError:
            host = ""
        if self.server.local_only and not _is_loopback(host):
            self._page(HTTPStatus.FORBIDDEN, "This server answers to loopback names only.\n", body)
            return
        path = resolve(self.server.store, self.path)
        if not self.server.store.is_dir():
            self._page(HTTPStatus.NOT_FOUND, "The store is gone.\n", body)
        elif path is None or not (path.is_dir() or path.is_file()):
            self._page(HTTPStatus.NOT_FOUND, "There is no such file in this store.\n", body)
        elif path == self.server.store:
            self._page(HTTPStatus.OK, render_index(self.server.store), body, html=True)
        elif path.is_dir():
            if not urlsplit(self.path).path.endswith("/"):
                self._redirect(path)
                return
            self._page(HTTPStatus.OK, self._folder(path), body, html=True)
        else:
            self._file(path, body)

    def _redirect(self, path: Path) -> None:
        """Send to the folder with a final slash, by its path in the store: never elsewhere."""
        place = quote(path.relative_to(self.server.store).as_posix())
        self.send_response(HTTPStatus.MOVED_PERMANENTLY)
        self.send_header("Location", f"/{place}/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _folder(self, folder: Path) -> str:
        entries = []
        for path in sorted(folder.iterdir()):
            if path.name.startswith(".") or not path.exists():
                continue
            if path.is_dir():
                entries.append((path.name + "/", quote(path.name) + "/", ""))
            else:
                entries.append((path.name, quote(path.name), size_text(path.stat().st_size)))
        return (
            environment()
            .get_template("folder.html.j2")
            .render(
                path=folder.relative_to(self.server.store).as_posix(),
                entries=entries,
                css=Markup(style()),  # noqa: S704 - our own asset
            )
        )

    def _page(self, status: HTTPStatus, text: str, body: bool, *, html: bool = False) -> None:
        data = text.encode("utf-8", "replace")
        self.send_response(status)
        self._common_headers(f"text/{'html' if html else 'plain'}; charset=utf-8", len(data))
        if html:
            self.send_header("Content-Security-Policy", policy(style()))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def _file(self, path: Path, body: bool) -> None:
        try:
            file = path.open("rb")
        except OSError:
            self._page(HTTPStatus.NOT_FOUND, "This file cannot be read.\n", body)
            return
        with file:
            self.send_response(HTTPStatus.OK)
            size = path.stat().st_size
            self._common_headers(content_type(path), size)
            if path.suffix.lower() in (".svg", ".xml"):
                self.send_header("Content-Security-Policy", "sandbox; default-src 'none'")
            self.end_headers()
            if body:
                # A file that grows while it is read must not outgrow its length.
                left = size
                while left and (chunk := file.read(min(left, 1 << 16))):
                    self.wfile.write(chunk)
                    left -= len(chunk)
                if left:
                    self.close_connection = True

    def _common_headers(self, kind: str, length: int) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent: requests are nobody's business here."""
