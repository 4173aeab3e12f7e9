"""A complete test of a core in virtual time: machines, clients and faults, from a seed."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from kraftwreck.checkers.recorded.captured import Captured
from kraftwreck.harness.generator import Planned
from kraftwreck.harness.layout import layout_of
from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.planning import final_of
from kraftwreck.harness.simulated.core import CorePlace, CoreSystem
from kraftwreck.harness.simulated.core_faults import CoreFaults
from kraftwreck.harness.simulated.description import describe
from kraftwreck.harness.simulated.driver import InjectorFactory, VirtualDriver, virtual_driver
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.workload import floor
from kraftwreck.histories.fault import Fault
from kraftwreck.nodes.draw import draw
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.fence import fence
from kraftwreck.simulation.host import Core, Host
from kraftwreck.simulation.knobs import WorldKnobs
from kraftwreck.simulation.world import World

SECOND = 1_000_000
CALM = 5 * SECOND
"""How long the healed cluster runs without faults before the final operations."""

CLIENT_WAIT = 10 * SECOND
FINAL_LIMIT = 60 * SECOND


def simulate_core(
    system: CoreSystem,
    options: RunOptions,
    schedule: Sequence[Fault],
    injector: InjectorFactory,
    *,
    knobs: WorldKnobs | None = None,
    eager: bool = False,
    only: Set[tuple[int, int]] | None = None,
) -> SimResult:
    """Run one test of ``system`` in virtual time; return what it leaves.

    ``options.seed`` determines all random choices; by default ``knobs`` are drawn from it, too.
    Clients and faults run for ``time_limit_s``. Then all faults end, the cluster gets
    :data:`CALM`, and the final operations run. With ``eager`` the run ends at the first failure of
    a watch. ``only`` are the operations that clients begin, apart from the final ones.
    """
    seed, names = options.seed, options.node_names
    knobs = system.draw(seed, len(names)) if knobs is None else knobs
    workload = system.workload
    assert workload is not None, f"{system.name}: no workload was chosen"
    limit = int(options.time_limit_s * SECOND)
    with fence():
        world = World(names, _maker(system, names, seed, knobs), seed, knobs, system.binding())
        failures = Failures()
        watches = [make(world, failures) for make in system.watches]
        if system.state is not None:
            _digest_states(world, system)
        env = CoreFaults(world).env
        driver = virtual_driver(
            world,
            workload,
            options,
            schedule,
            injector(env, lambda: world.now * 1000),
            only=only,
            nodes=names,
        )
        driver.begin()
        for name in names:
            boot = draw(seed, "boot", name) % 200_000
            world.at(boot, _booting(world, name), f"boot {name}")
        world.run(limit, stop=failures.__bool__ if eager else None)
        driver.heal()
        world.wires.stop_damaging()
        for name in names:
            world.resume(name)
            world.start(name)
        healed = world.now
        if not (eager and failures):
            _wind_down(world, driver, final_of(workload, names))
            for watch in watches:
                watch.finish()
    members = layout_of(None, options).members(names)
    test = describe(options, world, schedule, healed, members=members, own_model={})
    test["floor"] = floor(workload, options.floor)
    return SimResult(
        ops=driver.ops,
        events=world.events,
        faults=driver.events,
        images=[],
        failures=failures.items,
        digest=world.digest,
        sim_s=world.now / SECOND,
        processed=world.processed,
        knobs=knobs,
        test=test,
        capture=Captured(),
    )


def _wind_down(world: World, driver: VirtualDriver, final: Sequence[Planned]) -> None:
    """Let the healed cluster settle and open operations end; then run the final operations."""
    world.run(world.now + CALM)
    world.run(world.now + CLIENT_WAIT, stop=lambda: driver.idle)
    driver.abandon()
    driver.run_final(final)
    world.run(world.now + FINAL_LIMIT, stop=lambda: driver.idle)
    driver.abandon()


def _maker(system: CoreSystem, names: Sequence[str], seed: int, knobs: WorldKnobs) -> Any:
    def make(host: Host, stored: Any, now: int, wall_ms: int) -> Core:
        place = CorePlace(
            id=host.id,
            name=host.name,
            names=names,
            stored=stored,
            incarnation=host.incarnation,
            seed=seed,
            settings=knobs.settings_of(host.id),
            now=now,
            wall_ms=wall_ms,
        )
        return system.make(place)

    return make


def _booting(world: World, name: str) -> Any:
    return lambda: world.start(name)


def _digest_states(world: World, system: CoreSystem) -> None:
    state = system.state
    assert state is not None

    def note(host: Host, event: Any) -> None:
        world.fact(f"s {host.id} {state(host.node)}")

    world.on_step.append(note)
