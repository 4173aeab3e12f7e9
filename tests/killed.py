"""Commands that are killed at a random moment, to be repeated afterwards."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

KILLS = 3


def kill_early(command: Sequence[str], seed: int) -> None:
    """Start a command three times, and kill it at a random moment after its first line of progress,
    with which it has begun to change something."""
    draw = random.Random(seed)
    for _ in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        process.stderr.readline()
        with suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0.0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
