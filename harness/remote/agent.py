"""The control node's side of the connection to :mod:`harness.on_host.agent`."""

from __future__ import annotations

import importlib.util
import json
import marshal
import threading
import time
import zlib
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from kraftwreck.harness import on_host
from kraftwreck.harness.patience import PATIENCE
from kraftwreck.harness.remote.session import Remote, RemoteError
from kraftwreck.harness.remote.ssh import paramiko

BOOT = """\
import importlib.util, marshal, os, sys, types, zlib
sent = b""
while len(sent) < {size}:
    sent += os.read(0, {size} - len(sent)) or sys.exit()
same = importlib.util.MAGIC_NUMBER == {magic!r}
for name, source, code in marshal.loads(zlib.decompress(sent)):
    module = sys.modules[name] = types.ModuleType(name)
    exec(marshal.loads(code) if same else compile(source, name, "exec"), module.__dict__)
module.main()
"""
"""Runs modules that are sent to it. It reads exactly these; the rest of its input is theirs.

They are sent compiled, which saves half of an agent's start, and as sources for other versions of
Python. Standard library only: ``-S`` skips the search for packages.
"""
PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")
ANSWER_TIMEOUT_S = 30.0 * PATIENCE
NETWORK = (
    *("daemon", "echo", "forward", "netem", "links", "names"),
    *("relay", "network"),
)
"""The modules with which an agent disturbs its host's network, in import order."""
AGENT = (
    *("process", "program", "date", "clock", "files", "disk", "squeeze"),
    *("keeper", "services"),
    *NETWORK,
    "agent",
)
"""The modules of an agent, in import order."""


def sources(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the full names of modules of :mod:`harness.on_host`, and their sources."""
    here = Path(on_host.__file__).parent
    return [(f"{on_host.__name__}.{name}", (here / f"{name}.py").read_text()) for name in names]


def modules(names: Sequence[str]) -> bytes:
    """Return modules of :mod:`harness.on_host` in the format that :data:`BOOT` reads."""
    return _packed(((on_host.__name__, ""), *sources(names)))


@lru_cache(maxsize=4)
def _packed(texts: tuple[tuple[str, str], ...]) -> bytes:
    parts = [
        (name, text, marshal.dumps(compile(text, name, "exec", dont_inherit=True)))
        for name, text in texts
    ]
    return zlib.compress(marshal.dumps(parts))


def open_module(remote: Remote, *names: str) -> paramiko.Channel:
    """Run modules of :mod:`harness.on_host` in one process on the host, ``main`` of the last one.

    They may import each other, earlier ones first, and the standard library. Raises
    :class:`RemoteError`.
    """
    sent = modules(names)
    boot = BOOT.format(size=len(sent), magic=importlib.util.MAGIC_NUMBER)
    channel = remote.open_channel([*PYTHON, boot])
    try:
        channel.sendall(sent)
    except OSError as failure:
        channel.close()
        raise RemoteError(remote.host.name, f"{names[-1]}: {failure}") from failure
    return channel


class Agent:
    """One agent process on one host, started on first use. Safe to share by threads."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self._channel: paramiko.Channel | None = None
        self._buffer = b""
        self._lock = threading.Lock()

    def ask(self, do: str, timeout_s: float = ANSWER_TIMEOUT_S, **fields: Any) -> dict[str, Any]:
        """Carry out ``do`` on the host and return the evidence.

        Raises :class:`RemoteError` if the host refuses, does not respond in ``timeout_s`` seconds,
        or disconnects. A request is never sent twice.
        """
        return self._exchange(do, timeout_s, fields, b"")

    def send(
        self, do: str, attached: bytes, timeout_s: float = ANSWER_TIMEOUT_S, **fields: Any
    ) -> dict[str, Any]:
        """Carry out ``do`` on the host with ``attached`` bytes; otherwise as :meth:`ask`."""
        return self._exchange(do, timeout_s, {**fields, "attached": len(attached)}, attached)

    def _exchange(
        self, do: str, timeout_s: float, fields: dict[str, Any], attached: bytes
    ) -> dict[str, Any]:
        sent = json.dumps({"do": do, **fields}).encode() + b"\n" + attached
        with self._lock:
            channel = self._open()
            channel.settimeout(timeout_s)
            try:
                channel.sendall(sent)
                answer: dict[str, Any] = json.loads(self._read_line(channel, timeout_s))
            except (OSError, EOFError, ValueError, paramiko.SSHException) as failure:
                reason = self._why(channel, failure, timeout_s)
                self._drop_channel()
                raise RemoteError(self.remote.host.name, f"{do}: {reason}") from failure
        if "error" in answer:
            raise RemoteError(self.remote.host.name, f"{do}: {answer['error']}")
        return answer

    def _open(self) -> paramiko.Channel:
        channel = self._channel
        if channel is not None and not channel.closed and not channel.exit_status_ready():
            return channel
        self._drop_channel()
        channel = self._channel = open_module(self.remote, *AGENT)
        return channel

    def _read_line(self, channel: paramiko.Channel, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            channel.settimeout(max(0.001, deadline - time.monotonic()))
            chunk = channel.recv(65536)
            if not chunk:
                raise EOFError
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    @staticmethod
    def _why(channel: paramiko.Channel, failure: Exception, timeout_s: float) -> str:
        if isinstance(failure, TimeoutError):
            return f"no answer in {timeout_s:g} s"
        said = b""
        if channel.recv_stderr_ready():
            said = channel.recv_stderr(65536)
        lines = said.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "the connection to the host broke"

    def _drop_channel(self) -> None:
        self._buffer = b""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def clock_offset(self, exchanges: int = 7) -> int:
        """Return the host's CLOCK_MONOTONIC minus this machine's, in microseconds.

        Uses the midpoint of the fastest of several exchanges (Cristian's algorithm); the error is
        at most half of that exchange's round trip.
        """
        best: tuple[int, int] | None = None
        for _ in range(exchanges):
            before = time.monotonic_ns()
            there = int(self.ask("clock")["mono_us"])
            after = time.monotonic_ns()
            midpoint = (before + after) // 2000
            if best is None or after - before < best[0]:
                best = (after - before, there - midpoint)
        assert best is not None
        return best[1]

    def check_network(self, kinds: Collection[str]) -> None:
        """Raise :class:`RemoteError`, with the reasons, unless the host has drivers for all of
        ``kinds``."""
        told = self.ask("network_means")
        missing = [kind for kind in told["means"] if kind in kinds and told["means"][kind] is None]
        if missing:
            why = "; ".join(f"{what}: {line}" for what, line in told["why"].items())
            what = f"{' and '.join(missing)} cannot be disturbed on this host: {why}"
            raise RemoteError(self.remote.host.name, what)

    def close(self) -> None:
        """End the agent."""
        with self._lock:
            self._drop_channel()


def clock_offset(remote: Remote) -> int:
    """Return :meth:`Agent.clock_offset` of a host, with a temporary agent."""
    agent = Agent(remote)
    try:
        return agent.clock_offset()
    finally:
        agent.close()
