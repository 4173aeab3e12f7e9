"""Clients in any language: helper programs that speak JSON lines on standard input and output.

The protocol is described in ``docs/line-protocol.md``. A helper runs on the control node. One
helper serves one client thread and holds a client for each node. A helper that gives no answer in
time, answers garbage or dies is ended, and the operation is ``info`` with the helper's command in
the error; the next operation starts another helper.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from kraftwreck.harness.client import Completion
from kraftwreck.harness.deploy.clients import ClientError
from kraftwreck.harness.deploy.declaration import Place
from kraftwreck.histories.operation import FAIL, INFO, OK, Op

PROTOCOL = 1
START_TIMEOUT_S = 20.0
"""How long a helper may take to answer ``hello``; a JVM on a busy machine needs seconds."""
OPEN_TIMEOUT_S = 5.0
LONGEST_LINE = 16 << 20
_GIVEN_TYPES = (OK, FAIL, INFO)


class HelperError(ClientError):
    """A helper program failed; one line with its command."""


class _Helper:
    """One running helper program."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = shlex.join(argv)
        self._lock = threading.Lock()
        self._next = 0
        self.clients = 0
        """How many clients are open in it, or about to be; the lock of the programs guards it."""
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        except OSError as error:
            raise HelperError(f"helper `{self._command}`: {error.strerror}") from error
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._said = b""
        threading.Thread(target=self._read, name="helper", daemon=True).start()
        self._errors = threading.Thread(target=self._read_errors, name="helper", daemon=True)
        self._errors.start()

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, timeout_s: float, **request: Any) -> dict[str, Any]:
        """Send a request and return the answer with its id. Raises :class:`HelperError`, after
        which the helper has been ended."""
        with self._lock:
            self._next += 1
            number = self._next
            line = json.dumps({**request, "id": number}).encode() + b"\n"
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(line)
                self._process.stdin.flush()
            except OSError:
                raise self._failed(self._how_it_ended()) from None
            try:
                answer = self._lines.get(timeout=timeout_s)
            except queue.Empty:
                kind = request.get("f") or request["type"]
                raise self._failed(f"no answer to {kind} in {timeout_s:g} s") from None
            if not answer:
                raise self._failed(self._how_it_ended())
            return self._parsed(answer, number)

    def _parsed(self, answer: bytes, number: int) -> dict[str, Any]:
        shown = answer[:80].decode(errors="replace").strip()
        try:
            told = json.loads(answer)
        except ValueError:
            raise self._failed(f"an answer that is not JSON: {shown!r}") from None
        if not isinstance(told, dict) or told.get("id") != number:
            raise self._failed(f"an answer to another request than {number}: {shown!r}")
        return told

    def _failed(self, what: str) -> HelperError:
        self.end()
        return HelperError(f"helper `{self._command}`: {what}")

    def failed(self, what: str) -> HelperError:
        """End the helper and return the error."""
        return self._failed(what)

    def _how_it_ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        status = self._process.poll()
        self._errors.join(0.5)
        lines = self._said.decode(errors="replace").strip().splitlines()
        how = "it closed its output" if status is None else f"it ended with status {status}"
        return f"{how}: {lines[-1][:200]}" if lines else how

    def _read(self) -> None:
        """Pass on lines; an empty one means the end of the output."""
        assert self._process.stdout is not None
        with suppress(OSError, ValueError):
            while line := self._process.stdout.readline(LONGEST_LINE):
                self._lines.put(line)
        self._lines.put(b"")

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with suppress(OSError, ValueError):
            while line := self._process.stderr.readline(LONGEST_LINE):
                self._said = (self._said + line)[-4096:]

    def end(self) -> None:
        """End it and all it has started."""
        with suppress(OSError):
            os.killpg(self._process.pid, 9)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def finish(self) -> None:
        """Let it end by itself: its input ends."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self.end()


class HelperPrograms:
    """The helper programs of one run: ``argv``, with ``environment`` added to this process's own.

    ``hello`` is sent to each as it starts, for whatever it needs to know; it may take ``start_s``
    for the answer.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str] | None = None,
        hello: Mapping[str, Any] | None = None,
        start_s: float = START_TIMEOUT_S,
    ) -> None:
        self._argv = list(argv)
        self._environment = dict(environment or {})
        self._hello = dict(hello or {})
        self._start_s = start_s
        self._lock = threading.Lock()
        self._of: dict[str, _Helper] = {}

    def start(self, count: int) -> None:
        """Start ``count`` helpers at the same time, for threads that will need them.

        Raises :class:`HelperError` if one of them fails.
        """
        with ThreadPoolExecutor(count, thread_name_prefix="helpers") as threads:
            list(threads.map(self._started, (f"idle {number}" for number in range(count))))

    def client(self, place: Place, client_id: str, timeout_s: float) -> LineClient:
        """Open a client of the node at ``place`` for the client thread ``client_id``.

        Raises :class:`HelperError`, or ConnectionError if the helper answers ``fail`` to ``open``.
        """
        helper = self._helper(client_id)
        try:
            return LineClient(helper, place, timeout_s, lambda: self._release(helper))
        except BaseException:
            self._release(helper)
            raise

    def _helper(self, client_id: str) -> _Helper:
        """Return the helper of a thread: its own, an idle one, or a new one. It is not idle now."""
        with self._lock:
            self._of = {name: helper for name, helper in self._of.items() if helper.alive}
            helper = self._of.get(client_id)
            if helper is None:
                idle = [name for name, other in self._of.items() if not other.clients]
                helper = self._of.pop(idle[0]) if idle else None
            if helper is not None:
                helper.clients += 1
                self._of[client_id] = helper
                return helper
        return self._started(client_id, clients=1)

    def _release(self, helper: _Helper) -> None:
        with self._lock:
            helper.clients = max(0, helper.clients - 1)

    def _started(self, name: str, clients: int = 0) -> _Helper:
        """Start a helper under this name, with so many clients that are about to be opened."""
        helper = _Helper(self._argv, self._environment)
        told = helper.ask(self._start_s, type="hello", protocol=PROTOCOL, **self._hello)
        if told.get("type") != "hello" or told.get("protocol") != PROTOCOL:
            raise helper.failed(f"hello was answered by {told!r:.80}, not by protocol {PROTOCOL}")
        helper.clients = clients
        with self._lock:
            self._of[name] = helper
        return helper

    def close(self) -> None:
        """End all helpers."""
        with self._lock:
            helpers, self._of = list(self._of.values()), {}
        for helper in helpers:
            helper.finish()


