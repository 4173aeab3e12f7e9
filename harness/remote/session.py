"""SSH sessions: one per host, with pinned host keys, time limits, and errors of one line.

Commands are argument vectors, quoted only here. A command is sent at most once: connecting is
retried, but not a command that may have begun.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import shlex
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, TypeVar, cast

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.gateway import dial
from kraftwreck.harness.patience import PATIENCE
from kraftwreck.harness.remote.errors import RemoteError as RemoteError
from kraftwreck.harness.remote.errors import UnreachableError as UnreachableError
from kraftwreck.harness.remote.ssh import paramiko

if TYPE_CHECKING:
    import fabric

CONNECT_TIMEOUT_S = 5.0 * PATIENCE
COMMAND_TIMEOUT_S = 30.0 * PATIENCE
TREE_TIMEOUT_S = 120.0 * PATIENCE
KEEPALIVE_S = 5
ATTEMPTS = 3
GIVEN_UP_S = 60.0
"""How long an unreachable host gets only one attempt, with a shorter time limit."""
GIVEN_UP_TIMEOUT_S = 2.0 * PATIENCE
_CHUNK = 1 << 16

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command; ``status`` is its exit status."""

    stdout: bytes
    stderr: bytes
    status: int

    @property
    def text(self) -> str:
        """Standard output as text, without trailing newlines."""
        return self.stdout.decode(errors="replace").rstrip("\n")


