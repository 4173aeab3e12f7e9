"""Measures pull (KRaft) against push (Raft) in the simulator: ``python -m bench.push_and_pull``.

Both cores replicate the same store, with the same writes, seeds, machines, network and faults. All
times are virtual and all choices are drawn by the seed, so a tree prints the same tables on any
machine. The page is ``bench/results/push-and-pull.md``; ``docs/push-and-pull.md`` explains it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

import click

from bench.quorums.commits import measure_commits, measure_idle
from bench.quorums.elections import End, measure_end, measure_return
from bench.quorums.group import (
    EAGER_PULL,
    EAGER_PUSH,
    LINGERING_PULL,
    MS,
    PULL,
    PUSH,
    Kind,
)
from bench.quorums.logs import FIGURE_7, measure_repair

SIZES: Final = (3, 5)
RATES: Final = (1, 10, 100, 1000)
_IDLE_S: Final = 60
_HEAD: Final = """\
# Push and pull

`python -m bench.push_and_pull --commits {commits} --seeds {seeds}` prints this page. All times are
virtual: the same tree gives the same figures on any machine.
[Push and pull](../../docs/push-and-pull.md) says what is measured, and what follows from it.
"""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def share(values: Sequence[int], percent: int) -> float:
    """Return the percentile of ``values`` by nearest rank. ValueError without values."""
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]


def milliseconds(microseconds: float) -> str:
    """Return a time as text, to 0.1 ms below 100 ms and to 1 ms above."""
    value = microseconds / MS
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def spread(values: Sequence[int]) -> str:
    """Return median and range of times in microseconds, as milliseconds."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{milliseconds(middle)} ({milliseconds(low)} to {milliseconds(high)})"


def commits_table(size: int, rates: Sequence[int], commits: int, seeds: Sequence[int]) -> str:
    """Return the cost of commits in groups of ``size``."""
    rows = []
    for rate in rates:
        for kind in (PUSH, PULL, LINGERING_PULL):
            found = measure_commits(kind, size, rate, commits, seeds)
            rows.append(
                [
                    str(rate),
                    kind.name,
                    f"{found.messages / found.commits:.2f}",
                    f"{found.bytes / found.commits:.0f}",
                    milliseconds(statistics.median(found.latencies)),
                    milliseconds(share(found.latencies, 99)),
                    milliseconds(statistics.median(found.lags)),
                ]
            )
    head = ["writes a second", "", "messages a commit", "bytes a commit"]
    return table([*head, "latency, median ms", "99 % ms", "last follower, ms later"], rows)


def idle_table(seeds: Sequence[int]) -> str:
    """Return the traffic of groups without clients."""
    rows = []
    for size in SIZES:
        for kind in (PUSH, PULL):
            found = measure_idle(kind, size, _IDLE_S, seeds)
            rows.append([str(size), kind.name, f"{found.messages:.1f}", f"{found.bytes:.0f}"])
    return table(["nodes", "", "messages a second", "bytes a second"], rows)


def repair_table(seeds: Sequence[int]) -> str:
    """Return the repair of the six logs of figure 7."""
    rows = []
    for shape in FIGURE_7:
        for kind in (PUSH, PULL):
            found = measure_repair(kind, shape, seeds)
            rows.append(
                [
                    shape,
                    kind.name,
                    f"{statistics.median(found.rejected):.0f}",
                    f"{statistics.median(found.messages):.0f}",
                    f"{statistics.median(found.bytes):.0f}",
                    milliseconds(statistics.median(found.times)),
                    milliseconds(statistics.median(found.starts)),
                ]
            )
    head = ["log", "", "answers: logs differ", "messages", "bytes"]
    return table([*head, "ms from following", "ms from the start"], rows)


def return_table(seeds: Sequence[int]) -> str:
    """Return the disruption by a follower that returns from a cut of ten seconds."""
    rows = []
    for size in SIZES:
        for kind in (PUSH, EAGER_PUSH, PULL, EAGER_PULL):
            found = measure_return(kind, size, seeds)
            rows.append(
                [
                    str(size),
                    kind.name,
                    "yes" if kind.pre_vote else "no",
                    f"{sum(count > 0 for count in found.elections)} of {len(seeds)}",
                    f"{statistics.median(found.terms):.0f}",
                    spread(found.gaps),
                ]
            )
    head = ["nodes", "", "pre-vote", "runs with an election", "terms, median"]
    return table([*head, "longest pause in writes, ms"], rows)


def end_table(seeds: Sequence[int]) -> str:
    """Return how long writes wait after the end of a leader."""
    measured: Sequence[tuple[Kind, End]] = (
        (PULL, "stop"),
        (PULL, "kill"),
        (EAGER_PULL, "kill"),
        (PUSH, "stop"),
        (PUSH, "kill"),
        (EAGER_PUSH, "kill"),
    )
    rows = []
    for size in SIZES:
        for kind, end in measured:
            found = measure_end(kind, size, end, seeds)
            by = "SIGTERM" if end == "stop" else "SIGKILL"
            rows.append([str(size), kind.name, "yes" if kind.pre_vote else "no", by, spread(found)])
    return table(["nodes", "", "pre-vote", "end", "ms to the next acknowledged write"], rows)


def page(rates: Sequence[int], commits: int, seeds: int) -> str:
    """Measure everything; return the page."""
    each = range(seeds)
    parts = [_HEAD.format(commits=commits, seeds=seeds)]
    for size in SIZES:
        parts.append(f"## Commits, {size} nodes\n\n{commits_table(size, rates, commits, each)}\n")
    parts.append(f"## Without clients\n\n{idle_table(each)}\n")
    parts.append(f"## The logs of figure 7\n\n{repair_table(each)}\n")
    parts.append(f"## A follower returns\n\n{return_table(each)}\n")
    parts.append(f"## A leader ends\n\n{end_table(each)}\n")
    return "\n".join(parts)


@click.command()
@click.option("--commits", default=200, show_default=True, help="Writes of each run.")
@click.option("--seeds", default=20, show_default=True, help="Runs of each row.")
@click.option("--rate", "rates", type=int, multiple=True, default=RATES, show_default=True)
def main(commits: int, seeds: int, rates: tuple[int, ...]) -> None:
    """Measure pull against push, and print Markdown."""
    if min(commits, seeds, *rates) < 1:
        raise click.UsageError("--commits, --seeds and --rate must be at least 1")
    click.echo(page(rates, commits, seeds), nl=False)


if __name__ == "__main__":
    main()
