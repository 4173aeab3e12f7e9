"""A whole test in virtual time: nodes, clients and faults, from a seed.

The nodes, the workload, the schedule and the injector are the ones a real cluster gets;
only the world is different. Nothing in a run depends on anything but its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import msgspec

from checkers.run_data import DiskImage, RunData
from harness.environment import Environment, Evidence, Grudge
from harness.options import RunOptions, repeat_command
from harness.simulated_clients import VirtualClients
from harness.triggers import Armed, aim, delay_us
from harness.workload import Planned, Workload
from histories.fault import Fault, FaultEvent
from histories.operation import Op
from histories.trace import TraceEvent
from nodes.consensus.endpoint import Endpoint
from nodes.consensus.recovered import Recovered
from nodes.draw import draw
from nodes.node import Node, NodeConfig
from simulation.disk import DiskContent
from simulation.failures import Failure
from simulation.fence import fence
from simulation.host import Host, NodeFactory
from simulation.invariants import Invariants
from simulation.knobs import Knobs, draw_knobs
from simulation.world import World

SECOND = 1_000_000
RECOVERY_LIMIT = 30 * SECOND
"""How long after the last heal the cluster may take to agree on a leader again."""

CLIENT_WAIT = 10 * SECOND
FINAL_LIMIT = 60 * SECOND
CLUSTER_ID = "a3JhZnR3cmVjay1zaW0tMQ"
FINAL = "final"


class SimInjector(Protocol):
    """What carries out faults; ``nemesis.inject.Injector`` is one."""

    def start(self, number: int, fault: Fault) -> FaultEvent: ...

    def stop(self, number: int) -> FaultEvent: ...

    def heal_all(self) -> list[FaultEvent]: ...


InjectorFactory = Callable[[Environment, Callable[[], int]], SimInjector]
"""Makes the injector for an environment and a clock (ns since the start of the test)."""


@dataclass(slots=True)
class SimResult:
    """What a simulated run leaves. Times in ``ops`` and ``faults`` are nanoseconds of
    virtual time; ``sim_s`` is how much virtual time passed, in seconds."""

    ops: list[Op]
    events: list[TraceEvent]
    faults: list[FaultEvent]
    images: list[DiskImage]
    failures: list[Failure]
    digest: str
    sim_s: float
    processed: int
    knobs: Knobs
    test: dict[str, Any]

    def data(self) -> RunData:
        """Return the run as checkers want it."""
        return RunData.from_memory(
            self.ops, self.events, self.faults, self.images, self.test, ordered=True
        )


class SimulatedEnvironment:
    """The cluster as a nemesis sees it (:class:`harness.environment.Environment`)."""

    def __init__(self, world: World) -> None:
        self.nodes: Sequence[str] = [host.name for host in world.hosts]
        self.images: list[DiskImage] = []
        self._world = world
        self._kills = 0
        self._leader: tuple[int, str] | None = None
        world.on_trace.append(self._note_leader)

    def _note_leader(self, host: Host, event: TraceEvent) -> None:
        if event.state == "leader" and (self._leader is None or event.epoch >= self._leader[0]):
            self._leader = (event.epoch, event.node)

    def leader(self) -> str | None:
        return self._leader[1] if self._leader else None

    def drop(self, grudge: Grudge) -> Evidence:
        self._world.cut(grudge)
        return {node: {"drops": sorted(grudge[node])} for node in sorted(grudge)}

    def heal(self) -> Evidence:
        return {node: {"dropped": count} for node, count in self._world.heal().items()}

    def kill(self, node: str) -> Evidence:
        world = self._world
        power = draw(world.seed, "lose-power", node, world.now) % 100 < world.knobs.power_loss
        killed = world.kill(node, lose_power=power)
        if killed:
            self._kills += 1
            self.take_image(node, f"kill-{self._kills}")
        return {node: {"killed": killed, "incarnation": world.host(node).incarnation}}

    def start(self, node: str) -> Evidence:
        started = self._world.start(node)
        return {node: {"started": started, "incarnation": self._world.host(node).incarnation}}

    def pause(self, node: str) -> Evidence:
        return {node: {"paused": self._world.pause(node)}}

    def resume(self, node: str) -> Evidence:
        return {node: {"resumed": self._world.resume(node)}}

    def take_image(self, node: str, label: str) -> None:
        """Keep what the node's disk holds now."""
        self.images.append(disk_image(node, label, self._world.content(node)))


