"""Compiled loops (decision 11)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def partners(process: Any, kind: Any, f: Any, size: int) -> Any:
    """Join invocations (kind 0) with the next event of their process.

    ``process`` is below ``size``. Returns the completion of each invocation (-1 for none),
    and the first event that does not fit, -1 if all do.
    """
    waiting = np.full(size, -1, np.int64)
    partner = np.full(len(process), -1, np.int64)
    for at in range(len(process)):
        before = waiting[process[at]]
        if kind[at] == 0:
            if before >= 0:
                return partner, at
            waiting[process[at]] = at
        else:
            if before < 0 or f[before] != f[at]:
                return partner, at
            partner[before] = at
            waiting[process[at]] = -1
    return partner, -1
