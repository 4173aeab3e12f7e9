"""Nodes in the shells of real processes: the host code of ``nodes.server`` in virtual time.

Each simulated process is a :class:`~nodes.server.shell.Shell` with its ``Storage``, ``TraceFile``,
``InputLog`` and clean-shutdown file. They use the file system of the simulated host, its clocks,
and timers in virtual time; the simulated network replaces sockets. A step takes no time. Instead
the process dies during some steps, after some changes of files, and sometimes with its host's
power. In a third of the processes a flush takes time beside the process, as in the thread of a real
broker, and events wait for its end.

Beside the rules of every simulated run these hold for each step:

* No trace and no message leaves before the durable effects of its step are on the disk.
* The trace file gets the traces of the step, in order, before its messages leave.
* Every message of the step leaves, in order.
* No event is handled during a flush, and none waits longer.
* A timer is set for the node's next Tick, unless it is to wait for a flush.
* A shutdown ends within its time, whatever the other nodes do.
* A start finds the broker epoch that a clean stop left, and no other.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from functools import partial
from typing import Any, Final, cast

from kraftwreck.nodes.consensus.effects import (
    DURABLE,
    FatalError,
    Shutdown,
    SnapshotReply,
    Stopped,
    Tick,
    Trace,
)
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.nodes.effects import NodeEffect, NodeEvent
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.server import clean_shutdown
from kraftwreck.nodes.server.disk_worker import Elsewhere
from kraftwreck.nodes.server.exit_status import DISK_FAILED, FATAL
from kraftwreck.nodes.server.input_log import InputLog
from kraftwreck.nodes.server.line_file import encode_line
from kraftwreck.nodes.server.shell import SHUTDOWN_LIMIT_S, Shell
from kraftwreck.nodes.server.storage import Storage
from kraftwreck.nodes.server.trace_file import TraceFile
from kraftwreck.simulation.disk import ROOT, Disk
from kraftwreck.simulation.filesystem import Crash
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.virtual_loop import VirtualLoop
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import disk_of, left_epoch
from kraftwreck.systems.kraft.simulated.cluster import SimulatedCluster

TRACES: Final = ROOT / "trace.jsonl"
INPUTS: Final = ROOT / "input.jsonl"

CRASHES: Final = 400
"""One step in this many, of those with durable effects, is one during which the process dies."""

MOST_CHANGES: Final = 12
"""Such a death comes after fewer changes of files than this."""

FLUSHING: Final = 3
"""In one process of this many a flush takes time beside it."""

LONGEST_FLUSH_US: Final = 20_000
"""Such a flush takes no longer, and no longer than one of the disk."""

PAUSE_US: Final = 2_000
"""How late a timer may be: a shell that has ticked without effect waits for a millisecond."""

_LAST_WORDS = ("fatal", "stop")


class Shells:
    """Makes the processes of a run (:class:`~simulation.host.CoreFactory`).

    Processes die during their steps until the virtual time ``limit``, by ``seed``.
    """

    def __init__(self, cluster: SimulatedCluster, seed: int, limit: int) -> None:
        self._cluster = cluster
        self._seed = seed
        self._limit = limit
        self._world: World | None = None

    def join(self, world: World) -> None:
        """Use the time, the network and the watches of ``world``."""
        self._world = world

    def __call__(self, host: Host, recovered: Recovered, now: int, wall_ms: int) -> ShellCore:
        """Return a process. Raises OSError, and FatalError for a wrong clean-shutdown file."""
        assert self._world is not None
        epoch = clean_shutdown.take(ROOT, disk_of(host).files)
        if epoch != left_epoch(host):
            raise FatalError(
                f"a start found the broker epoch {epoch}; the stop before left {left_epoch(host)}"
            )
        config = self._cluster.config(host, epoch)
        node = _Observed(Node(config, recovered, now, wall_ms))
        flushes = draw_below(FLUSHING, self._seed, "shell-flush", host.id, host.life) == 0
        return ShellCore(host, self._world, node, (config, recovered), self._dies, flushes)

    def _dies(self, host: Host, steps: int) -> int | None:
        """Return a number if the process dies during its present step, None otherwise."""
        assert self._world is not None
        if self._world.now >= self._limit:
            return None
        key = self._seed, "shell", host.id, host.life, steps
        return draw(*key, "how") if draw_below(CRASHES, *key) == 0 else None


class _Idle:
    """A loader with nothing to do: the shell must not freeze the simulator's own objects."""

    busy = False


