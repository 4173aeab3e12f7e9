"""Messages of a node to its operator: one line each, on stderr."""

from __future__ import annotations

import os
import sys


def say(text: str) -> None:
    """Write one line to stderr at once; control characters cannot make it more than one."""
    line = "".join(c if c.isprintable() else "?" for c in text)[:2000]
    try:
        os.write(sys.stderr.fileno(), f"{line}\n".encode(errors="replace"))
    except OSError:
        return  # stderr is closed, which is no reason for a node to stop