class LineClient:
    """A client in a helper program (:class:`~harness.deploy.clients.NodeClient`)."""

    def __init__(
        self, helper: _Helper, place: Place, timeout_s: float, release: Callable[[], None]
    ) -> None:
        self._helper = helper
        self._timeout_s = timeout_s
        self._client = place.name
        self._release = release
        told = helper.ask(
            OPEN_TIMEOUT_S, type="open", client=place.name, node=place.name, address=place.ip
        )
        if told.get("type") == FAIL:
            raise ConnectionError(str(told.get("error", "the helper could not open a client")))
        if told.get("type") != OK:
            raise helper.failed(f"open was answered by {told!r:.80}, not by ok or fail")

    def invoke(self, op: Op) -> Completion:
        """Carry out ``op`` in the helper; any failure of the helper is an ``info``."""
        try:
            told = self._helper.ask(
                self._timeout_s,
                type="invoke",
                client=self._client,
                f=op.f,
                key=op.key,
                value=op.value,
                process=op.process,
            )
            if told.get("type") not in _GIVEN_TYPES:
                raise self._helper.failed(f"an answer that is not ok, fail or info: {told!r:.80}")
        except HelperError as error:
            return Completion(INFO, error=str(error))
        problem = told.get("error")
        return Completion(
            told["type"], told.get("value"), None if problem is None else str(problem)
        )

    def close(self) -> None:
        """Close the client; its helper stays for others, from now on."""
        if self._helper.alive:
            with suppress(HelperError):
                self._helper.ask(OPEN_TIMEOUT_S, type="close", client=self._client)
        self._release()
