"""Simulated seconds per CPU second, checking included: ``python -m bench.simulator``.

Five controllers without brokers, ten operations a second of five clients, every fault family, all
invariants and checkers: each workload alone and all together, by seed. A round simulates and judges
the same seeds of every workload; the medians of the rounds count. ``--jobs 2`` measures worker
processes instead, as ``kraftwreck sim`` starts them, by wall time. ``--flat`` measures the cost of
an event in runs of different length. ``--brokers seed`` and ``--rate 0`` use the broker and load
that each seed draws.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import click

from kraftwreck.campaigns.campaign import Tested, judge, run_seed
from kraftwreck.harness.compiled import tree as compiled_tree
from kraftwreck.nemesis.inject import Injector
from kraftwreck.systems.campaign import ALL
from kraftwreck.systems.kraft.options import PRODUCE
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign as Campaign
from kraftwreck.systems.kraft.simulated.run import simulate
from kraftwreck.workloads.registry import find, workloads

LENGTHS_S = (30.0, 60.0, 300.0, 1200.0)


@click.command()
@click.option("--rounds", default=3, show_default=True)
@click.option("--seeds", default=10, show_default=True, help="Runs of each workload in a round.")
@click.option("--first-seed", default=0, show_default=True)
@click.option("-t", "--time-limit", default=30.0, show_default=True, help="Virtual seconds.")
@click.option("--rate", default=10.0, show_default=True, help="Operations a second; 0: by seed.")
@click.option("--concurrency", default=5, show_default=True)
@click.option("--nodes", default=5, show_default=True)
@click.option("--brokers", default="0", show_default=True, metavar="N|seed")
@click.option("--compiled", is_flag=True, help="Run with compiled modules.")
@click.option("--jobs", default=0, help="Measure this number of worker processes by wall time.")
@click.option(
    "--flat", is_flag=True, help="Measure the cost of an event in longer and longer runs."
)
def main(
    rounds: int,
    seeds: int,
    first_seed: int,
    time_limit: float,
    rate: float,
    concurrency: int,
    nodes: int,
    brokers: str,
    compiled: bool,
    jobs: int,
    flat: bool,
) -> None:
    """Measure, and print Markdown."""
    if compiled:
        tell = partial(click.echo, err=True)
        compiled_tree.go_on("bench.simulator", sys.argv[1:], tell)
    make = partial(
        Campaign,
        nodes=nodes,
        rate=rate,
        concurrency=concurrency,
        system_options=(f"brokers={brokers}",),
    )
    load = os.getloadavg()[0]
    how = " with compiled modules" if compiled else ""
    click.echo(
        f"Python {platform.python_version()}{how}, {os.cpu_count()} cores, load {load:.1f};"
        f" {nodes} controllers, brokers: {brokers}, {rate:g} operations/s of {concurrency} clients,"
        f" faults: {', '.join(make().faults)}.\n"
    )
    run_seed(make(time_limit_s=5.0), 0, keep=False)  # Imports and compiles everything.
    if flat:
        _flat(make, range(first_seed, first_seed + seeds))
    elif jobs:
        _workers(
            make(time_limit_s=time_limit),
            range(first_seed, first_seed + seeds * len(workloads())),
            jobs,
            rounds,
        )
    else:
        # Without brokers there is nothing to produce to.
        names = [name for name in sorted(workloads()) if brokers != "0" or name != PRODUCE]
        _speeds(make, names, time_limit, range(first_seed, first_seed + seeds), rounds)


def _speeds(
    make: Callable[..., Campaign], names: Sequence[str], limit: float, seeds: range, rounds: int
) -> None:
    """Print simulated seconds per CPU second, each workload alone and all together."""
    speeds: dict[str, list[float]] = {name: [] for name in [*names, ALL]}
    steps: dict[str, float] = {}
    failed = 0
    for _ in range(rounds):
        total_sim = total_cpu = 0.0
        for name in names:
            campaign = make(workload=name, time_limit_s=limit)
            tested = [run_seed(campaign, seed, keep=False) for seed in seeds]
            sim_s, cpu_s = sum(t.sim_s for t in tested), sum(t.cpu_s for t in tested)
            speeds[name].append(sim_s / cpu_s)
            steps[name] = sum(t.events for t in tested) / sim_s
            failed += sum(1 for t in tested if t.found)
            total_sim, total_cpu = total_sim + sim_s, total_cpu + cpu_s
        speeds[ALL].append(total_sim / total_cpu)
    click.echo(
        f"{rounds} rounds of {len(seeds)} runs of {limit:g} s of each workload, {failed} failed:\n"
    )
    click.echo("| workload | simulated s per CPU s | lowest to highest | events per simulated s |")
    click.echo("|---|---|---|---|")
    for name, measured in speeds.items():
        events = f"{steps[name]:.0f}" if name in steps else ""
        click.echo(
            f"| {name} | {statistics.median(measured):.0f} | {min(measured):.0f} to"
            f" {max(measured):.0f} | {events} |"
        )


def _workers(campaign: Campaign, seeds: range, jobs: int, rounds: int) -> None:
    """Print simulated seconds per second of ``jobs`` worker processes that share all seeds."""
    click.echo("| processes | simulated s per s | per CPU s |\n|---|---|---|")
    for count in dict.fromkeys((1, jobs)):
        by_wall, by_cpu = [], []
        with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
            list(pool.map(partial(_run, campaign), range(count)))  # Starts and warms them up.
            for _ in range(rounds):
                begun = time.monotonic()
                tested = list(pool.map(partial(_run, campaign), seeds))
                took = time.monotonic() - begun
                sim_s = sum(t.sim_s for t in tested)
                by_wall.append(sim_s / took)
                by_cpu.append(sim_s / sum(t.cpu_s for t in tested))
        wall, cpu = statistics.median(by_wall), statistics.median(by_cpu)
        click.echo(f"| {count} | {wall:.0f} | {cpu:.0f} |")


def _run(campaign: Campaign, seed: int) -> Tested:
    return run_seed(campaign, seed, keep=False)


def _flat(make: Callable[..., Campaign], seeds: range) -> None:
    """Print CPU microseconds per event, of simulating and of judging."""
    click.echo(
        "| workload, seed | snapshots | length (s) | events | simulated, µs per event | judged |"
        " peak memory (MB) |\n|---|---|---|---|---|---|---|"
    )
    for seed in seeds:
        for name in sorted(workloads()):
            for length in LENGTHS_S:
                _flat_row(make(workload=name, time_limit_s=length), seed)


def _flat_row(campaign: Campaign, seed: int) -> None:
    options, knobs, faults = campaign.options(seed), campaign.knobs(seed), campaign.schedule(seed)
    workload = find(options.workload)
    begun = time.process_time()
    result = simulate(options, workload, faults, Injector, knobs=knobs)
    simulated = time.process_time()
    judge(result, workload)
    judged = time.process_time()
    each = 1e6 / result.processed
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    click.echo(
        f"| {options.workload}, {seed} | {'yes' if 'snapshot_bytes' in knobs.node else 'no'}"
        f" | {campaign.time_limit_s:g} | {result.processed} | {(simulated - begun) * each:.1f}"
        f" | {(judged - simulated) * each:.2f} | {memory} |"
    )


if __name__ == "__main__":
    main()
