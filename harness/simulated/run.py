"""A complete test in virtual time: nodes, clients and faults, from a seed.

Nodes, workload, schedule and injector are the same as on a real cluster; only the world differs.
A run depends on nothing but its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from kraftwreck.checkers.recorded.capture import Capture
from kraftwreck.checkers.recorded.run_data import DiskImage, RunData
from kraftwreck.harness.options import BROKER, CONTROLLER, DYNAMIC, RunOptions, repeat_command
from kraftwreck.harness.simulated.capture import listen
from kraftwreck.harness.simulated.clients import VirtualClients
from kraftwreck.harness.simulated.cluster import SimulatedCluster
from kraftwreck.harness.simulated.defects import plant
from kraftwreck.harness.simulated.environment import SimulatedEnvironment
from kraftwreck.harness.simulated.schedule import InjectorFactory, PlannedFaults
from kraftwreck.harness.simulated.upgrade import Upgrade
from kraftwreck.harness.workload import Planned, Workload, floor
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.operation import Op
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.draw import draw
from kraftwreck.simulation.disturbed import LATEST
from kraftwreck.simulation.failures import Failure
from kraftwreck.simulation.fence import fence
from kraftwreck.simulation.invariants import Invariants
from kraftwreck.simulation.knobs import Knobs, Quorum, draw_knobs
from kraftwreck.simulation.world import World

SECOND = 1_000_000
RECOVERY_LIMIT = 30 * SECOND
"""How long after the last heal the cluster may take to elect a leader again."""

CATCH_UP_LIMIT = 10 * RECOVERY_LIMIT
"""How long nodes that make progress may take to catch up."""

CLIENT_WAIT = 10 * SECOND
CHANGE_LIMIT = 60 * SECOND
"""How long after the last heal voter changes may take."""

SERVICE_LIMIT = 45 * SECOND
"""How long brokers may take to return to service: the sessions of their predecessors must end."""

FINAL_LIMIT = 60 * SECOND
FINAL = "final"


@dataclass(slots=True)
class SimResult:
    """The result of a simulated run. Times in ``ops`` and ``faults`` are nanoseconds of virtual
    time; ``sim_s`` is the virtual duration in seconds."""

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
    capture: Capture

    def data(self) -> RunData:
        """Return the run as checkers need it."""
        return RunData.from_memory(
            self.ops,
            self.events,
            self.faults,
            self.images,
            self.test,
            ordered=True,
            capture=self.capture,
        )


def simulate(
    options: RunOptions,
    workload: Workload,
    schedule: Sequence[Fault],
    injector: InjectorFactory,
    *,
    knobs: Knobs | None = None,
    eager: bool = False,
    only: Set[tuple[int, int]] | None = None,
) -> SimResult:
    """Run one test in virtual time and return everything that a real run would leave.

    ``options.seed`` determines all random choices; by default ``knobs`` are drawn from it, too. The
    phases are those of a real run: clients and faults for ``time_limit_s``, heal, wait for the
    cluster to recover, final reads, disk images. With ``eager`` the run ends at the first failure
    of an invariant, and its results are cut short. ``only`` are the operations that clients begin,
    apart from the final ones (:class:`~harness.simulated.clients.VirtualClients`).
    """
    seed = options.seed
    if knobs is None:
        quorum: Quorum = (
            "dynamic" if options.quorum == DYNAMIC or "membership" in options.faults else "static"
        )
        knobs = draw_knobs(seed, options.nodes, quorum=quorum, brokers=options.brokers)
    limit = int(options.time_limit_s * SECOND)
    cluster = SimulatedCluster(options.controller_names, seed, knobs)
    names = cluster.names
    with fence():
        world = World(names, cluster.make_node, seed, knobs)
        cluster.format_all(world)
        watch = Invariants(
            world, knobs.node.get("fetch_timeout_ms", 2000), cluster.configured_voters
        )
        capture = listen(world)
        env = SimulatedEnvironment(world, cluster)
        if knobs.upgrade:
            Upgrade(world, knobs.upgrade)
        plant(world, cluster.controllers, seed, knobs.defects, limit)
        planned = PlannedFaults(
            world,
            env,
            injector(env, lambda: world.now * 1000),
            schedule,
            limit,
            lambda: clients.counts,
        )
        clients = VirtualClients(
            world,
            workload,
            cluster.controllers,
            gateways=cluster.brokers if knobs.through_brokers else (),
            seed=seed,
            concurrency=options.concurrency,
            rate=options.rate,
            until=limit,
            only=only,
        )
        for name in names:
            boot = draw(seed, "boot", name) % 200_000
            world.at(boot, partial(_boot, world, name), f"boot {name}")
        failed = watch.failures.__bool__ if eager else None
        world.run(limit, stop=failed)
        planned.heal()
        world.wires.stop_damaging()
        for name in names:
            world.resume(name)
            world.start(name)
        healed = world.now
        if not (eager and watch.failures):
            _wind_down(world, watch, env, clients, workload.final(names))
            watch.finish()
        for name in names:
            env.take_image(name, FINAL)
    test = _describe(options, world, cluster, schedule, healed)
    test["floor"] = floor(workload, options.floor)
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
        capture=capture,
    )


def _wind_down(
    world: World,
    watch: Invariants,
    env: SimulatedEnvironment,
    clients: VirtualClients,
    final: Sequence[Planned],
) -> None:
    """Let the healed cluster recover, and open operations and voter changes end; then run the
    final operations."""
    _recover(world, watch)
    admin = env.admin
    if admin.open:
        world.run(world.now + CHANGE_LIMIT, stop=lambda: not admin.open)
        if admin.open:
            watch.failures.add(
                "L6",
                world.now,
                f"{admin.open} voter changes were not complete {CHANGE_LIMIT // SECOND} s after the"
                " last heal",
            )
    world.run(world.now + CLIENT_WAIT, stop=lambda: clients.idle)
    clients.abandon()
    _recover(world, watch)
    if watch.service.missing():
        deadline = world.now + SERVICE_LIMIT
        while watch.service.missing() and world.now < deadline:
            world.run(min(world.now + SECOND // 4, deadline))
        watch.service.judge(SERVICE_LIMIT // SECOND)
    clients.run_final(final)
    world.run(world.now + FINAL_LIMIT, stop=lambda: clients.idle)
    clients.abandon()


def _boot(world: World, name: str) -> None:
    world.start(name)


def _recover(world: World, watch: Invariants) -> None:
    """Let the healed cluster elect a leader and catch up; otherwise report a failure (L1)."""
    goal = watch.logs.end_of_committed
    deadline = world.now + RECOVERY_LIMIT
    last = world.now + CATCH_UP_LIMIT
    behind = (-1, -1)
    while world.now < deadline:
        world.run(min(world.now + SECOND // 4, deadline))
        if _recovered(world, goal):
            return
        known = [host.last_trace for host in world.hosts if host.node and host.last_trace]
        # A node with a new, slow disk is not stuck while it makes progress, and neither is a
        # node that needs its vote.
        ends = min(min((event.leo for event in known), default=-1), goal)
        at = (max(behind[0], min((event.hw for event in known), default=-1)), max(behind[1], ends))
        if at > behind:
            behind = at
            deadline = min(last, max(deadline, world.now + RECOVERY_LIMIT // 3))
    states = ", ".join(
        f"{h.name} {h.last_trace.state} of epoch {h.last_trace.epoch} at {h.last_trace.hw}"
        if h.node is not None and h.last_trace is not None
        else f"{h.name} dead"
        for h in world.hosts
    )
    watch.failures.add(
        "L1",
        world.now,
        f"the cluster did not recover after the last heal: {states}",
    )


def _recovered(world: World, goal: int) -> bool:
    """Return whether all nodes follow one leader and have everything that was once committed."""
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
    options: RunOptions,
    world: World,
    cluster: SimulatedCluster,
    schedule: Sequence[Fault],
    healed: int,
) -> dict[str, Any]:
    """Return the contents of ``test.json`` for a simulated run."""
    return {
        **options.as_json(),
        "name": options.name,
        "nodes": list(cluster.names),
        "controllers": list(cluster.controllers),
        "brokers": list(cluster.brokers),
        "roles": dict.fromkeys(cluster.controllers, CONTROLLER)
        | dict.fromkeys(cluster.brokers, BROKER),
        "fault_model": {
            "quorum": "dynamic" if cluster.knobs.dynamic else "static",
            "first_voters": list(cluster.first_voters or cluster.configured_voters),
            "power_loss": cluster.knobs.power_loss > 0 or any(f.kind == "power" for f in schedule),
            "late_us": LATEST if any(f.kind == "network" for f in schedule) else 0,
            "disk": sorted({f.shape for f in schedule if f.kind == "disk"}),
            "wiped": [host.name for host in world.hosts if cluster.was_wiped(host.id)],
        },
        "options": options.as_json(),
        "cluster": "sim",
        "simulated": True,
        "started_wall": 0,
        "clock": {host.name: host.clock.told() for host in world.hosts},
        "schedule": msgspec.to_builtins(list(schedule)),
        "knobs": msgspec.to_builtins(world.knobs),
        "healed": healed * 1000,
        "judged_until": world.now * 1000,
        "start_mono_us": 0,
        "repeat": repeat_command(options),
    }