class _Observed:
    """A node that keeps the effects of its last step, and the exception that ended it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.loader = _Idle()
        self.error: Exception | None = None
        self.handled = 0
        """How many events other than Ticks the node has got."""
        self.on_effects: Callable[[Sequence[NodeEffect]], None] = lambda effects: None

    @property
    def deadline(self) -> int:
        return self.node.deadline

    def step(self, event: NodeEvent, now: int, wall_ms: int) -> list[NodeEffect]:
        self.handled += type(event) is not Tick
        try:
            effects = self.node.step(event, now, wall_ms)
        except Exception as error:
            self.error = error
            raise
        self.on_effects(effects)
        return effects


class _Watched:
    """The storage of the process's disk, which records what it carries out."""

    def __init__(self, disk: Disk, told: Callable[[Any], None]) -> None:
        self._disk = disk
        self._told = told

    def carry_out(self, effects: Sequence[NodeEffect]) -> None:
        self._disk.carry_out(effects, self._told)

    def read_snapshot(self, end_offset: int, epoch: int, position: int, max_bytes: int) -> bytes:
        return self._disk.storage.read_snapshot(end_offset, epoch, position, max_bytes)


class ShellCore:
    """One process (:class:`~simulation.host.Core`): a shell and its node.

    With ``flushes`` its flushes take time. Returns what left the shell as effects. Raises
    FatalError where the shell breaks a rule of the module, and OSError if its disk failed.
    """

    def __init__(
        self,
        host: Host,
        world: World,
        node: _Observed,
        recovered: tuple[NodeConfig, Recovered],
        dies: Callable[[Host, int], int | None],
        flushes: bool = False,
    ) -> None:
        self._host = host
        self._world = world
        self._node = node
        self._recovered = recovered
        self._dies = dies
        self._disk = disk_of(host)
        files = self._disk.files
        self._loop = VirtualLoop(self._mono)
        self._traces = TraceFile(TRACES, host.name, host.incarnation, files)
        self._inputs = InputLog(INPUTS, files)
        self._shell = Shell(
            cast(Node, node),
            cast(Storage, _Watched(self._disk, self._written)),
            self._traces,
            self._inputs,
            elsewhere=cast(Elsewhere, self._flush) if flushes else None,
            loop=cast(asyncio.AbstractEventLoop, self._loop),
            mono_us=self._mono,
            wall_us=self._wall,
        )
        for name in ("send", "send_api", "reply", "abandon"):
            setattr(self._shell, name, self._leave)
        node.on_effects = self._expect
        self._read = len(files.inode(TRACES).data)
        self._steps = 0
        self._owed: list[Any] = []
        self._traced: list[Trace] = []
        self._unsent: list[Any] = []
        self._out: list[Any] = []
        self._broken: str | None = None
        self._last_words = ""
        self._flushed: Callable[[], None] | None = None
        """Ends the flush that is under way."""
        self._since: int | None = None
        """When the step began whose flush has just ended."""
        self._flushes = 0
        self._submitted = 0
        """How many events other than Ticks the shell has got."""
        self._stop_by: int | None = None
        """When a process that was asked to stop has ended, on its own clock."""

    @property
    def deadline(self) -> int:
        """The time of the shell's next timer."""
        return self._loop.deadline

    def start(self, now: int, wall_ms: int) -> list[Any]:
        """Start the node and begin to serve."""
        effects = self._node.node.start(now, wall_ms)
        self._inputs.start(*self._recovered, now, self._wall(), effects)
        self._expect(effects)
        return self._run(lambda: self._shell.begin(effects, now, self._wall()))

    def step(self, event: Any, now: int, wall_ms: int) -> list[Any]:
        """Pass an event to the shell; a Tick stands for timers whose time has come."""
        if type(event) is Tick:
            return self._run(self._loop.run_due)
        self._submitted += 1
        if type(event) is Shutdown:
            self._stop_by = self._mono() + round(SHUTDOWN_LIMIT_S * 1e6)
            return self._run(self._shell.shut_down)
        return self._run(lambda: self._shell.submit(event))

    # --- one step ---------------------------------------------------------------------------

    def _mono(self) -> int:
        return self._host.clock.mono(self._world.now)

    def _wall(self) -> int:
        return self._host.clock.wall(self._world.now)

    def _run(self, action: Callable[[], object]) -> list[Any]:
        self._out = []
        try:
            with redirect_stderr(io.StringIO()):
                action()
            self._drain()
        except Crash:
            self._die_now()
        self._disk.files.survive()
        try:
            self._judge()
        except Exception:
            self._world.emit(self._host, self._out)
            raise
        since, self._since = self._since, None
        if since is None:
            return self._out
        # The watches know that these messages are those of an earlier step.
        self._host.stepped_at = since
        self._world.emit(self._host, self._out)
        return []

    def _flush(self, work: Callable[[], object], done: Callable[[object], None]) -> None:
        """Carry out ``work`` and call ``done`` some time later."""
        self._flushes += 1
        key = self._world.seed, "shell-flush", self._host.id, self._host.life, self._flushes

        begun = self._world.now

        def end() -> None:
            if self._flushed is not end:
                return
            self._flushed, self._since = None, begun
            try:
                result = work()
            except (OSError, ValueError) as error:
                self._shell.work_failed(error)
            else:
                done(result)

        self._flushed = end
        knobs = self._world.knobs
        most = min(knobs.fsync_max, LONGEST_FLUSH_US)
        self._loop.call_later(draw_below(most + 1, *key) / 1e6, end)

    def _expect(self, effects: Sequence[NodeEffect]) -> None:
        """Note what the shell owes for a step, and perhaps let the process die during it."""
        if self._flushed is not None:
            self._break("an event was handled during a flush")
        self._drain()  # The end of a flush lets a process handle several events at once.
        for left in (*self._owed, *self._traced, *self._unsent):
            self._break(f"{type(left).__name__} of the step before was left out")
        self._owed = [each for each in effects if type(each) in DURABLE]
        self._traced = [each for each in effects if type(each) is Trace]
        quiet = (*DURABLE, Trace, Stopped)
        self._unsent = [each for each in effects if type(each) not in quiet]
        if self._owed and self._host.trace_seq:
            self._steps += 1
            number = self._dies(self._host, self._steps)
            if number is not None:
                self._disk.files.crash_after(number % MOST_CHANGES, number >> 8)

    def _written(self, effect: Any) -> None:
        """Note that the disk has a durable effect."""
        for told in self._world.on_disk:
            told(self._host, effect)
        self._world.fact(f"d {self._host.id} {self._disk.fact(effect)}")
        if effect in self._owed:
            self._owed.remove(effect)

    def _leave(self, effect: Any) -> None:
        """Take a message that leaves the process."""
        self._drain()
        name = type(effect).__name__
        if self._owed:
            self._break(f"{name} left before {type(self._owed[0]).__name__} was on the disk")
        if self._traced:
            self._break(f"{name} left before the trace {self._traced[0].kind} was written")
        due = self._unsent.pop(0) if self._unsent else None
        same = due is effect or (type(due) is SnapshotReply and due.token == effect.token)
        if not same:
            self._break(f"{name} left instead of {type(due).__name__}")
        self._out.append(effect)

    def _drain(self) -> None:
        """Take the lines that the trace file got since the last call."""
        data = bytes(self._disk.files.inode(TRACES).data)
        new, self._read = data[self._read :], len(data)
        for text in new.splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # A line that a crash tore.
            if line["kind"] in _LAST_WORDS and not (self._traced and _says(line, self._traced[0])):
                self._last_words = str(line["detail"].get("reason"))
                continue
            if self._owed:
                self._break(f"a trace before {type(self._owed[0]).__name__} was on the disk")
            due = self._traced.pop(0) if self._traced else None
            if due is None or not _says(line, due):
                self._break(f"the trace file has a line that the node did not report: {text!r}")
            else:
                self._out.append(due)

    def _break(self, rule: str) -> None:
        self._broken = self._broken or rule

    def _die_now(self) -> None:
        """Let messages that left travel, and end the process with or without its power."""
        host, world = self._host, self._world
        out, self._out = self._out, []
        world.emit(host, out)
        number = draw(world.seed, "shell-death", host.id, host.life, self._steps)
        world.kill(host.name, lose_power=number % 2 == 0)
        again = world.now + 1_000 + (number >> 8) % 1_000_000
        world.at(again, partial(_start, world, host.name), f"again {host.id}")
        raise RuntimeError("the process died during its step")

    def _judge(self) -> None:
        """Check what the shell has done when its step is over."""
        ended = self._shell.exit_status
        status = ended.result() if ended.done() else None
        if self._node.error is not None:
            raise self._node.error
        if self._broken is not None:
            raise FatalError(self._broken)
        if status == FATAL:
            raise FatalError(self._last_words or "the shell stopped without a reason")
        if status == DISK_FAILED:
            raise OSError(self._last_words or "the disk failed")
        if self._flushed is not None:
            if status is None:
                return
            # The time to stop was over. What had begun ends, and nothing is said of it.
            self._flushed()
            self._traced, self._unsent = [], []
        owed = [*self._owed, *self._traced, *self._unsent]
        if owed:
            raise FatalError(f"the shell has not carried out {type(owed[0]).__name__}")
        if status is None:
            self._judge_waits()
        else:
            self._disk.storage.close()
            if self._shell.broker_epoch >= 0:
                clean_shutdown.write(ROOT, self._shell.broker_epoch, self._disk.files)
            self._out.append(Stopped(self._shell.broker_epoch))

    def _judge_waits(self) -> None:
        """Check what waits in a shell whose disk is idle."""
        now, due = self._mono(), self._loop.deadline
        if self._node.handled < self._submitted:
            raise FatalError("an event waits although no flush is under way")
        if due > max(self._node.deadline, now) + PAUSE_US:
            raise FatalError(f"the next Tick is due {due - self._node.deadline} us too late")
        if self._stop_by is not None and self._stop_by not in self._loop.times():
            raise FatalError("nothing ends a shutdown that takes too long")


def _start(world: World, name: str) -> None:
    world.start(name)


def _says(line: dict[str, Any], trace: Trace) -> bool:
    """Whether a line of the trace file has the content of ``trace``."""
    names = ("kind", "state", "epoch", "leader", "voted", "leo", "hw")
    detail = json.loads(encode_line(trace.detail))
    return line["detail"] == detail and all(line[name] == getattr(trace, name) for name in names)
