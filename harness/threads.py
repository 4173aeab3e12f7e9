"""Drives the interpreter in real time: client threads with sockets, and threads for faults.

One thread runs the interpreter and writes the recordings. Each client has a thread of its own that
attempts one operation at a time.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Final, Protocol, cast

from kraftwreck.harness.attempts import Attempt, blocked_at, checked, storable, unusable
from kraftwreck.harness.client import (
    Answer,
    BlockingClient,
    Call,
    Client,
    Completion,
    Connection,
    Forgetful,
    Pause,
)
from kraftwreck.harness.commands import (
    Abandon,
    Abort,
    Alarm,
    Begin,
    Command,
    Compare,
    Compared,
    Drop,
    Ended,
    Event,
    FinalPhase,
    Heal,
    Invoke,
    Note,
    Record,
    Renew,
    Ring,
    Seen,
    Stop,
    Strike,
    Struck,
    Undo,
    Undone,
    Wake,
)
from kraftwreck.harness.generator import Planned
from kraftwreck.harness.interpreter import Interpreter
from kraftwreck.harness.run_errors import Trouble
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.operation import FAIL, INFO, INVOKE, OK, Op
from kraftwreck.histories.store import JsonLines, StoreError
from kraftwreck.histories.trace import TraceEvent

UNDOING: Final = 8
"""How many faults may be ending at the same time."""
FINAL_WAIT_S: Final = 120.0
"""How long all final operations may take."""

Connect = Callable[[str, str], Connection]
"""``connect(node, client_id)`` returns a connection that may not be open yet."""

MakeClient = Callable[[int], Client | BlockingClient]
"""Makes the client of a thread."""


class FaultInjector(Protocol):
    """Carries out faults; ``nemesis.inject.Injector`` is one."""

    @property
    def active(self) -> list[str]: ...

    @property
    def out(self) -> Collection[str]: ...

    def start(self, number: int, fault: Fault) -> FaultEvent: ...

    def stop(self, number: int) -> FaultEvent: ...

    def heal_all(self) -> list[FaultEvent]: ...

    def troubles(self, event: FaultEvent) -> Sequence[Trouble]:
        """Return the troubles in the ``error`` of this event; called once, right after it."""
        ...


class _Worker:
    """The thread of one client, with its connections."""

    def __init__(
        self,
        number: int,
        client: Client | BlockingClient,
        connect: Connect,
        ended: Callable[[int, int, Completion], None],
    ) -> None:
        self.client = client
        # Checked once: a check against a protocol takes longer than the rest of an attempt.
        self._blocking = client if isinstance(client, BlockingClient) else None
        self._forgetful = client if isinstance(client, Forgetful) else None
        self._number = number
        self._connect = connect
        self._ended = ended
        self._process = number
        self._connections: dict[str, Connection] = {}
        self._orders: queue.SimpleQueue[Invoke | str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"client-{number}", daemon=True)
        self._thread.start()

    def order(self, order: Invoke | str | None) -> None:
        """Queue an attempt; ``"renew"`` begins another process, None ends the thread."""
        self._orders.put(order)

    def place(self) -> str:
        """Return where in the client's code the thread is."""
        frames = sys._current_frames()
        return blocked_at(self.client, frames.get(self._thread.ident or -1))

    def join(self, wait_s: float) -> None:
        """Wait for the end of the thread."""
        self._thread.join(wait_s)

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            if isinstance(order, Invoke):
                self._process = order.op.process
                completion = storable(self.client, self._attempt(order))
                self._ended(self._number, order.op.index, completion)
                continue
            with suppress(Exception):
                self.client.reset()
            self._disconnect()
        self.close()

    def _attempt(self, invoke: Invoke) -> Completion:
        client = self.client
        try:
            if self._blocking is not None:
                return checked(client, self._blocking.invoke(invoke.op))
            if invoke.number is not None and self._forgetful is not None:
                self._forgetful.forget(invoke.number)
            attempt = Attempt(cast(Client, client), invoke.op)
            step = attempt.advance()
            while not isinstance(step, Completion):
                if isinstance(step, Pause):
                    time.sleep(step.ms / 1000)
                    step = attempt.advance(Answer("ok"))
                else:
                    step = attempt.advance(self._call(step))
            return step
        except BaseException as error:  # SystemExit, too: the thread must go on
            return unusable(client, error)

    def _call(self, call: Call) -> Answer:
        connection = self._connections.get(call.node)
        if connection is None:
            connection = self._connect(call.node, f"kraftwreck-{self._process}")
            self._connections[call.node] = connection
        return connection.send(call.request, call.timeout_ms)

    def _disconnect(self) -> None:
        for connection in list(self._connections.values()):
            with suppress(Exception):
                connection.close()
        self._connections.clear()

    def close(self) -> None:
        """Release everything that the client holds; also of one that hangs."""
        self._disconnect()
        if self._blocking is not None:
            with suppress(Exception):
                self._blocking.close()


