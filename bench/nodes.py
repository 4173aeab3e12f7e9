"""Measures the cost of a node's step, by kind of event: ``python -m bench.nodes``.

Some runs are simulated as ``bench.simulator`` does, and every event of every node is kept. Then the
nodes alone are run again with the same events, several times. The shortest time of each step
counts, so that other load on the machine matters little.
"""

from __future__ import annotations

import pickle
import platform
import time
from collections import defaultdict
from typing import Any
from unittest.mock import patch

import click

from kraftwreck.campaigns.campaign import run_seed
from kraftwreck.nodes.consensus.effects import (
    ApiRequest,
    Event,
    FatalError,
    RequestReceived,
    ResponseReceived,
)
from kraftwreck.nodes.effects import NodeEffect
from kraftwreck.nodes.node import Node
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign as Campaign

Step = tuple[bytes | None, int, int]
"""A pickled event (None: the start), monotonic microseconds, wall-clock milliseconds."""
Process = tuple[bytes, list[Step]]
"""The pickled arguments of a node, and its steps."""

_init, _start, _step = Node.__init__, Node.start, Node.step


class Recorder:
    """Keeps the arguments and events of nodes."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self._of: dict[int, list[Step]] = {}

    def made(self, node: Node, *arguments: Any) -> None:
        """Replaces ``Node.__init__``."""
        steps = self._of[id(node)] = []
        self.processes.append((pickle.dumps(arguments), steps))
        _init(node, *arguments)

    def started(self, node: Node, now: int, wall_ms: int) -> list[NodeEffect]:
        """Replaces ``Node.start``."""
        self._of[id(node)].append((None, now, wall_ms))
        return _start(node, now, wall_ms)

    def stepped(self, node: Node, event: Event, now: int, wall_ms: int) -> list[NodeEffect]:
        """Replaces ``Node.step``."""
        self._of[id(node)].append((pickle.dumps(event), now, wall_ms))
        return _step(node, event, now, wall_ms)


def record(campaign: Campaign, seeds: range) -> tuple[list[Process], float]:
    """Return every process of the runs with these seeds, and the seconds they simulated."""
    kept = Recorder()
    with (
        patch.object(Node, "__init__", lambda node, *a: kept.made(node, *a)),
        patch.object(Node, "start", lambda node, *a: kept.started(node, *a)),
        patch.object(Node, "step", lambda node, *a: kept.stepped(node, *a)),
    ):
        simulated = sum(run_seed(campaign, seed, keep=False).sim_s for seed in seeds)
    return kept.processes, simulated


def kind_of(node: Node, event: Event | None) -> str:
    """Return the kind under which a step is counted."""
    kind = "start" if event is None else type(event).__name__
    if isinstance(event, RequestReceived | ResponseReceived):
        kind = type(event.message).__name__ if event.message is not None else "transport failed"
    elif isinstance(event, ApiRequest):
        kind = event.api
    return f"{kind}, {node.replica.state.name}"


def replay(processes: list[Process], shortest: list[tuple[str, float]]) -> None:
    """Run the nodes again; ``shortest`` holds kind and seconds of each step, or is empty."""
    first = not shortest
    place = 0
    for arguments, steps in processes:
        node = Node(*pickle.loads(arguments))  # noqa: S301 (written by this process)
        for data, now, wall_ms in steps:
            event = None if data is None else pickle.loads(data)  # noqa: S301
            begun = time.perf_counter()
            try:
                _ = node.start(now, wall_ms) if event is None else node.step(event, now, wall_ms)
            except FatalError:
                break
            _ = node.deadline
            took = time.perf_counter() - begun
            if first:
                shortest.append((kind_of(node, event), took))
            elif took < shortest[place][1]:
                shortest[place] = (shortest[place][0], took)
            place += 1


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--seeds", default=10, show_default=True, help="Runs to record.")
@click.option("-t", "--time-limit", default=20.0, show_default=True, help="Virtual seconds.")
@click.option("--kinds", default=12, show_default=True, help="Lines of the table.")
def main(rounds: int, seeds: int, time_limit: float, kinds: int) -> None:
    """Measure, and print Markdown."""
    campaign = Campaign(
        nodes=5, rate=10.0, concurrency=5, system_options=("brokers=0",), time_limit_s=time_limit
    )
    processes, simulated = record(campaign, range(seeds))
    shortest: list[tuple[str, float]] = []
    for _ in range(rounds):
        replay(processes, shortest)
    of_kind: dict[str, list[float]] = defaultdict(list)
    for kind, took in shortest:
        of_kind[kind].append(took)
    total = sum(took for _, took in shortest)
    click.echo(
        f"{len(shortest) / simulated:.0f} steps of nodes in a simulated second, "
        f"{total / len(shortest) * 1e6:.1f} microseconds each: the nodes alone would do "
        f"{simulated / total:.0f} simulated seconds in one (Python {platform.python_version()})\n"
    )
    click.echo("| step | of the time | steps | microseconds |\n|---|---|---|---|")
    for kind, times in sorted(of_kind.items(), key=lambda item: -sum(item[1]))[:kinds]:
        share, each = sum(times) / total, sum(times) / len(times)
        click.echo(f"| {kind} | {share:.1%} | {len(times)} | {each * 1e6:.1f} |")


if __name__ == "__main__":
    main()
