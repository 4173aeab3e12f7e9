"""One operation event of a client, in Jepsen's shape.

Source: jepsen.history (``Op``): an invocation and its completion are two events of the
same ``process``; ``time`` is nanoseconds since the start of the test on the control
node's monotonic clock.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

OpType = Literal["invoke", "ok", "fail", "info"]

INVOKE: Final = "invoke"
OK: Final = "ok"
"""The operation took effect, and ``value`` is its result."""
FAIL: Final = "fail"
"""The operation certainly did not take effect."""
INFO: Final = "info"
"""The outcome is unknown: it may have taken effect, or may do so later."""


class Op(msgspec.Struct, kw_only=True, gc=False):
    """An invocation or a completion.

    ``index`` is the position in the history, from 0. ``process`` is a logical client; after an
    ``info`` the process ends and its thread continues under a new number. ``node`` is the node that
    served the client, ``error`` why it did not end ``ok``. ``final`` marks the reads made after the
    last heal.
    """

    index: int
    process: int
    type: OpType
    f: str
    key: Any = None
    value: Any = None
    time: int
    node: str | None = None
    error: str | None = None
    final: bool = False
