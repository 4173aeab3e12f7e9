"""Run a command while busy loops run beside it: ``make test-busy LOAD=30``.

    python -m tests.busy LOAD COMMAND...

Exits with the command's status. The loops end with this process, however it ends.
"""

from __future__ import annotations

import os
import subprocess
import sys

BUSY = "KRAFTWRECK_BUSY"
"""The environment variable that is set for the command."""

LOOP = """
import os, sys
parent = int(sys.argv[1])
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


def main(arguments: list[str]) -> int:
    """Run the command beside the loops; return its exit status, 254 for wrong arguments."""
    if len(arguments) < 2 or not arguments[0].isdecimal():
        print("usage: python -m tests.busy LOAD COMMAND...", file=sys.stderr)
        return 254
    loop = [sys.executable, "-c", LOOP, str(os.getpid())]
    loops = [subprocess.Popen(loop) for _ in range(int(arguments[0]))]
    try:
        environment = {**os.environ, BUSY: arguments[0]}
        return subprocess.run(arguments[1:], check=False, env=environment).returncode
    finally:
        for each in loops:
            each.kill()
        for each in loops:
            each.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
