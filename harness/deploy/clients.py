"""Clients of foreign systems: blocking calls, with time limits and errors that name the adapter.

A system's client carries out one operation at a time and says what became of it. An adapter that
raises, blocks for ever or returns nonsense costs one operation, which ends as ``info``: its effect
is unknown. The error names the adapter's file and line.
"""

from __future__ import annotations

import queue
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from kraftwreck.harness.archive import IMPORT_ROOT
from kraftwreck.harness.client import Answer, Call, Completion, Invocation
from kraftwreck.harness.workload import ClientSetting
from kraftwreck.histories.operation import FAIL, INFO, OK, Op
from kraftwreck.histories.undecodable import is_json

CLIENT_TIMEOUT_S = 5.0
"""How long an operation may take before its client is given up."""
_OURS = str(IMPORT_ROOT / "kraftwreck")
_STANDARD = str(Path(sysconfig.get_paths()["stdlib"]).resolve())


class ClientError(Exception):
    """A client failed; the text says where, so no place in the source is added."""


class NodeClient(Protocol):
    """A client of one node. It is used by one thread at a time."""

    def invoke(self, op: Op) -> Completion:
        """Carry out ``op`` and return what became of it.

        ``ok``: it took effect, ``value`` is its result. ``fail``: it certainly did not take effect.
        ``info``: nobody knows. Whatever it raises becomes an ``info``.
        """
        ...

    def close(self) -> None:
        """Close its connections."""
        ...


MakeClient = Callable[[], NodeClient]
"""Opens a client. An :class:`OSError` means that the node was not reached: nothing was sent."""


class NodesInTurn:
    """The client of one thread (:class:`~harness.client.Client`): its operations go to the nodes in
    turn, unless one names its node, and each node's own client carries them out."""

    def __init__(self, setting: ClientSetting, timeout_s: float = CLIENT_TIMEOUT_S) -> None:
        self._nodes = tuple(setting.nodes)
        self._next = setting.thread
        self._timeout_ms = round(timeout_s * 1000)

    def invoke(self, op: Op) -> Invocation:
        """Carry out ``op`` through a :class:`GuardedConnection`."""
        node = op.node or self._nodes[self._next % len(self._nodes)]
        self._next += 1
        answer = yield Call(node, op, timeout_ms=self._timeout_ms)
        completion = answer.response
        assert isinstance(completion, Completion)
        completion.node = completion.node or node
        return completion

    def reset(self) -> None:
        """Begin as a new process; the nodes keep their turns."""


class GuardedConnection:
    """A client's connection to one node (:class:`~harness.client.Connection`).

    ``make`` opens the client when it is needed. ``files`` are the adapter's source files, which
    errors name. The client runs in a thread of its own, which is abandoned if it blocks.
    """

    def __init__(self, make: MakeClient, files: Iterable[str] = ()) -> None:
        self._make = make
        self._files = frozenset(files)
        self._worker: _Worker | None = None

    def send(self, request: Any, timeout_ms: int) -> Answer:
        """Carry out the operation ``request``; the response is its Completion. Never raises."""
        return Answer("ok", self._invoke(request, timeout_ms / 1000))

    def _invoke(self, op: Op, timeout_s: float) -> Completion:
        worker = self._worker
        if worker is None:
            worker = self._worker = _Worker(self._make, self._files)
        worker.jobs.put(op)
        try:
            completion = worker.outcomes.get(timeout=timeout_s)
        except queue.Empty:
            where = worker.whereabouts()
            self.close()
            return Completion(INFO, error=f"{where}: {op.f} did not return in {timeout_s:g} s")
        if worker.broken:
            self.close()
        return completion

    def close(self) -> None:
        """End the client as soon as it returns; do not wait for it."""
        if self._worker is not None:
            self._worker.jobs.put(None)
        self._worker = None


class _Worker:
    """The thread of one client."""

    def __init__(self, make: MakeClient, files: frozenset[str]) -> None:
        self.jobs: queue.SimpleQueue[Op | None] = queue.SimpleQueue()
        self.outcomes: queue.SimpleQueue[Completion] = queue.SimpleQueue()
        self.broken = False
        """Whether the client's state is unknown."""
        self._make = make
        self._files = set(files)
        self._client: NodeClient | None = None
        self._thread = threading.Thread(target=self._work, name="adapter", daemon=True)
        self._thread.start()

    def whereabouts(self) -> str:
        """Return file and line at which the thread is in the adapter."""
        ident = self._thread.ident
        frame: FrameType | None = sys._current_frames().get(ident) if ident is not None else None
        places = []
        while frame is not None:
            places.append((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        return _name(places[::-1], self._files)

    def _work(self) -> None:
        while (op := self.jobs.get()) is not None:
            self.outcomes.put(self._attempt(op))
        if self._client is not None:
            try:
                self._client.close()
            except Exception:
                return  # Nothing depends on it.

    def _attempt(self, op: Op) -> Completion:
        try:
            if self._client is None:
                self._client = self._make()
                self._files.add(_source(self._client))
        except OSError as error:
            return Completion(FAIL, error=f"no connection: {_said(error)}")
        except BaseException as error:
            return self._failed(error)
        try:
            completion = self._client.invoke(op)
        except BaseException as error:
            return self._failed(error)
        wrong = _nonsense(completion)
        if wrong:
            self.broken = True
            where = _short(_source(self._client))
            return Completion(INFO, error=f"{where}: invoke({op.f!r}) returned {wrong}")
        return completion

    def _failed(self, error: BaseException) -> Completion:
        self.broken = True
        if isinstance(error, ClientError):
            return Completion(INFO, error=str(error))
        frames = traceback.extract_tb(error.__traceback__)
        places = [(frame.filename, frame.lineno or 0) for frame in frames]
        return Completion(INFO, error=f"{_name(places, self._files)}: {_said(error)}")


def _nonsense(completion: object) -> str:
    """Return what is wrong with the value that ``invoke`` returned, "" for nothing."""
    if not isinstance(completion, Completion):
        return f"{_cut(repr(completion))}, which is no Completion"
    if completion.type not in (OK, FAIL, INFO):
        return f"the type {_cut(repr(completion.type))}; it must be ok, fail or info"
    for name in ("error", "node"):
        text = getattr(completion, name)
        if text is not None and not isinstance(text, str):
            return f"{name}={_cut(repr(text))}, which is no text"
    if not is_json(completion.value):
        return f"value={_cut(repr(completion.value))}, which JSON cannot hold"
    return ""


def _name(places: Sequence[tuple[str, int]], files: Iterable[str]) -> str:
    """Return ``file:line`` of the innermost of ``places`` in the adapter.

    If none is in its ``files``, it is the innermost place outside of this project and the standard
    library.
    """
    known = set(files)
    own = [place for place in places if place[0] in known]
    foreign = [place for place in places if not _is_ours(place[0])]
    file, line = (own or foreign or list(places) or [("the adapter", 0)])[-1]
    return f"{_short(file)}:{line}"


def _is_ours(file: str) -> bool:
    standard = file.startswith(_STANDARD) and "site-packages" not in file
    return file.startswith((_OURS, "<")) or standard


def _short(file: str) -> str:
    """Return the end of a path: the file and its folder."""
    return "/".join(Path(file).parts[-2:])


def _source(client: object) -> str:
    module = sys.modules.get(type(client).__module__)
    return str(getattr(module, "__file__", None) or "the adapter")


def _said(error: BaseException) -> str:
    text = _cut(" ".join(str(error).split()))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _cut(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