def disk_image(node: str, label: str, content: DiskContent) -> DiskImage:
    """Return ``content`` as the files of a real node would hold it."""
    state = content.quorum_state
    saved = None
    if state is not None:
        saved = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in state.voters],
            "data_version": 0,
        }
    return DiskImage(node=node, label=label, log=b"".join(content.batches), quorum_state=saved)


def node_factory(names: Sequence[str], seed: int, knobs: Knobs) -> NodeFactory:
    """Return what makes the nodes of a run: ``nodes.node.Node`` with the run's knobs."""
    voters = {i + 1: Endpoint(name, 9093) for i, name in enumerate(names)}
    directories = {
        i: draw(seed, "directory", i, 0).to_bytes(8, "big")
        + draw(seed, "directory", i, 1).to_bytes(8, "big")
        for i in voters
    }

    def make(
        node_id: int,
        incarnation: int,
        recovered: Recovered,
        now: int,
        wall_ms: int,
    ) -> Node:
        config = NodeConfig(
            node_id=node_id,
            cluster_id=CLUSTER_ID,
            directory_id=directories[node_id],
            voters=voters,
            seed=seed,
            incarnation=incarnation,
            default_replication=min(3, len(names)),
        )
        numbers: dict[str, Any] = (
            knobs.node | knobs.hasty if node_id in knobs.hasty_nodes else dict(knobs.node)
        )
        return Node(replace(config, **numbers), recovered, now, wall_ms)

    return make


