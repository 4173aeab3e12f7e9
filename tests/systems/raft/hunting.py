"""Look for a failure of the store in the simulator, seed after seed.

    python -m tests.systems.raft.hunting SEEDS [FIRST]

prints the first failure, if there is one. With the patched node code first in the import path it
shows whether a planted bug is found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from kraftwreck.campaigns.campaign import run_seed
from kraftwreck.campaigns.loop_guard import loop_guard
from kraftwreck.harness.simulated.core import FAULTS
from kraftwreck.systems.core_campaign import CoreCampaign

CAMPAIGN = CoreCampaign(system="raft", faults=FAULTS)


def first_failure(seeds: Iterable[int]) -> str | None:
    """Return the seed, the checker, the anomaly and the reason of the first failing run."""
    for seed in seeds:
        with loop_guard():
            tested = run_seed(CAMPAIGN, seed, keep=False, eager=True)
        for checker, kind, text in tested.found:
            return f"seed {seed}: {checker}: {kind}: {text}"
    return None


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    print(first_failure(range(first, first + int(sys.argv[1]))) or "")
