"""Copies of members of the quorum and of brokers, which rehearsals may ask and change without harm.

Compiled classes cannot be copied, so rules that need copies are not judged with ``--compiled``.
"""

from __future__ import annotations

import copyreg
from types import FunctionType
from typing import Any, Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.requests import handle_request

INTERPRETED: Final = isinstance(handle_request, FunctionType)
"""Whether members can be copied."""
LONGEST: Final = 2_000
"""Records of a log whose member is copied."""
TOKEN: Final = 1 << 60
"""The token of a request that nobody has sent."""
MOVED: Final = Endpoint("moved", 1)
"""An address that no member has."""


def is_short(replica: Replica) -> bool:
    """Return whether the log of ``replica`` is short enough to be copied."""
    return replica.log.end_offset - replica.log.start_offset <= LONGEST


def _as_bytes(view: memoryview) -> Any:
    return bytes, (bytes(view),)


copyreg.pickle(memoryview, _as_bytes)  # Brokers hold views of the requests that wait.