class _Schedule:
    """Starts and stops the faults of a schedule, by time and by trigger."""

    def __init__(
        self,
        world: World,
        env: SimulatedEnvironment,
        injector: SimInjector,
        schedule: Sequence[Fault],
        until: int,
    ) -> None:
        self.events: list[FaultEvent] = []
        self._world = world
        self._nodes = tuple(env.nodes)
        self._injector = injector
        self._until = until
        self._in_force: set[int] = set()
        self._armed: list[Armed] = []
        for number, fault in enumerate(schedule):
            at = fault.at // 1000
            if at >= until:
                continue
            fact = f"fault {number}"
            if fault.trigger is None:
                world.at(at, partial(self._start, number, fault), fact, fault=True)
            else:
                waiting = Armed(number, fault)
                world.at(at, partial(self._armed.append, waiting), fact, fault=True)
        world.on_trace.append(self._watch)

    def _watch(self, host: Host, event: TraceEvent) -> None:
        if not self._armed:
            return
        fired = [armed for armed in self._armed if armed.sees(event)]
        for armed in fired:
            self._armed.remove(armed)
            fault = aim(armed.fault, event, self._nodes)
            self._world.at(
                self._world.now + delay_us(fault),
                partial(self._start, armed.number, fault),
                f"fault {armed.number} {armed.fault.trigger}",
                fault=True,
            )

    def _start(self, number: int, fault: Fault) -> None:
        if self._world.now >= self._until:
            return
        event = self._injector.start(number, fault)
        if fault.trigger is not None:
            event.detail["trigger"] = fault.trigger
        self.events.append(event)
        self._in_force.add(number)
        end = min(self._world.now + fault.duration // 1000, self._until)
        self._world.at(end, lambda: self._stop(number), f"fault {number} over", fault=True)

    def _stop(self, number: int) -> None:
        if number in self._in_force:
            self._in_force.remove(number)
            self.events.append(self._injector.stop(number))

    def heal(self) -> None:
        """End everything; no fault starts any more."""
        self._armed.clear()
        self._in_force.clear()
        self.events.extend(self._injector.heal_all())


def simulate(
    options: RunOptions,
    workload: Workload,
    schedule: Sequence[Fault],
    injector: InjectorFactory,
    *,
    knobs: Knobs | None = None,
    eager: bool = False,
) -> SimResult:
    """Run one test in virtual time and return all that a real run would have left.

    ``options.seed`` decides everything that is drawn; ``knobs`` default to the ones drawn
    from it. Phases as in a real run: clients and faults for ``time_limit_s``, heal, wait for
    the cluster to recover, final reads, disk images. With ``eager`` the run ends at the
    first failure of an invariant, and what it leaves is cut short.
    """
    names = options.node_names
    seed = options.seed
    knobs = knobs if knobs is not None else draw_knobs(seed, len(names))
    limit = int(options.time_limit_s * SECOND)
    with fence():
        world = World(names, node_factory(names, seed, knobs), seed, knobs)
        watch = Invariants(world, knobs.node.get("fetch_timeout_ms", 2000))
        env = SimulatedEnvironment(world)
        planned = _Schedule(world, env, injector(env, lambda: world.now * 1000), schedule, limit)
        clients = VirtualClients(
            world,
            workload,
            names,
            seed=seed,
            concurrency=options.concurrency,
            rate=options.rate,
            until=limit,
        )
        for name in names:
            boot = draw(seed, "boot", name) % 200_000
            world.at(boot, partial(_boot, world, name), f"boot {name}")
        failed = watch.failures.__bool__ if eager else None
        world.run(limit, stop=failed)
        planned.heal()
        for name in names:
            world.resume(name)
            world.start(name)
        healed = world.now
        if not (eager and watch.failures):
            _wind_down(world, watch, clients, workload.final(names))
        for name in names:
            env.take_image(name, FINAL)
    test = _describe(options, world, schedule, healed)
    return SimResult(
        ops=clients.ops,
        events=world.events,
        faults=planned.events,
        images=env.images,
        failures=watch.failures.items,
        digest=world.digest,
        sim_s=world.now / SECOND,
        processed=world.processed,
        knobs=knobs,
        test=test,
    )


def _wind_down(
    world: World, watch: Invariants, clients: VirtualClients, final: Sequence[Planned]
) -> None:
    """Let the healed cluster recover and open operations end; then the final ones."""
    _recover(world, watch)
    world.run(world.now + CLIENT_WAIT, stop=lambda: clients.idle)
    clients.abandon()
    _recover(world, watch)
    clients.run_final(final)
    world.run(world.now + FINAL_LIMIT, stop=lambda: clients.idle)
    clients.abandon()


def _boot(world: World, name: str) -> None:
    world.start(name)


def _recover(world: World, watch: Invariants) -> None:
    """Let the healed cluster agree on a leader and catch up; a failure (L1) if it does not."""
    goal = watch.logs.end_of_committed
    deadline = world.now + RECOVERY_LIMIT
    while world.now < deadline:
        world.run(min(world.now + SECOND // 4, deadline))
        if _recovered(world, goal):
            return
    states = ", ".join(
        f"{h.name} {h.last_trace.state} of epoch {h.last_trace.epoch} at {h.last_trace.hw}"
        if h.node is not None and h.last_trace is not None
        else f"{h.name} dead"
        for h in world.hosts
    )
    watch.failures.add(
        "L1",
        world.now,
        f"{RECOVERY_LIMIT // SECOND} s after the last heal the cluster had not recovered: {states}",
    )


def _recovered(world: World, goal: int) -> bool:
    """Whether all nodes follow one leader and know everything once committed as such."""
    last = [host.last_trace for host in world.hosts if host.node is not None]
    if len(last) < len(world.hosts):
        return False
    known = [event for event in last if event is not None]
    leaders = [event for event in known if event.state == "leader"]
    return (
        len(leaders) == 1
        and len({(event.epoch, event.leader) for event in known}) == 1
        and all(event.state in ("leader", "follower") for event in known)
        and all(event.hw >= max(goal, 1) for event in known)
    )


def _describe(
    options: RunOptions, world: World, schedule: Sequence[Fault], healed: int
) -> dict[str, Any]:
    """Return what ``test.json`` says of a simulated run."""
    return {
        **options.as_json(),
        "name": options.name,
        "nodes": list(options.node_names),
        "options": options.as_json(),
        "cluster": "sim",
        "simulated": True,
        "started_wall": 0,
        "clock": {host.name: {"offset_us": host.mono_offset} for host in world.hosts},
        "schedule": msgspec.to_builtins(list(schedule)),
        "knobs": msgspec.to_builtins(world.knobs),
        "healed": healed * 1000,
        "start_mono_us": 0,
        "repeat": repeat_command(options),
    }
