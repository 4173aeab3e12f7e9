"""A complete test in virtual time: nodes, clients and faults, from a seed.

Nodes, workload, schedule and injector are the same as on a real cluster; only the world differs.
A run depends on nothing but its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial
from typing import Any

from kraftwreck.checkers.kraft.limits import CAUGHT_UP_US, CHANGED_US, ELECTED_US, IN_SERVICE_US
from kraftwreck.checkers.kraft.recorded.trace import QUORUM
from kraftwreck.harness.generator import Planned
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.planning import final_of
from kraftwreck.harness.simulated.description import describe
from kraftwreck.harness.simulated.driver import InjectorFactory, VirtualDriver, virtual_driver
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.workload import Workload, floor
from kraftwreck.histories.fault import Fault
from kraftwreck.nodes.draw import draw
from kraftwreck.nodes.node import Node
from kraftwreck.simulation.fence import fence
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.options import PRODUCE, KraftOptions, Quorum
from kraftwreck.systems.kraft.simulated.binding import kraft_world
from kraftwreck.systems.kraft.simulated.capture import listen
from kraftwreck.systems.kraft.simulated.cluster import SimulatedCluster
from kraftwreck.systems.kraft.simulated.defects import plant
from kraftwreck.systems.kraft.simulated.environment import SimulatedFaults
from kraftwreck.systems.kraft.simulated.invariants import Invariants
from kraftwreck.systems.kraft.simulated.knobs import Knobs, draw_knobs
from kraftwreck.systems.kraft.simulated.shells import Shells
from kraftwreck.systems.kraft.simulated.stray_removals import StrayRemovals
from kraftwreck.systems.kraft.simulated.upgrade import Upgrade
from kraftwreck.systems.kraft.sockets.asked import failures_with_scripted_peers
from kraftwreck.systems.kraft.sockets.run import failures_over_sockets
from kraftwreck.systems.kraft.workloads.log_client import PREFIX, key_of

SECOND = 1_000_000
CLIENT_WAIT = 10 * SECOND
FINAL_LIMIT = 60 * SECOND
FINAL = "final"


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
    apart from the final ones (:class:`~harness.operations.Operations`).
    """
    seed = options.seed
    knobs = knobs or drawn(options)
    limit = int(options.time_limit_s * SECOND)
    before = _over_sockets(seed) if knobs.sockets else ([], [])
    cluster = SimulatedCluster(options.node_names, seed, knobs)
    names = cluster.names
    with fence():
        world = _world(cluster, seed, limit)
        watch = _watched(cluster, world, before)
        capture = listen(world)
        faults = SimulatedFaults(world, cluster)
        if knobs.upgrade:
            Upgrade(world, knobs.upgrade)
        StrayRemovals(world, cluster, seed, limit)
        plant(world, cluster.controllers, seed, knobs.defects, limit)
        driver = virtual_driver(
            world,
            workload,
            options,
            schedule,
            injector(faults.env, lambda: world.now * 1000),
            only=only,
            nodes=cluster.controllers,
            gateways=cluster.brokers if knobs.through_brokers or _needs(workload) else (),
        )
        driver.begin()
        _boot_all(world, names, seed)
        world.run(limit, stop=watch.failures.__bool__ if eager else None)
        _heal(world, driver, names)
        healed = world.now
        if not (eager and watch.failures):
            _wind_down(world, watch, faults, driver, final_of(workload, names))
            watch.finish()
        for name in names:
            faults.take_image(name, FINAL)
    test = _describe(options, world, cluster, schedule, healed)
    test["fault_model"] |= _lost(watch, world)
    test["floor"] = floor(workload, options.floor)
    return SimResult(
        ops=driver.ops,
        events=world.events,
        faults=driver.events,
        images=faults.images,
        failures=watch.failures.items,
        digest=world.digest,
        sim_s=world.now / SECOND,
        processed=world.processed,
        knobs=knobs,
        test=test,
        capture=capture,
        derived={QUORUM: watch.quorum} if watch.quorum.over else {},
    )


def _over_sockets(seed: int) -> tuple[list[str], list[str]]:
    """Return what is wrong in whole processes, and in one that asks scripted peers."""
    return failures_over_sockets(seed), failures_with_scripted_peers(seed)


def _watched(
    cluster: SimulatedCluster, world: World, before: tuple[list[str], list[str]]
) -> Invariants:
    """Give every host its disk, and watch the world from then on. Over sockets there were the
    failures ``before``."""
    cluster.format_all(world)
    fetch_timeout_ms = cluster.knobs.node.get("fetch_timeout_ms", 2000)
    watch = Invariants(world, fetch_timeout_ms, cluster.configured_voters)
    watch.over_sockets(before[0])
    watch.with_scripted_peers(before[1])
    return watch


