"""Follows the traces of nodes on hosts while they are written.

One process on each host (:mod:`harness.on_host.follow`) passes trace lines on over the SSH session;
a thread here delivers them. If a host disconnects, reconnecting is retried; events in between are
missed.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from kraftwreck.harness.patience import PATIENCE
from kraftwreck.harness.remote.agent import open_module
from kraftwreck.harness.remote.session import Remote, RemoteError
from kraftwreck.harness.remote.ssh import paramiko
from kraftwreck.histories.trace import TraceEvent

AGAIN_S = 0.5
"""Seconds before reconnecting to a host that disconnected."""
START_TIMEOUT_S = 10.0 * PATIENCE

See = Callable[[TraceEvent, int], None]
"""Called with a trace event and the host's monotonic clock (µs) when it was passed on."""


class TraceFollowers:
    """Passes every trace event of the hosts to ``see``, until closed.

    ``see`` is called from a thread of each host, for one event at a time.
    """

    def __init__(self, remotes: Mapping[str, Remote], path: str, see: See) -> None:
        self._path = path
        self._see = see
        self._one_at_a_time = threading.Lock()
        self._stop = threading.Event()
        self._channels: dict[str, paramiko.Channel] = {}
        self._ready = {name: threading.Event() for name in remotes}
        self._threads = [
            threading.Thread(target=self._work, args=each, name=f"trace {each[0]}", daemon=True)
            for each in remotes.items()
        ]
        self.again = 0
        """How often a host disconnected and was retried."""

    def start(self) -> None:
        """Start; returns when all hosts are followed, or after some seconds."""
        for thread in self._threads:
            thread.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        for ready in self._ready.values():
            ready.wait(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Stop following; no event is delivered afterwards."""
        with self._one_at_a_time:
            self._stop.set()
        for channel in list(self._channels.values()):
            with contextlib.suppress(OSError):
                channel.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(2.0)

    def _work(self, name: str, remote: Remote) -> None:
        while not self._stop.is_set():
            gone = (OSError, EOFError, ValueError, paramiko.SSHException, RemoteError)
            with contextlib.suppress(*gone):
                self._follow(name, remote)
            if not self._stop.wait(AGAIN_S):
                self.again += 1

    def _follow(self, name: str, remote: Remote) -> None:
        channel = open_module(remote, "follow")
        self._channels[name] = channel
        try:
            if self._stop.is_set():
                return
            channel.settimeout(None)
            channel.sendall(json.dumps({"path": self._path}).encode() + b"\n")
            decoder = msgspec.json.Decoder(TraceEvent)
            with channel.makefile("rb", 1 << 16) as lines:
                if "following" not in json.loads(lines.readline()):
                    raise ValueError(f"{name} does not follow the trace")
                self._ready[name].set()
                while head := lines.readline():
                    block = json.loads(head)
                    for _ in range(block["lines"]):
                        self._hand_out(decoder, lines.readline(), block["mono_us"])
        finally:
            channel.close()

    def _hand_out(
        self, decoder: msgspec.json.Decoder[TraceEvent], line: bytes, mono_us: int
    ) -> None:
        if not line.strip():
            return  # The next start completes a line torn by a crash.
        try:
            event = decoder.decode(line)
        except msgspec.MsgspecError:
            return
        with self._one_at_a_time:
            if not self._stop.is_set():
                self._see(event, mono_us)