class Remote:
    """The SSH session with one host; connects on first use. Safe to share by threads."""

    def __init__(self, host: Host, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self.host = host
        self._connect_timeout_s = connect_timeout_s
        self._client: paramiko.SSHClient | None = None
        self._lock = threading.RLock()
        self._failed_at = -GIVEN_UP_S

    def connect(self) -> paramiko.SSHClient:
        """Return a live client, connecting or reconnecting when needed.

        Raises :class:`UnreachableError` after :data:`ATTEMPTS`, or at once if the host key or the
        user's key is rejected. A host that was unreachable a moment ago gets one attempt.
        """
        with self._lock:
            if self._client is not None:
                transport = self._client.get_transport()
                if transport is not None and transport.is_active():
                    return self._client
                self._client.close()
            error = ""
            attempts, timeout_s = ATTEMPTS, self._connect_timeout_s
            if time.monotonic() < self._failed_at + GIVEN_UP_S:
                attempts, timeout_s = 1, min(timeout_s, GIVEN_UP_TIMEOUT_S)
            for attempt in range(attempts):
                if attempt:
                    time.sleep(0.2 * attempt)
                try:
                    self._client = self._open(timeout_s)
                    self._failed_at = -GIVEN_UP_S
                    return self._client
                except (OSError, EOFError, paramiko.SSHException) as failure:
                    error = self._explain(failure)
                    if _is_final(failure):
                        break
            self._failed_at = time.monotonic()
            raise UnreachableError(self.host.name, error)

    def _open(self, timeout_s: float) -> paramiko.SSHClient:
        """Connect; ``timeout_s`` limits the wait for the TCP connection."""
        address, port = self.host.ssh_endpoint
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        key = parse_host_key(self.host.host_key)
        name = address if port == 22 else f"[{address}]:{port}"
        client.get_host_keys().add(name, key.get_name(), key)
        # paramiko's own socket would delay each small packet of the handshake for 40 ms.
        sock = dial((address, port), timeout_s, self.host.gateway)
        try:
            client.connect(
                address,
                port=port,
                username=self.host.user,
                key_filename=str(self.host.key) if self.host.key else None,
                look_for_keys=self.host.key is None,
                allow_agent=self.host.key is None,
                banner_timeout=self._connect_timeout_s,
                auth_timeout=self._connect_timeout_s,
                channel_timeout=self._connect_timeout_s,
                sock=sock,
            )
        except BaseException:
            client.close()
            sock.close()
            raise
        transport = client.get_transport()
        assert transport is not None
        transport.set_keepalive(KEEPALIVE_S)
        return client

    def _explain(self, failure: Exception) -> str:
        address, port = self.host.ssh_endpoint
        where = f"SSH to {self.host.user}@{address}:{port}"
        if isinstance(failure, paramiko.BadHostKeyException):
            return (
                f"{where}: host key {fingerprint(failure.key)} is not the pinned "
                f"{fingerprint(failure.expected_key)}"
            )
        if isinstance(failure, paramiko.AuthenticationException):
            key = self.host.key or "the user's own keys"
            return f"{where}: refused with {key}: {failure}"
        if isinstance(failure, TimeoutError):
            return f"{where}: no answer"
        if isinstance(failure, OSError) and failure.strerror and failure.filename is None:
            return f"{where}: {failure.strerror}"
        return f"{where}: {failure or type(failure).__name__}"

    def command(self, argv: Sequence[str]) -> str:
        """Return the shell line that runs ``argv`` as the privileged user."""
        return f"{self.host.become} {shlex.join(argv)}".strip()

    @contextlib.contextmanager
    def channel(
        self, argv: Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S
    ) -> Iterator[paramiko.Channel]:
        """Start ``argv`` and yield its channel, which is closed at the end."""
        channel = self.open_channel(argv, timeout_s)
        try:
            yield channel
        finally:
            channel.close()

    def open_channel(
        self, argv: Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S
    ) -> paramiko.Channel:
        """Start ``argv`` and return its channel; reads and writes on it wait ``timeout_s``."""
        channel = None
        for attempt in range(2):
            transport = self.connect().get_transport()
            assert transport is not None
            try:
                channel = transport.open_session(timeout=self._connect_timeout_s)
                break
            except (OSError, EOFError, paramiko.SSHException) as failure:
                # No command has run: the connection was dead.
                transport.close()
                if attempt:
                    raise UnreachableError(self.host.name, self._explain(failure)) from failure
        assert channel is not None
        channel.settimeout(timeout_s)
        try:
            channel.exec_command(self.command(argv))
        except (OSError, EOFError, paramiko.SSHException) as failure:
            channel.close()
            raise self._failed(argv, f"could not be started: {failure}") from failure
        return channel

    def run(
        self,
        argv: Sequence[str],
        stdin: bytes | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
        check: bool = True,
    ) -> Result:
        """Run ``argv`` and return its result.

        Raises :class:`RemoteError` if it does not finish in ``timeout_s`` seconds, if the
        connection breaks, and, with ``check``, if its status is not 0.
        """
        deadline = time.monotonic() + timeout_s
        with self.channel(argv, timeout_s) as channel:
            errors: list[bytes] = []
            reader = threading.Thread(target=_drain_stderr, args=(channel, errors), daemon=True)
            reader.start()
            if stdin is not None:
                threading.Thread(target=_feed, args=(channel, stdin), daemon=True).start()
            else:
                channel.shutdown_write()
            output = []
            try:
                while True:
                    channel.settimeout(max(0.001, deadline - time.monotonic()))
                    if not (chunk := channel.recv(_CHUNK)):
                        break
                    output.append(chunk)
            except TimeoutError as failure:
                raise self._failed(argv, f"gave no result in {timeout_s:g} s") from failure
            reader.join(max(0.001, deadline - time.monotonic()))
            if not channel.status_event.wait(max(0.001, deadline - time.monotonic())):
                raise self._failed(argv, f"did not end in {timeout_s:g} s")
            result = Result(b"".join(output), b"".join(errors), channel.recv_exit_status())
        if result.status == -1:
            raise self._failed(argv, "ended without a status: killed, or the connection broke")
        if check and result.status != 0:
            said = (result.stderr.strip() or result.stdout.strip()).decode(errors="replace")
            last = said.splitlines()[-1] if said else "no message"
            raise self._failed(argv, f"gave status {result.status}: {last}")
        return result

    def _failed(self, argv: Sequence[str], what: str) -> RemoteError:
        line = shlex.join(argv)
        return RemoteError(self.host.name, f"`{line[:120]}` {what}")

    def put(self, data: bytes | Path, path: str, mode: int = 0o644) -> None:
        """Write a file on the host, atomically."""
        content = data.read_bytes() if isinstance(data, Path) else data
        script = 'cat > "$1.part" && chmod "$2" "$1.part" && mv -f "$1.part" "$1"'
        self.run(["sh", "-c", script, "sh", path, f"{mode:o}"], stdin=content)

    def get(self, path: str) -> bytes:
        """Return the content of a file on the host."""
        return self.run(["cat", path]).stdout

    def get_tree(self, path: str, target: Path, timeout_s: float = TREE_TIMEOUT_S) -> int:
        """Copy the files below the directory ``path`` into ``target``; return their number.

        Files that change meanwhile are copied as they are. Only plain files and directories are
        copied, and nothing is written outside of ``target``.
        """
        argv = ["tar", "-C", path, "--warning=no-file-changed", "-cf", "-", "."]
        with self.channel(argv, timeout_s) as channel:
            channel.shutdown_write()
            try:
                count = unpack(cast(IO[bytes], channel.makefile("rb", _CHUNK)), target)
            except (OSError, EOFError, tarfile.TarError) as failure:
                said = channel.recv_stderr(_CHUNK) if channel.recv_stderr_ready() else b""
                reason = said.decode(errors="replace") or str(failure)
                raise self._failed(argv, f"could not be read: {reason}") from failure
        return count

    def fabric(self) -> fabric.Connection:
        """Return a Fabric connection over this same session, pinned host key included."""
        import fabric  # the import takes 0.7 s, and only deploying needs it

        client = self.connect()
        address, port = self.host.ssh_endpoint
        connection = fabric.Connection(address, user=self.host.user, port=port)
        # The client of Fabric would accept any host key.
        connection.client = client
        connection.transport = client.get_transport()
        return connection

    def close(self) -> None:
        """End the session; the next use reconnects."""
        with self._lock:
            self._failed_at = -GIVEN_UP_S
            if self._client is not None:
                self._client.close()
                self._client = None


def _is_final(failure: Exception) -> bool:
    """Whether another attempt would fail in the same way."""
    refused = (paramiko.BadHostKeyException, paramiko.AuthenticationException)
    return isinstance(failure, (*refused, FileNotFoundError, PermissionError))


def _drain_stderr(channel: paramiko.Channel, into: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        while chunk := channel.recv_stderr(_CHUNK):
            into.append(chunk)


def _feed(channel: paramiko.Channel, data: bytes) -> None:
    with contextlib.suppress(OSError):
        channel.sendall(data)
        channel.shutdown_write()


def parse_host_key(line: str) -> paramiko.PKey:
    """Return the key of ``"<type> <base64> [comment]"``; raises ValueError with one line."""
    kind, _, rest = line.strip().partition(" ")
    try:
        blob = base64.b64decode(rest.split()[0], validate=True)
        return paramiko.PKey.from_type_string(kind, blob)
    except (
        IndexError,
        ValueError,
        binascii.Error,
        paramiko.SSHException,
        paramiko.pkey.UnknownKeyType,
    ) as error:
        raise ValueError(f"{line[:60]!r} is not a host key ('ssh-ed25519 AAAA...')") from error


def fingerprint(key: paramiko.PKey) -> str:
    """Return a key's fingerprint as ssh-keygen prints it."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


def unpack(stream: IO[bytes], target: Path) -> int:
    """Unpack a tar stream below ``target``; return the number of files.

    Links and devices are left out, and holes of sparse files stay holes. A path that leads outside
    raises tarfile.TarError.
    """
    count = 0
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts
            if member.name.startswith("/") or ".." in parts:
                raise tarfile.TarError(f"{member.name!r} leads outside the directory")
            path = target.joinpath(*parts)
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
            elif member.isfile() and (source := archive.extractfile(member)) is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    while chunk := source.read(_CHUNK):
                        if member.issparse() and chunk.count(0) == len(chunk):
                            file.seek(len(chunk), os.SEEK_CUR)
                        else:
                            file.write(chunk)
                    file.truncate()
                count += 1
    return count


def on_all(
    names: Sequence[str], function: Callable[[str], T], at_once: int = 32
) -> Mapping[str, T]:
    """Call ``function`` for every name, ``at_once`` in parallel; return the results by name.

    After all calls have ended, raises :class:`RemoteError` that names every failed host, or
    :class:`UnreachableError` if none of them could be reached.
    """
    if not names:
        return {}
    with ThreadPoolExecutor(max_workers=min(at_once, len(names))) as pool:
        futures = {name: pool.submit(function, name) for name in names}
    errors = [error for future in futures.values() if (error := future.exception())]
    for error in errors:
        if not isinstance(error, RemoteError):
            raise error
    if len(errors) > 1:
        parts = [p for error in errors if isinstance(error, RemoteError) for p in error.parts]
        unreachable = all(isinstance(part, UnreachableError) for part in parts)
        kind = UnreachableError if unreachable else RemoteError
        said = "; ".join([parts[0].said, *map(str, parts[1:])])
        raise kind(parts[0].host, said, parts) from errors[0]
    if errors:
        raise errors[0]
    return {name: future.result() for name, future in futures.items()}