def _world(cluster: SimulatedCluster, seed: int, limit: int) -> World:
    """Return the world of ``cluster``; with shells processes die in steps before ``limit``."""
    knobs = cluster.knobs
    if not knobs.shells:
        return kraft_world(cluster.names, cluster.make_node, seed, knobs)
    shells = Shells(cluster, seed, limit)
    world = kraft_world(cluster.names, shells, seed, knobs)
    shells.join(world)
    return world


def drawn(options: RunOptions) -> Knobs:
    """Return the settings of the simulated world that the seed of ``options`` gives."""
    own = KraftOptions.of(options)
    dynamic = own.dynamic or "membership" in options.faults
    quorum: Quorum = "dynamic" if dynamic else "static"
    return draw_knobs(
        options.seed,
        options.nodes,
        quorum=quorum,
        brokers=own.brokers,
        records=options.workload == PRODUCE,
    )


def _needs(workload: Workload) -> bool:
    """Whether the clients of ``workload`` send all their requests to brokers."""
    return bool(getattr(workload, "through_gateways", False))


def _boot_all(world: World, names: Sequence[str], seed: int) -> None:
    for name in names:
        boot = draw(seed, "boot", name) % 200_000
        world.at(boot, partial(_boot, world, name), f"boot {name}")


def _heal(world: World, driver: VirtualDriver, names: Sequence[str]) -> None:
    """End all faults and start every process that does not run."""
    driver.heal()
    world.wires.stop_damaging()
    for name in names:
        world.resume(name)
        world.start(name)


def _wind_down(
    world: World,
    watch: Invariants,
    faults: SimulatedFaults,
    driver: VirtualDriver,
    final: Sequence[Planned],
) -> None:
    """Let the healed cluster recover, and open operations and voter changes end; then run the
    final operations."""
    _recover(world, watch)
    admin = faults.admin
    if admin.open:
        world.run(world.now + CHANGED_US, stop=lambda: not admin.open)
        if admin.open:
            watch.failures.add(
                "L6",
                world.now,
                f"{admin.open} voter changes were not complete {CHANGED_US // SECOND} s after the"
                " last heal",
            )
    world.run(world.now + CLIENT_WAIT, stop=lambda: driver.idle)
    driver.abandon()
    _recover(world, watch)
    if watch.service.missing():
        deadline = world.now + IN_SERVICE_US
        while watch.service.missing() and world.now < deadline:
            world.run(min(world.now + SECOND // 4, deadline))
        watch.service.judge(IN_SERVICE_US // SECOND)
    if watch.partitions is not None and not watch.service.missing():
        watch.partitions.settle()
    driver.run_final(final)
    world.run(world.now + FINAL_LIMIT, stop=lambda: driver.idle)
    driver.abandon()


def _boot(world: World, name: str) -> None:
    world.start(name)


def _recover(world: World, watch: Invariants) -> None:
    """Let the healed cluster elect a leader and catch up; otherwise report a failure (L1)."""
    goal = max(watch.quorum.high_watermark, 0)
    deadline = world.now + ELECTED_US
    last = world.now + CAUGHT_UP_US
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
            deadline = min(last, max(deadline, world.now + ELECTED_US // 3))
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


def _lost(watch: Invariants, world: World) -> dict[str, list[int]]:
    """Return ``lost_keys``: those of the workload of records whose loss of records was legal."""
    if not watch.records.watches:
        return {}
    names: dict[bytes, str] = {}
    for host in world.hosts:
        if isinstance(host.node, Node):
            names.update(host.node.image.stable.names)
    lost = ((names.get(topic_id, ""), number) for topic_id, number in watch.records.lost)
    keys = (key_of(topic, number) for topic, number in lost if topic.startswith(PREFIX))
    return {"lost_keys": sorted(keys)}


def _describe(
    options: RunOptions,
    world: World,
    cluster: SimulatedCluster,
    schedule: Sequence[Fault],
    healed: int,
) -> dict[str, Any]:
    """Return the contents of ``test.json`` with the quorum that the cluster began with."""
    layout = KraftOptions(brokers=len(cluster.brokers)).layout(len(cluster.controllers))
    own_model = {
        "quorum": "dynamic" if cluster.knobs.dynamic else "static",
        "first_voters": list(cluster.first_voters or cluster.configured_voters),
        "wiped": [host.name for host in world.hosts if cluster.was_wiped(host.id)],
    }
    members = layout.members(cluster.names)
    return describe(options, world, schedule, healed, members=members, own_model=own_model)
