"""Drives the interpreter in virtual time.

Calls pass through the codec in both directions, so that a node sees exactly what would arrive over
a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from typing import Final, Protocol

import msgspec

from kraftwreck.harness.attempts import Attempt, unusable
from kraftwreck.harness.capabilities import Environment
from kraftwreck.harness.client import Answer, Call, Client, Completion, Forgetful, Pause
from kraftwreck.harness.commands import (
    Abandon,
    Begin,
    Command,
    Drop,
    Ended,
    Event,
    FaultDue,
    FinalPhase,
    Heal,
    Invoke,
    Note,
    Record,
    Renew,
    Ring,
    Seen,
    Strike,
    Struck,
    Undo,
    Undone,
    Wake,
)
from kraftwreck.harness.generator import Planned
from kraftwreck.harness.interpreter import Interpreter
from kraftwreck.harness.operations import Operations
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.planning import generator_of
from kraftwreck.harness.simulated.calls import virtual_call
from kraftwreck.harness.workload import ClientSetting, Load, Speaking, Workload
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.undecodable import as_in_json
from kraftwreck.nodes.draw import draw_below
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.timeline import WorldError
from kraftwreck.simulation.world import World

FORGETS: Final = (0, 30, 30, 100)
"""Probability in percent that a client asks for the leader again; the seed chooses. If no client
ever does, all wait for the same deposed leader, and its stale responses go unnoticed."""


class SimInjector(Protocol):
    """Carries out faults; ``nemesis.inject.Injector`` is one."""

    @property
    def out(self) -> Collection[str]: ...

    def start(self, number: int, fault: Fault) -> FaultEvent: ...

    def stop(self, number: int) -> FaultEvent: ...

    def heal_all(self) -> list[FaultEvent]: ...


InjectorFactory = Callable[[Environment, Callable[[], int]], SimInjector]
"""Makes the injector for an environment and a clock (ns since the start of the test)."""


def recorded(op: Op) -> Op:
    """Return ``op`` with key and value as ``history.jsonl`` holds them.

    So checkers see the same in a campaign, which judges runs in memory, as in a run folder.
    """
    key, value = as_in_json(op.key), as_in_json(op.value)
    if key is op.key and value is op.value:
        return op
    return msgspec.structs.replace(op, key=key, value=value)


class VirtualDriver:
    """Carries out what ``interpreter`` commands: ``clients`` by thread, faults by ``injector``."""

    def __init__(
        self,
        world: World,
        interpreter: Interpreter,
        clients: Sequence[Client],
        injector: SimInjector,
    ) -> None:
        self.ops: list[Op] = []
        """The history, in order of time."""
        self.events: list[FaultEvent] = []
        self._world = world
        self._interpreter = interpreter
        self._clients = clients
        self._injector = injector
        self._attempts: dict[int, Attempt] = {}

    @property
    def idle(self) -> bool:
        """Whether no operation is open and no final one is left."""
        return self._interpreter.operations.idle

    def begin(self) -> None:
        """Plan the first operations and faults, at virtual time 0."""
        self._world.on_trace.append(self._see)
        self._feed(Begin(self._now))

    def abandon(self) -> None:
        """End all open operations; their outcome is unknown."""
        self._feed(Abandon(self._now))

    def run_final(self, planned: Sequence[Planned]) -> None:
        """Begin the final operations."""
        self._feed(FinalPhase(self._now, planned))

    def heal(self) -> None:
        """End all faults; no fault starts afterwards."""
        self._feed(Heal())
        self.events.extend(self._injector.heal_all())

    @property
    def _now(self) -> int:
        return self._world.now * 1000

    def _see(self, host: Host, event: TraceEvent) -> None:
        if not self._interpreter.faults.awaits(event.kind):
            return
        now = self._world.now * 1000
        for command in self._interpreter.faults.see(Seen(now, event, now)):
            self._do(command)

    def _feed(self, event: Event) -> None:
        for command in self._interpreter.step(event):
            self._do(command)

    def _do(self, command: Command) -> None:
        match command:
            case Wake():
                self._wake(command)
            case Record():
                op = command.op
                self.ops.append(recorded(op))
                self._world.fact(f"o {op.process} {op.type} {op.f} {op.key} {op.value}")
            case Invoke():
                self._invoke(command)
            case Renew():
                self._clients[command.thread].reset()
            case Drop():
                self._attempts.pop(command.thread, None)
            case Strike():
                event = self._injector.start(command.number, command.fault)
                self._feed(Struck(command.number, event))
            case Undo():
                self._feed(Undone(command.number, self._injector.stop(command.number)))
            case Note():
                if command.event.error:
                    # Only the simulator itself can fail here, so its run proves nothing.
                    raise WorldError(f"fault {command.event.id}: {command.event.error}")
                self.events.append(command.event)
            case _:
                raise AssertionError(f"no attempt in virtual time is aborted: {command}")

    def _wake(self, wake: Wake) -> None:
        alarm = wake.alarm
        fault = isinstance(alarm, FaultDue)
        self._world.at(
            wake.at // 1000, lambda: self._feed(Ring(self._now, alarm)), wake.fact, fault=fault
        )

    def _invoke(self, invoke: Invoke) -> None:
        client = self._clients[invoke.thread]
        if invoke.number is not None and isinstance(client, Forgetful):
            client.forget(invoke.number)
        attempt = Attempt(client, invoke.op)
        self._attempts[invoke.thread] = attempt
        self._advance(invoke, attempt, None)

    def _advance(self, invoke: Invoke, attempt: Attempt, answer: Answer | None) -> None:
        step = attempt.advance(answer)
        if isinstance(step, Completion):
            self._attempts.pop(invoke.thread, None)
            self._feed(Ended(self._now, invoke.thread, invoke.op.index, step))
            return
        if isinstance(step, Pause):
            self._pause(invoke, attempt, step)
        else:
            self._call(invoke, attempt, step)

    def _pause(self, invoke: Invoke, attempt: Attempt, pause: Pause) -> None:
        def done() -> None:
            if self._attempts.get(invoke.thread) is attempt:
                self._advance(invoke, attempt, Answer("ok"))

        until = self._world.now + pause.ms * 1000
        self._world.at(until, done, f"pause {invoke.thread} {pause.ms}")

    def _call(self, invoke: Invoke, attempt: Attempt, call: Call) -> None:
        def done(answer: Answer) -> None:
            if self._attempts.get(invoke.thread) is attempt:  # otherwise it was abandoned
                self._advance(invoke, attempt, answer)

        try:
            virtual_call(self._world, invoke.thread, call, done)
        except Exception as error:
            self._attempts.pop(invoke.thread, None)
            ended = unusable(self._clients[invoke.thread], error)
            self._feed(Ended(self._now, invoke.thread, invoke.op.index, ended))


def virtual_driver(
    world: World,
    workload: Workload,
    options: RunOptions,
    schedule: Sequence[Fault],
    injector: SimInjector,
    *,
    only: Set[tuple[int, int]] | None,
    nodes: Sequence[str],
    gateways: Sequence[str] = (),
) -> VirtualDriver:
    """Return the driver of the clients and faults of a run.

    ``nodes`` are those that clients may address; writes go to ``gateways`` if there are any.
    """
    seed, limit = options.seed, int(options.time_limit_s * 1_000_000) * 1000
    assert isinstance(workload, Speaking)
    forgets = FORGETS[draw_below(len(FORGETS), seed, "forgets")]
    clients = [
        workload.client(ClientSetting(thread, seed, nodes, gateways, forgets))
        for thread in range(options.concurrency)
    ]
    operations = Operations(
        generator_of(workload, Load(options.concurrency, options.rate, options.transaction)),
        seed=seed,
        concurrency=options.concurrency,
        until=limit,
        only=only,
    )
    names = [host.name for host in world.hosts]
    interpreter = Interpreter(operations, schedule, names, lambda: injector.out, limit)
    return VirtualDriver(world, interpreter, clients, injector)
