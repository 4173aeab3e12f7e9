"""How much longer than on hosts of the usual speed everything may take: emulated ones are slow.

``KRAFTWRECK_PATIENCE``, a number of at least 1, stretches what the control node waits for: SSH,
commands, answers, starts and the first leader. What nodes promise each other is not stretched.
"""

from __future__ import annotations

import os
import sys

from histories.exit_codes import BAD_ARGUMENTS

VARIABLE = "KRAFTWRECK_PATIENCE"


def patience() -> float:
    """Return the factor; ends the process with one line (254) if it is no number of at least 1."""
    told = os.environ.get(VARIABLE) or "1"
    try:
        factor = float(told)
    except ValueError:
        factor = 0.0
    if not 1 <= factor <= 1000:
        print(f"{VARIABLE}={told} is not a number from 1 to 1000", file=sys.stderr)
        raise SystemExit(BAD_ARGUMENTS)
    return factor


PATIENCE = patience()
