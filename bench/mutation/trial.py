"""One trial of a mutant, in a process of its own that leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Callable

from bench.mutation.reach import silence


def fails(trial: Callable[[], int], *, raised: int) -> bool:
    """Return whether ``trial``, which returns an exit code, does not end with 0 in a silent fork.

    ``raised`` is the exit code if it raises.
    """
    child = os.fork()
    if child == 0:
        code = raised
        try:
            silence()
            code = trial()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return status != 0
