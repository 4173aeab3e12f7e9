"""The shell around the pure node: sockets, clocks and the disk, on one asyncio thread.

Each event is one synchronous step, with no await in it::

    event → node.step → input log → durable effects (fsync) → traces → sends and answers

So nothing is sent before it is on the disk, and a crash loses only messages. Records of users
reach the page cache, see ``nodes.replication.effects``.

In a node that stores records, durable effects of the quorum that may wait for the disk run in a
thread. The next events of the quorum wait for them, events of the data plane do not. The data plane
acts by its own state and by metadata that was durable before (``nodes.node``). So its answers and
fetches promise nothing that the disk does not have yet, and leave at once. Traces, and requests to
controllers, keep the order of the steps. So those of the data plane wait, too, and a process that
dies meanwhile leaves a trace that ends before the flush.
"""

from __future__ import annotations

import asyncio
import gc
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, get_args

from kraftwreck.nodes.consensus.effects import (
    WAITING,
    Abandon,
    ApiReply,
    FatalError,
    Reply,
    Send,
    SendApi,
    Shutdown,
    SnapshotReply,
    Stopped,
    Tick,
    Trace,
)
from kraftwreck.nodes.effects import NodeEffect, NodeEvent
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.errors import SNAPSHOT_NOT_FOUND
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication.events import is_from_shell
from kraftwreck.nodes.server.console import say
from kraftwreck.nodes.server.disk_worker import Elsewhere
from kraftwreck.nodes.server.exit_status import DISK_FAILED, FATAL, STOPPED
from kraftwreck.nodes.server.input_log import InputLog
from kraftwreck.nodes.server.partition_files import PartitionFiles
from kraftwreck.nodes.server.record_requests import Answer
from kraftwreck.nodes.server.storage import Storage
from kraftwreck.nodes.server.trace_file import TraceFile

SHUTDOWN_LIMIT_S: Final = 5.0
BROKER_SHUTDOWN_LIMIT_S: Final = 8.0
"""How long a broker may wait until other brokers lead its partitions."""
_MICROSECOND: Final = 1e-6
_STALE_TICK_S: Final = 0.001


def monotonic_us() -> int:
    """Return the monotonic clock in microseconds."""
    return time.monotonic_ns() // 1000


def wall_clock_us() -> int:
    """Return the wall clock in microseconds since 1970."""
    return time.time_ns() // 1000


