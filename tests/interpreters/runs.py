"""``python -m tests.interpreters.runs SEED...``: simulate, judge, and print the results.

Prints one JSON object: the interpreter, its hash seed, and for each seed the digest of the run,
every anomaly found and every checker with an unknown verdict.
"""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import replace

from kraftwreck.campaigns.campaign import run_seed
from kraftwreck.systems.simulators import everything

TIME_LIMIT_S = 12.0


def main() -> None:
    """Run the seeds of the command line."""
    campaign = replace(everything(), time_limit_s=TIME_LIMIT_S)
    runs = {}
    for seed in map(int, sys.argv[1:]):
        tested = run_seed(campaign, seed, keep=False)
        runs[seed] = [tested.workload, tested.digest, tested.found, tested.unknown]
    print(
        json.dumps(
            {
                "implementation": platform.python_implementation(),
                "version": list(sys.version_info[:2]),
                "order of a set": list({"follower", "leader", "candidate", "observer", "witness"}),
                "runs": runs,
            }
        )
    )


if __name__ == "__main__":
    main()