class Threads:
    """Carries out what ``interpreter`` commands; ``clock`` is ns since the start of the test.

    ``client_of`` makes the client of a thread, ``history`` and ``faults`` receive the recordings.
    """

    def __init__(
        self,
        interpreter: Interpreter,
        *,
        client_of: MakeClient,
        connect: Connect,
        concurrency: int,
        injector: FaultInjector,
        history: JsonLines,
        faults: JsonLines,
        clock: Callable[[], int],
        compare: Callable[[], bool] = lambda: False,
    ) -> None:
        """``compare`` compares the members of the system, and returns whether they differ."""
        self.injector = injector
        self.errors: list[Trouble] = []
        """Failed injections and failed healing."""
        self.failure: Exception | None = None
        """Set when the recordings cannot be written or a generator fails; the run must end."""
        self.differ = False
        """Whether a comparison has found that members differ; the run may end."""
        self._compare = compare
        self._interpreter = interpreter
        self._client_of = client_of
        self._connect = connect
        self._concurrency = concurrency
        self._history, self._fault_lines = history, faults
        self._clock = clock
        self._events: queue.SimpleQueue[Event | Callable[[], None]] = queue.SimpleQueue()
        self._alarms: list[tuple[int, int, Alarm]] = []
        self._order = itertools.count()
        self._workers: dict[int, _Worker] = {}
        self._busy: set[int] = set()
        self._changed = threading.Condition()
        self._over = False
        self._striking = ThreadPoolExecutor(1, thread_name_prefix="nemesis-start")
        self._undoing = ThreadPoolExecutor(UNDOING, thread_name_prefix="nemesis-stop")
        self._pending: set[Future[None]] = set()
        self._recording = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="interpreter", daemon=True)

    # --- for the run ------------------------------------------------------------------

    @property
    def needs_traces(self) -> bool:
        """Whether a fault starts only if :meth:`see` is called; those of storms fall back."""
        return self._interpreter.faults.needs_traces

    @property
    def waiting(self) -> int:
        """The number of armed faults that wait for their transitions."""
        return self._interpreter.faults.waiting

    @property
    def summary(self) -> str:
        """Counts for people: ``12 ok, 3 fail, 1 info``."""
        counts = self._interpreter.operations.by_type
        return ", ".join(f"{counts[kind]} {kind}" for kind in (OK, FAIL, INFO))

    def count(self, kind: str = INVOKE) -> int:
        """Return how many operations of the history have this type."""
        return self._interpreter.operations.by_type[kind]

    def start(self) -> None:
        """Start clients and faults."""
        for number in range(self._concurrency):
            self._workers[number] = self._worker(number)
        self._events.put(Begin(self._clock()))
        self._thread.start()

    def see(self, transition: TraceEvent, happened: int) -> None:
        """Process a transition that was traced at ``happened`` (ns); from any thread."""
        if self._interpreter.faults.awaits(transition.kind):
            self._events.put(Seen(self._clock(), transition, happened))

    def heal(self, wait_s: float = 30.0) -> None:
        """Stop firing, wait for pending faults, and undo every fault.

        Errors are recorded, never raised. The faults are undone even if they cannot be recorded.
        """
        deadline = time.monotonic() + wait_s
        self._feed(lambda: Heal(), wait_s)
        wait(self._pending, max(0.0, deadline - time.monotonic()))
        self._feed(lambda: Heal(), 5.0)  # Everything that was pending is recorded before this.
        for pool in (self._striking, self._undoing):
            pool.shutdown(wait=False, cancel_futures=True)
        for event in self.injector.heal_all():
            self._note(event)

    def stop(self, wait_s: float) -> int:
        """Begin no operations, wait for open ones, and end the rest as ``info``.

        Returns how many operations were ended.
        """
        self._feed(lambda: Stop(self._clock()), wait_s + 1.0)
        return self._settle(wait_s)

    def final(self, planned: Sequence[Planned], client: Client | BlockingClient) -> None:
        """Carry out the final operations by ``client``, one after the other."""
        self._retire(0)
        self._workers[0] = _Worker(0, client, self._connect, self._ended)
        self._feed(lambda: FinalPhase(self._clock(), planned), 10.0)
        self._settle(FINAL_WAIT_S)

    def close(self) -> None:
        """End all threads; threads of clients that hang are left behind."""
        with self._changed:
            self._over = True
        self._events.put(lambda: None)
        if self._thread.is_alive():
            self._thread.join(5.0)
        for worker in self._workers.values():
            worker.order(None)
        for pool in (self._striking, self._undoing):
            pool.shutdown(wait=False, cancel_futures=True)

    def _settle(self, wait_s: float) -> int:
        """Wait until no operation is open; return how many had to be ended."""
        operations = self._interpreter.operations
        with self._changed:
            self._changed.wait_for(lambda: operations.idle or self._over, wait_s)
        before = operations.by_type[INFO]
        if not operations.idle:
            self._feed(lambda: Abandon(self._clock()), 5.0)
        return operations.by_type[INFO] - before

    def _feed(self, make: Callable[[], Event], wait_s: float) -> None:
        """Process an event, made at its time, in the interpreter's thread; wait until it is."""
        done = threading.Event()

        def feed() -> None:
            self._step(make())
            done.set()

        if not self._thread.is_alive():
            return
        self._events.put(feed)
        deadline = time.monotonic() + wait_s
        while not done.wait(0.05) and self._thread.is_alive() and time.monotonic() < deadline:
            pass

    # --- the interpreter's thread -----------------------------------------------------

    def _work(self) -> None:
        try:
            while not self._over:
                event = self._next()
                if callable(event):
                    event()
                elif event is not None:
                    self._step(event)
                with self._changed:
                    self._changed.notify_all()
        except Exception as error:
            self.failure = self.failure or error
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _next(self) -> Event | Callable[[], None] | None:
        """Wait for an event or the next alarm."""
        left = None
        if self._alarms:
            left = (self._alarms[0][0] - self._clock()) / 1e9
            if left <= 0:
                return Ring(self._clock(), heapq.heappop(self._alarms)[2])
        try:
            return self._events.get(timeout=left)
        except queue.Empty:
            return None

    def _step(self, event: Event) -> None:
        for command in self._interpreter.step(event):
            self._do(command)

    def _do(self, command: Command) -> None:
        match command:
            case Wake():
                heapq.heappush(self._alarms, (command.at, next(self._order), command.alarm))
            case Record():
                self._history.write(command.op)
            case Invoke():
                self._workers[command.thread].order(command)
            case Renew():
                self._workers[command.thread].order("renew")
            case Drop():
                self._retire(command.thread)
                self._workers[command.thread] = self._worker(command.thread)
            case Abort():
                self._abort(command.thread, command.op)
            case Strike():
                self._pending.add(self._striking.submit(self._strike, command))
            case Undo():
                # A node may take seconds to start; nothing else must wait for it.
                self._pending.add(self._undoing.submit(self._undo, command))
            case Note():
                self._note(command.event)
            case Compare():
                self._pending.add(self._undoing.submit(self._compared))

    def _worker(self, number: int) -> _Worker:
        return _Worker(number, self._client_of(number), self._connect, self._ended)

    def _ended(self, thread: int, index: int, completion: Completion) -> None:
        def feed() -> None:
            self._step(Ended(self._clock(), thread, index, completion))

        self._events.put(feed)

    def _abort(self, number: int, op: Op) -> None:
        """Leave a client that hangs behind, and continue with another."""
        place = self._workers[number].place()
        self._retire(number)
        self._workers[number] = self._worker(number)
        error = f"the client did not return; it hangs at {place}"
        self._step(Ended(self._clock(), number, op.index, Completion(INFO, error=error)))

    def _retire(self, number: int) -> None:
        """Let the worker end after its attempt, and close its connections now."""
        worker = self._workers[number]
        worker.order(None)
        threading.Thread(target=worker.close, name=f"retire-{number}", daemon=True).start()

    # --- faults -----------------------------------------------------------------------

    def _strike(self, strike: Strike) -> None:
        try:
            struck = self.injector.start(strike.number, strike.fault)
        except Exception as error:
            self.failure = self.failure or error
            return
        self._events.put(Struck(strike.number, struck))

    def _undo(self, undo: Undo) -> None:
        try:
            undone = self.injector.stop(undo.number)
        except Exception as error:
            self.failure = self.failure or error
            return
        self._events.put(Undone(undo.number, undone))

    def _compared(self) -> None:
        try:
            self.differ = self._compare() or self.differ
        except Exception as error:
            self.failure = self.failure or error
        self._events.put(Compared(self._clock()))

    def _note(self, event: FaultEvent) -> None:
        with self._recording:
            if event.error is not None:
                text = f"{event.kind} {event.phase}: {event.error}"
                self.errors.append(Trouble.together(self.injector.troubles(event), text))
            try:
                self._fault_lines.write(event)
            except StoreError as error:
                self.failure = self.failure or error
