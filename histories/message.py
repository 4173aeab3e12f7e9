"""One message between nodes, as it was captured: a request, an answer, or both.

Real nodes keep what they were told in their input logs; the simulator sees both ends. The
three shapes of a record: a request as its receiver got it (``response`` None), an answer as
the asker got it (``request`` None), and a request with the answer its receiver gave.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Message(msgspec.Struct, gc=False):
    """``api`` is the schema name without suffix (``"Fetch"``).

    ``time`` is nanoseconds since the start of the test, corrected for the clock of the node
    that has captured it. ``asker`` and ``replier`` are node ids, -1 where not known.
    ``request`` and ``response`` are the messages of the quorum as objects, those of other
    APIs as decoded bodies. Bytes of records are left out; ``records`` tells of them: (base
    offset and epoch of the first batch, end offset of the last), None for none. ``sent`` is
    when the asker sent the request, -1 where that is not known.
    """

    time: int
    asker: int
    replier: int
    api: str
    request: Any = None
    response: Any = None
    records: tuple[int, int, int] | None = None
    sent: int = -1