class Shell:
    """Runs one node until it stops.

    ``send``, ``send_api``, ``reply``, ``abandon``, ``fetch`` and ``reply_records`` pass messages to
    the network. ``files`` are the logs of users, None without a data plane. ``broker_epoch`` is
    that of a broker that has stopped cleanly, -1 before and otherwise. ``loop`` (None: the running
    one) calls the timers; ``mono_us`` and ``wall_us`` are the clocks.
    """

    def __init__(
        self,
        node: Node,
        storage: Storage,
        traces: TraceFile,
        inputs: InputLog,
        shutdown_limit_s: float = SHUTDOWN_LIMIT_S,
        *,
        files: PartitionFiles | None = None,
        elsewhere: Elsewhere | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        mono_us: Callable[[], int] = monotonic_us,
        wall_us: Callable[[], int] = wall_clock_us,
    ) -> None:
        self._node = node
        self._storage = storage
        self._traces = traces
        self._inputs = inputs
        self._files = files
        self._elsewhere = elsewhere
        self._has_tidied = False
        self._is_flushing = False
        self._later: deque[NodeEvent] = deque()
        """Events of the quorum that wait for its disk."""
        self._unsaid: deque[tuple[Sequence[NodeEffect], int, int]] = deque()
        """Effects, monotonic and wall-clock time of the steps since the flush began."""
        self._fatal: tuple[str, int, int] | None = None
        """Reason and times of an illegal state that a step has reached since the flush began."""
        self._caused: deque[NodeEvent] = deque()
        """Events that the disk has answered the last step with."""
        self._loop = loop or asyncio.get_running_loop()
        self._mono_us = mono_us
        self._wall_us = wall_us
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = -1
        self._ticked_for = -1
        self._stopping = False
        self._shutdown_limit_s = shutdown_limit_s
        self.broker_epoch = -1
        self.send: Callable[[Send], None] = _unconnected
        self.send_api: Callable[[SendApi], None] = _unconnected
        self.reply: Callable[[Reply | ApiReply], None] = _unconnected
        self.abandon: Callable[[Abandon], None] = _unconnected
        self.fetch: Callable[[data.FetchFrom | data.AskOffsets], None] = _unconnected
        self.reply_records: Callable[[Answer], None] = _unconnected
        self.exit_status: asyncio.Future[int] = self._loop.create_future()

    def begin(self, effects: Sequence[NodeEffect], now: int, wall_us: int) -> None:
        """Carry out the effects of the node's start, then begin to serve."""
        self._carry_out(effects, now, wall_us)
        self._settle()

    def submit(self, *events: NodeEvent) -> None:
        """Let the node handle ``events``, completely, and then what its disk answers to them; after
        the node has stopped, do nothing."""
        for event in events:
            if self._is_flushing and not is_from_shell(event):
                self._later.append(event)
            else:
                self._step(event)
        self._settle()

    def shut_down(self) -> None:
        """Stop gracefully, within bounded time."""
        if not self._stopping:
            self._stopping = True
            self._loop.call_later(self._shutdown_limit_s, self._give_up)
            self.submit(Shutdown())

    def fatal(self, reason: str, now: int, wall_us: int) -> None:
        """Stop at once because an illegal state was reached."""
        say(f"fatal: {reason}")
        try:
            self._traces.fatal(reason, now, wall_us)
        except OSError as error:
            say(f"cannot write the trace: {error}")
        self._stop(FATAL)

    # --- inside -----------------------------------------------------------------------------

    def _settle(self) -> None:
        """Handle what the last step has caused, then wait for the next tick."""
        while self._caused:
            self._step(self._caused.popleft())
        self._arm()

    def _step(self, event: NodeEvent) -> None:
        if self.exit_status.done() or self._fatal is not None:
            return
        now, wall_us = self._mono_us(), self._wall_us()
        effects: list[NodeEffect] | None = None
        reason = ""
        try:
            effects = self._node.step(event, now, wall_us // 1000)
        except FatalError as end:
            reason = str(end)
        except Exception as defect:  # the node's state is unreliable
            reason = f"{defect!r} at {traceback.extract_tb(defect.__traceback__)[-1]}"
        try:
            self._inputs.step(event, now, wall_us, effects)
        except OSError as error:
            self._disk_failed(error, now, wall_us)
            return
        if effects is None:
            if self._is_flushing:  # The traces of the steps before come first.
                self._fatal = reason, now, wall_us
            else:
                self.fatal(reason, now, wall_us)
            return
        self._carry_out(effects, now, wall_us)
        if self._node.loader.busy:
            # A large image that is being loaded is not garbage: scanning all of it repeatedly would
            # delay the node for seconds.
            gc.freeze()

    def _carry_out(self, effects: Sequence[NodeEffect], now: int, wall_us: int) -> None:
        waits = self._elsewhere is not None and not WAITING.isdisjoint(map(type, effects))
        try:
            if self._files is not None:
                self._caused.extend(self._files.carry_out_all(effects))
                if not self._has_tidied:
                    self._tidy(self._files)
            if self._elsewhere is not None and waits:
                assert not self._is_flushing, "events of the quorum wait for its disk"
                self._is_flushing = True
                work = partial(self._storage.carry_out, effects)
                self._elsewhere(work, self._flushed)
            elif not self._is_flushing:
                self._storage.carry_out(effects)
        except (OSError, ValueError) as error:
            self.work_failed(error)
            return
        if self._is_flushing:
            self._unsaid.append((effects, now, wall_us))
        else:
            self._say(effects, now, wall_us)
        self._say_of_records(effects)

    def _tidy(self, files: PartitionFiles) -> None:
        """Remove logs of other brokers once it is known which logs are this broker's."""
        broker = self._node.broker
        replicas = None if broker is None else broker.replicas
        if replicas is not None:
            self._has_tidied = True
            files.keep(replicas)

    def _flushed(self, _: None) -> None:
        """Finish the steps whose durable effects are done, and take the events that have waited;
        after the node has stopped, do nothing."""
        self._is_flushing = False
        while self._unsaid and not self.exit_status.done():
            self._say(*self._unsaid.popleft())
        if self._fatal is not None:
            self.fatal(*self._fatal)
        if self.exit_status.done():
            return
        self._settle()
        while self._later and not self._is_flushing:
            self.submit(self._later.popleft())

    def work_failed(self, error: BaseException) -> None:
        """Stop since work on the disk has failed, here or in a thread.

        A disk that fails often fails both: only the first failure stops the node and is traced.
        """
        if self.exit_status.done():
            return
        now, wall_us = self._mono_us(), self._wall_us()
        if isinstance(error, OSError):
            self._disk_failed(error, now, wall_us)
        elif isinstance(error, ValueError):  # batches that do not continue the log
            self.fatal(f"the log cannot take this: {error}", now, wall_us)
        else:
            self.fatal(f"work on the disk: {error!r}", now, wall_us)

    def _say(self, effects: Sequence[NodeEffect], now: int, wall_us: int) -> None:
        """Write the traces, then send the messages, except those of the data plane."""
        try:
            self._traces.write(effects, now, wall_us)
        except OSError as error:
            self._disk_failed(error, now, wall_us)
            return
        for effect in effects:
            say_it = _SAYINGS.get(type(effect))
            if say_it is not None:
                say_it(self, effect)

    def _say_of_records(self, effects: Sequence[NodeEffect]) -> None:
        """Send the messages of the data plane; after the node has stopped, do nothing."""
        if self.exit_status.done():
            return
        for effect in effects:
            say_it = _SAYINGS_OF_RECORDS.get(type(effect))
            if say_it is not None:
                say_it(self, effect)

    def _reply_with_snapshot(self, effect: SnapshotReply) -> None:
        """Answer with a piece of a file; if it cannot be read, answer SNAPSHOT_NOT_FOUND."""
        message = effect.message
        place = (message.snapshot_end, message.snapshot_epoch, message.position)
        try:
            message = replace(message, data=self._storage.read_snapshot(*place, effect.max_bytes))
        except OSError as error:
            # The fetcher starts over, here or elsewhere; this node has promised nothing.
            say(f"cannot read snapshot {place[0]}-{place[1]}: {error}")
            message = replace(message, partition_error=SNAPSHOT_NOT_FOUND)
        self.reply(Reply(effect.token, message))

    def _stopped(self, effect: Stopped) -> None:
        self.broker_epoch = effect.broker_epoch
        self._stop(STOPPED)

    def _disk_failed(self, error: OSError, now: int, wall_us: int) -> None:
        # The durable effects are not on disk, so the node must stop.
        reason = f"the disk failed: {error}"
        say(reason)
        try:
            self._traces.stop(reason, now, wall_us)
        except OSError as failure:
            say(f"cannot write the trace: {failure}")
        self._stop(DISK_FAILED)

    def _give_up(self) -> None:
        if not self.exit_status.done():
            limit = self._shutdown_limit_s
            say(f"no answer from the others within {limit:.0f} s, stopping anyway")
            self._stop(STOPPED)

    def _stop(self, status: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self.exit_status.done():
            self.exit_status.set_result(status)

    def _arm(self) -> None:
        """Set the timer for the node's next tick, unless it is set or would wait for the disk."""
        if self.exit_status.done() or self._is_flushing:
            return
        deadline = self._node.deadline
        if self._timer is not None:
            if deadline == self._armed_for:
                return
            self._timer.cancel()
        self._armed_for = deadline
        delay = max(0.0, (deadline - self._mono_us()) * _MICROSECOND)
        if deadline == self._ticked_for:
            # The last tick did not move its deadline: never spin on that.
            delay = max(delay, _STALE_TICK_S)
        # A longer delay is the same as for ever.
        self._timer = self._loop.call_later(min(delay, 86_400.0), self._tick, deadline)

    def _tick(self, deadline: int) -> None:
        self._timer = None
        self._ticked_for = deadline
        self.submit(Tick())


def _tell_person(trace: Trace) -> None:
    """Log that the controller refuses a broker, which retries for a long time."""
    error = trace.detail.get("error") if trace.kind == "broker" else None
    if error is not None:
        say(f"the controller refuses this broker ({trace.detail.get('state')}): {error}")


def _unconnected(effect: object) -> None:
    raise AssertionError(f"the shell is not connected to a network yet: {effect!r}")


_SAYINGS: Final[dict[type, Callable[[Shell, Any], None]]] = {
    Trace: lambda _, effect: _tell_person(effect),
    Send: lambda shell, effect: shell.send(effect),
    SendApi: lambda shell, effect: shell.send_api(effect),
    Reply: lambda shell, effect: shell.reply(effect),
    ApiReply: lambda shell, effect: shell.reply(effect),
    Abandon: lambda shell, effect: shell.abandon(effect),
    SnapshotReply: Shell._reply_with_snapshot,
    Stopped: Shell._stopped,
}
"""How an effect leaves the node after its step, by its exact type: isinstance is too slow."""
_SAYINGS_OF_RECORDS: Final[dict[type, Callable[[Shell, Any], None]]] = {
    data.FetchFrom: lambda shell, effect: shell.fetch(effect),
    data.AskOffsets: lambda shell, effect: shell.fetch(effect),
    **dict.fromkeys(get_args(Answer), lambda shell, effect: shell.reply_records(effect)),
}
"""The same for the effects of the data plane."""
