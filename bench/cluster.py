"""Measures how long namespace hosts take to start, to answer, and to stop.

    .venv/bin/python bench/cluster.py [--nodes 5] [--runs 5]

Prints medians, minima and maxima in seconds as JSON. ``up`` is from the call to all sshds
listening; ``connect`` is an SSH session with every host, in parallel; ``agent`` the first answer of
every agent; ``drop`` and ``heal`` one nftables transaction on every host, read back; ``exec`` one
command on one host; ``down`` until the uplink and all processes are gone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kraftwreck.harness.clusters.netns import NetnsCluster
from kraftwreck.harness.remote.agent import Agent
from kraftwreck.harness.remote.session import Remote, on_all


def measure(nodes: int) -> dict[str, float]:
    """Bring a cluster up and down once; return seconds by step."""
    taken: dict[str, float] = {}

    def timed(step: str, action: Callable[[], object]) -> None:
        began = time.monotonic()
        action()
        taken[step] = time.monotonic() - began

    cluster = NetnsCluster(nodes)
    try:
        timed("up", cluster.up)
        remotes = {host.name: Remote(host) for host in cluster.hosts}
        agents = {name: Agent(remote) for name, remote in remotes.items()}
        ips = {host.name: host.ip for host in cluster.hosts}
        names = list(remotes)

        def drop(name: str) -> object:
            return agents[name].ask("drop", sources=[ips[n] for n in names if n != name])

        timed("connect", lambda: on_all(names, lambda name: remotes[name].connect()))
        timed("agent", lambda: on_all(names, lambda name: agents[name].ask("hello")))
        timed("drop", lambda: on_all(names, drop))
        timed("heal", lambda: on_all(names, lambda name: agents[name].ask("heal")))
        timed("exec", lambda: remotes["n1"].run(["true"]))
        for remote in remotes.values():
            remote.close()
    finally:
        timed("down", cluster.down)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    runs = [measure(options.nodes) for _ in range(options.runs)]
    steps = {
        step: {
            "median": round(statistics.median(run[step] for run in runs), 4),
            "min": round(min(run[step] for run in runs), 4),
            "max": round(max(run[step] for run in runs), 4),
        }
        for step in runs[0]
    }
    print(
        json.dumps(
            {
                "nodes": options.nodes,
                "runs": options.runs,
                "cores": os.cpu_count(),
                "load_before": round(load, 1),
                "seconds": steps,
            }
        )
    )


if __name__ == "__main__":
    main()
