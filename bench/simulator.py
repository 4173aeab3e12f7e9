"""Simulated seconds per CPU second, checking included: ``python bench/simulator.py``.

Five nodes, all fault families, thirty virtual seconds a run, rate and clients as given.
Each round simulates and judges the same seeds; the median of the rounds is what counts.
"""

from __future__ import annotations

import platform
import statistics
import time

import click

from kraftwreck.campaign import Campaign, run_seed


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--seeds", default=20, show_default=True, help="Runs in a round.")
@click.option("--rate", default=10.0, show_default=True)
@click.option("--concurrency", default=5, show_default=True)
@click.option("--nodes", default=5, show_default=True)
def main(rounds: int, seeds: int, rate: float, concurrency: int, nodes: int) -> None:
    """Measure and print one line a round, then the medians."""
    campaign = Campaign(nodes=nodes, rate=rate, concurrency=concurrency)
    run_seed(campaign, 0, keep=False)  # Imports and compiles everything.
    speeds = []
    for number in range(rounds):
        begun = time.process_time()
        tested = [run_seed(campaign, seed, keep=False) for seed in range(seeds)]
        cpu_s = time.process_time() - begun
        sim_s = sum(each.sim_s for each in tested)
        speeds.append(sim_s / cpu_s)
        failed = sum(1 for each in tested if each.found)
        click.echo(
            f"round {number + 1}: {sim_s:.0f} simulated s in {cpu_s:.2f} CPU s:"
            f" {speeds[-1]:.0f} per CPU s, {failed} failed"
        )
    click.echo(
        f"median {statistics.median(speeds):.0f} simulated s per CPU s"
        f" ({min(speeds):.0f}-{max(speeds):.0f}); {nodes} nodes, {rate:g} operations/s,"
        f" Python {platform.python_version()}"
    )


if __name__ == "__main__":
    main()
