"""A factor on time limits, for slow machines such as emulated ones.

``KRAFTWRECK_PATIENCE``, a number of at least 1, multiplies the control node's time limits for SSH,
commands, responses, starts and the first leader. Timeouts between nodes are not changed.
"""

from __future__ import annotations

import os
import sys

from kraftwreck.histories.exit_codes import BAD_ARGUMENTS

VARIABLE = "KRAFTWRECK_PATIENCE"


def patience() -> float:
    """Return the factor; if it is not a number from 1 to 1000, exit with one line (254)."""
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
