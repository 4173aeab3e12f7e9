"""``python lifeline.py COMMAND…``: run a program that ends with the process that started it.

That process holds the other end of this one's standard input. However it ends, the kernel closes
that end: the working directory (the program's input and output) is then removed, and the process
group killed. A wrapper script and its JVM are in that group; a death signal of the kernel would
only reach the wrapper. This file imports nothing of the project, so that it starts fast.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    shutil.rmtree(Path.cwd(), ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Run the program and end as it does."""
    try:
        program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"Error: {sys.argv[1]}: {error.strerror}", file=sys.stderr)
        sys.exit(126)
    Thread(target=_end_with_parent, daemon=True).start()
    code = program.wait()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
