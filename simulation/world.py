"""The deterministic world: nodes, their disks and clocks, the network, and the faults.

Every processed event feeds a digest, so two runs are the same run exactly when their
digests agree. Nothing here depends on the real world (see ``simulation.fence``).
**Persist before you speak** is enforced here. The durable effects of a step take virtual time,
one after the other. Its messages and traces leave after them, and a kill in between loses the
rest. The node is busy meanwhile and its messages wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import (
    Abandon,
    FatalError,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    Shutdown,
    Stopped,
    Tick,
    Trace,
)
from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.simulation.binding import Binding, Outlet
from kraftwreck.simulation.calls import Done
from kraftwreck.simulation.clocks import Clock
from kraftwreck.simulation.deaths import failed, last_words, refuses
from kraftwreck.simulation.disk_trouble import DiskError
from kraftwreck.simulation.disk_work import DiskWorker
from kraftwreck.simulation.host import CoreFactory, Host, SimulatedDisk
from kraftwreck.simulation.inbox import shuffle
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.simulation.pieces import Piece
from kraftwreck.simulation.timeline import DISK, TIMER, Timeline, WorldError
from kraftwreck.simulation.turns import MakeGathering, Turns
from kraftwreck.simulation.wires import Wires

_BUSY_LOOP = 5000
"""Ticks in a row that request the next at once and write nothing: loading a large snapshot in
pieces takes a thousand. Those that write wait for the disk, as often as there is work."""

_AT_ONCE = 1_000
"""The shortest time in microseconds from a Tick to the next: a step takes time."""

_STALL = 200_000
"""Microseconds of disk work after which a process counts as stopped meanwhile."""


class World(Timeline):
    """Machines in virtual time.

    ``names`` are the hosts in order; the id of a node is its position + 1. ``factory`` makes their
    cores, whose messages and effects ``binding`` knows. ``events`` collects the traces, in order of
    time. Callbacks: ``on_trace`` gets each trace event, ``on_write`` each durable operation before
    it changes the disk, ``on_disk`` each just before it counts as written. ``on_caused`` gets each
    event of a disk before its process handles it, ``on_work`` each host where work beside the
    process has ended. ``on_emit`` gets each host whose process has effects, when all of them are on
    the disk and none has left. ``on_step`` gets each event after its core has handled it,
    ``on_request`` and ``on_response`` each request of a node and each answer to one as its node
    begins to handle it. ``on_wipe`` gets each disk that was replaced by an empty one,
    ``on_recovery`` the faults that a start found on its disk.
    """

    def __init__(
        self,
        names: Sequence[str],
        factory: CoreFactory,
        seed: int,
        knobs: WorldKnobs,
        binding: Binding,
    ) -> None:
        super().__init__()
        self.seed = seed
        self.knobs = knobs
        self.events: list[TraceEvent] = []
        self.on_trace: list[Callable[[Host, TraceEvent], None]] = []
        self.on_step: list[Callable[[Host, Any], None]] = []
        self.on_emit: list[Callable[[Host], None]] = []
        self.on_request: list[Callable[[Host, Any], None]] = []
        self.on_response: list[Callable[[Host, ResponseReceived], None]] = []
        self.on_wipe: list[Callable[[Host], None]] = []
        self.on_recovery: list[Callable[[Host, list[str]], None]] = []
        self._factory = factory
        self._hosts: dict[int, Host] = {}
        self._ids: dict[str, int] = {}
        for position, name in enumerate(names):
            node_id = position + 1
            self._ids[name] = node_id
            self._hosts[node_id] = Host(
                id=node_id,
                name=name,
                disk=binding.new_disk(),
                clock=Clock(
                    draw_below(self.knobs.mono_spread, seed, "mono", node_id),
                    draw_below(self.knobs.wall_spread, seed, "wall", node_id),
                ),
            )
        self.hosts = list(self._hosts.values())
        self.wires = Wires(self, self._hosts, seed, self.knobs, self.deliver, binding)
        self._disks = DiskWorker(self, seed, self.knobs, binding.durable)
        self._turns: Turns | None = None
        self.binding = binding
        self._durable = binding.durable
        self._outlets: dict[type, Outlet] = {
            Trace: self.trace,
            Send: self.wires.send,
            Reply: self.wires.reply,
            Abandon: self.wires.abandon,
            **binding.outlets(self),
        }
        self.register("disk", DISK, self._on_disk_done)
        self.register("piece", DISK, self._on_piece)
        self.register("timer", TIMER, self._on_timer)
        self.register("give-up", TIMER, self._on_give_up)

    @property
    def on_write(self) -> list[Callable[[Host, Any], None]]:
        """Callbacks for each durable operation, called before it changes the disk."""
        return self._disks.on_write

    @property
    def on_disk(self) -> list[Callable[[Host, Any], None]]:
        """Callbacks for each durable operation, called just before it counts as written."""
        return self._disks.on_disk

    @property
    def on_caused(self) -> list[Callable[[Host, Any], None]]:
        """Callbacks for each event of a disk, called before its process handles it."""
        return self._disks.on_caused

    @property
    def on_work(self) -> list[Callable[[Host], None]]:
        """Callbacks for hosts where work on the disk beside the process has ended."""
        return self._disks.on_work

    def host(self, name: str) -> Host:
        """Return the host called ``name``; raises :class:`WorldError` for an unknown one."""
        if name not in self._ids:
            raise WorldError(f"no host {name!r}; there are {', '.join(self._ids)}")
        return self._hosts[self._ids[name]]

    def call(
        self,
        client: int,
        node: str,
        request: Any,
        timeout: int,
        done: Done,
        listener: str | None = None,
    ) -> None:
        """Send a client's request; ``done`` is called once with the outcome.

        ``client`` numbers the connection. Requests are not copied here: neither side may change
        one after the call. ``timeout`` is in microseconds, ``listener`` the name of the listener to
        connect to, None for the host's own.
        """
        host = self.host(node)
        self.wires.calls.call(client, host, request, timeout, done, listener)

    def gather(self, length: int, kinds: frozenset[type], make: MakeGathering) -> None:
        """Let each process handle requests of the types ``kinds`` together that arrive during one
        turn of its event loop, ``length`` µs. ``make`` makes what gathers them."""
        self._turns = Turns(self, length, kinds, make, self._step, self._drain)

    # --- faults -----------------------------------------------------------------------

    def start(self, name: str) -> bool:
        """Start the node's process from its disk; False if one runs already, or if the disk
        is damaged or fails and the process refuses it."""
        host = self.host(name)
        if host.node is not None:
            return False
        host.life += 1
        if host.trace_seq or not host.incarnation:
            host.incarnation += 1
            host.trace_seq = 0
        self.fact(f"start {host.id} {host.life}")
        mono, wall_ms = host.clock.mono(self.now), host.clock.wall(self.now) // 1000
        try:
            recovered = self._disks.recover(host)
        except Exception as error:
            if not refuses(host, error):
                self._die(host, error)
                return True
            host.disk.refuse(str(error))
            self.fact(f"refused {host.id}")
            return False
        if host.disk.findings:
            for told in self.on_recovery:
                told(host, host.disk.findings)
        try:
            host.node = self._factory(host, recovered, mono, wall_ms)
            effects = host.node.start(mono, wall_ms)
        except Exception as error:
            self._ended_by(host, error)
            return True
        self._execute(host, effects)
        self._arm(host)
        return True

    def kill(self, name: str, *, lose_power: bool = False) -> bool:
        """End the node's process without warning; False if none runs.

        Its peers see their connections reset. The disk keeps what was written, or with
        ``lose_power`` only what was flushed and some prefix of the rest.
        """
        host = self.host(name)
        if host.node is None:
            return False
        self.fact(f"kill {host.id} {lose_power}")
        self._disks.interrupt(host)
        if lose_power:
            host.disk.lose_power(draw(self.seed, "power", host.id, host.life))
        self._end(host)
        return True

    def stop(self, name: str, limit: int) -> bool:
        """Ask the node's process to shut down (SIGTERM); False if none runs, or it was asked
        before. After ``limit`` microseconds it ends in any case."""
        host = self.host(name)
        if host.node is None or host.stopping:
            return False
        self.fact(f"stop {host.id}")
        host.stopping = True
        self.schedule(self.now + limit, "give-up", host, host.life)
        self.deliver(host, Shutdown())
        return True

    def wipe(self, name: str, disk: SimulatedDisk) -> None:
        """Replace the host's disk by ``disk``; raises WorldError while a process runs."""
        host = self.host(name)
        if host.node is not None:
            raise WorldError(f"the disk of {name} is in use")
        self.fact(f"wipe {host.id} {disk.directory.hex()}")
        host.disk, host.left = disk, None
        for told in self.on_wipe:
            told(host)

    def pause(self, name: str) -> bool:
        """Stop the process (SIGSTOP); messages to it queue up. False if it is impossible."""
        host = self.host(name)
        if host.node is None or host.paused:
            return False
        self.fact(f"pause {host.id}")
        host.paused = True
        return True

    def resume(self, name: str) -> bool:
        """Resume a stopped process: it finds all queued messages, and a later clock."""
        host = self.host(name)
        if host.node is None or not host.paused:
            return False
        self.fact(f"resume {host.id}")
        host.paused = False
        host.resumed_at = self.now
        if host.stalled:
            host.stalled = False
            self.schedule(self.now, "piece", host, host.life)
        shuffle(host, self.binding, self.seed, self.now)
        if host.frozen:
            host.frozen = False
            work, host.busy = host.busy, None
            assert work is not None
            host.stepped_at = work.begun
            self.emit(host, work.effects)
        elif host.busy is None and draw(self.seed, "resume", host.id, self.now) & 1:
            # Expired timers and waiting messages are both ready: either may come first.
            self._step(host, Tick())
        self._drain(host)
        return True

    def cut(self, grudges: Mapping[str, Set[str]]) -> None:
        """Make each named receiver drop the messages of the named senders from now on."""
        ids = {self._ids[n]: {self._ids[s] for s in grudges[n]} for n in sorted(grudges)}
        self.fact("cut " + ";".join(f"{r}<{sorted(ids[r])}" for r in sorted(ids)))
        self.wires.network.cut(ids)

    def heal(self) -> dict[str, int]:
        """Undo all cuts; return how many messages each node had dropped."""
        self.fact("heal")
        dropped = self.wires.heal()
        return {host.name: dropped.get(host.id, 0) for host in self.hosts}

    def disturb(self, wanted: Sequence[Disturbance]) -> dict[str, int]:
        """Put the disturbances ``wanted``, and no others, in force from now on.

        Returns the number of disturbed messages by effect since the last call.
        """
        self.fact(f"disturb {wanted}")
        return self.wires.disturbances.set(wanted, self._ids)

    def set_clock(self, name: str, *, wall_us: int, strobe_us: int, rate_ppm: int) -> None:
        """Disturb the host's clocks from now on: see :meth:`simulation.clocks.Clock.set`."""
        host = self.host(name)
        self.fact(f"clock {host.id} {wall_us} {strobe_us} {rate_ppm}")
        host.clock.set(self.now, wall_us, strobe_us, rate_ppm)
        self._arm(host)

    # --- running a node ---------------------------------------------------------------

    def deliver(self, host: Host, event: Any) -> None:
        """Let the host's process handle ``event``, at once or when it can."""
        if host.paused or host.busy is not None:
            host.inbox.append(event)
        elif host.node is not None:
            self._receive(host, event)
            if host.caused:
                self._drain(host)
            else:
                self._arm(host)

    def _receive(self, host: Host, event: Any) -> None:
        """Let the running process handle ``event`` now, or at the end of its turn."""
        if self._turns is not None and self._turns.gathers(event):
            self._turns.add(host, event)
        else:
            self._step(host, event)

    def _step(self, host: Host, event: Any) -> None:
        assert host.node is not None
        if type(event) is Piece:
            self._finish(host, event)
            return
        if type(event) is RequestReceived:
            for told in self.on_request:
                told(host, event.message)
        elif type(event) is ResponseReceived:
            for heard in self.on_response:
                heard(host, event)
        mono, wall = host.clock.both(self.now)
        life = host.life
        try:
            effects = host.node.step(event, mono, wall // 1000)
        except Exception as error:
            if host.node is not None and host.life == life:
                self._ended_by(host, error)
            return
        if self.on_step:
            for watch in self.on_step:
                watch(host, event)
        if effects:
            self._execute(host, effects)

    def _drain(self, host: Host) -> None:
        """Handle the events that queued up while the process could not run, and end a turn that is
        over."""
        while host.busy is None and host.node is not None and not host.paused:
            if host.caused:
                self._step(host, host.caused.popleft())
            elif host.turn_end is not None:
                end, host.turn_end = host.turn_end, None
                end()
            elif host.inbox:
                self._receive(host, host.inbox.popleft())
            else:
                break
        self._arm(host)

    def _arm(self, host: Host, *, ticked: bool = False) -> None:
        """Schedule a Tick at the node's deadline (or earlier); after a Tick, a moment from now."""
        if host.node is None or host.paused or host.busy is not None:
            return
        clock, deadline = host.clock, host.node.deadline
        wake = deadline - clock.mono_offset if clock.steady else clock.due(deadline)
        host.wake = wake
        if host.timer < 0 or wake < host.timer:
            pause = 0
            if ticked:
                pause = self.knobs.step_time if wake <= self.now else _AT_ONCE
            host.timer = max(wake, self.now + pause)
            self.schedule(host.timer, "timer", host, host.life)

    def _on_timer(self, host: Host, life: int, _c: Any) -> None:
        if host.life != life or host.timer != self.now:
            return  # The process is gone, or an earlier Tick replaced this one.
        host.timer = -1
        if host.node is None or host.paused or host.busy is not None:
            return
        if host.wake > self.now:
            # The node has moved its deadline since; it is woken when that passes.
            host.timer = host.wake
            self.schedule(host.wake, "timer", host, life)
            return
        self.fact(f"tick {host.id}")
        self._step(host, Tick())
        self._arm(host, ticked=True)
        host.stuck = host.stuck + 1 if host.wake <= self.now and not host.is_writing else 0
        if host.stuck > _BUSY_LOOP and host.node is not None:
            self._die(host, FatalError(f"{_BUSY_LOOP} ticks, each at once: a busy loop"))

    def _execute(self, host: Host, effects: list[Any]) -> None:
        for effect in effects:
            if type(effect) in self._durable:
                self.schedule(self._disks.begin(host, effects), "disk", host, host.life)
                return
        host.stepped_at = self.now
        self.emit(host, effects)

    def emit(self, host: Host, effects: list[Any]) -> None:
        """Publish the effects of a step once they are durable."""
        for told in self.on_emit:
            told(host)
        try:
            for effect in effects:
                outlet = self._outlets.get(type(effect))
                if outlet is not None:
                    outlet(host, effect)
                elif type(effect) is Stopped:
                    self._stopped(host, effect)
                    return
                else:
                    raise WorldError(f"unknown effect {effect!r} of {host.name}")
        except FatalError as error:
            self._die(host, error)

    def _stopped(self, host: Host, effect: Stopped) -> None:
        """End a process that has stopped in good order."""
        self.fact(f"stopped {host.id}")
        beside = host.disk.beside
        try:
            if beside is not None:
                beside.stopped(effect)
        except OSError as trouble:
            self._ended_by(host, trouble)
            return
        self._end(host)
        host.left = effect

    def trace(self, host: Host, effect: Trace) -> None:
        """Record a trace event of the node."""
        kind, state, epoch, leader = effect.kind, effect.state, effect.epoch, effect.leader
        voted, leo, hw = effect.voted, effect.leo, effect.hw
        mono, wall = host.clock.both(self.now)
        event = TraceEvent(
            node=host.name,
            incarnation=host.incarnation,
            seq=host.trace_seq,
            mono=mono,
            wall=wall,
            kind=kind,
            state=state,
            epoch=epoch,
            leader=leader,
            voted=voted,
            leo=leo,
            hw=hw,
            detail=effect.detail,
        )
        host.trace_seq += 1
        host.last_trace = event
        self.events.append(event)
        self.fact(f"t {host.id} {kind} {state} {epoch} {leader} {voted} {leo} {hw}")
        for told in self.on_trace:
            told(host, event)

    # --- disk work --------------------------------------------------------------------

    def _on_disk_done(self, host: Host, life: int, _c: Any) -> None:
        if host.life != life or host.busy is None:
            return
        work = host.busy
        try:
            self._disks.carry_out(host)
        except (DiskError, OSError) as error:
            self._ended_by(host, error)
            return
        self.begin_piece(host)
        if self.now - work.begun > _STALL:
            # After a long fsync a process behaves as after a pause.
            host.resumed_at = self.now
        if host.paused:
            host.frozen = True
            return
        host.busy, host.stepped_at = None, work.begun
        self.emit(host, work.effects)
        self._drain(host)

    def begin_piece(self, host: Host) -> None:
        """Begin the work beside the process, unless there is none or a piece is under way."""
        beside = host.disk.beside
        if beside is not None and beside.pieces and not host.working:
            self.schedule(self._disks.begin_piece(host), "piece", host, host.life)

    def _on_piece(self, host: Host, life: int, _c: Any) -> None:
        if host.life != life or host.node is None:
            return
        if host.paused:
            host.stalled = True
            return
        try:
            piece = self._disks.end_piece(host)
        except (DiskError, OSError) as error:
            self._ended_by(host, error)
            return
        self.begin_piece(host)
        self.deliver(host, piece)

    def _finish(self, host: Host, piece: Piece) -> None:
        """Let the process learn that a piece of work is over."""
        self.fact(f"f {host.id} {type(piece.cause).__name__}")
        try:
            piece.done(piece.result)
        except Exception as error:
            self._ended_by(host, error)
            return
        self._disks.take_events(host)
        self.begin_piece(host)

    # --- ends of processes ------------------------------------------------------------

    def _ended_by(self, host: Host, error: Exception) -> None:
        """End the node's process by an error, which may be that of a failing disk."""
        if not failed(host, error):
            self._die(host, error)
            return
        # The promise is not on disk: the process says so and stops.
        if host.trace_seq:
            self.trace(host, last_words(host, "stop", {"reason": f"the disk failed: {error}"}))
        self._end(host)

    def _die(self, host: Host, error: Exception) -> None:
        """End the node's process by its own error, with a trace as a real one writes."""
        fatal = isinstance(error, FatalError)
        reason = str(error) if fatal else f"{type(error).__name__}: {error}"
        effect = last_words(host, "fatal", {"reason": reason, "illegal_state": fatal})
        self.trace(host, effect)
        self._end(host)

    def _on_give_up(self, host: Host, life: int, _c: Any) -> None:
        """End a process that could not shut down in time, once it runs."""
        if host.life != life or host.node is None:
            return
        if host.paused or host.busy is not None:
            self.schedule(self.now + _STALL, "give-up", host, life)
            return
        self.fact(f"gave-up {host.id}")
        self._end(host)

    def crash(self, name: str, reason: str) -> None:
        """Let the node's process die of its own action, if it still runs."""
        host = self.host(name)
        if host.node is not None:
            self._die(host, FatalError(reason))

    def _end(self, host: Host) -> None:
        """End the process: its memory is gone, and its connections are reset."""
        host.process_ended()
        host.left = None
        self.wires.reset(host)
