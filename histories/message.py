"""One captured message between nodes: a request, a response, or both.

Real nodes keep their inputs in their input logs; the simulator sees both ends. A record has one of
three shapes: a request as its receiver got it (``response`` None), a response as the requester got
it (``request`` None), and a request with the response that its receiver gave.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Message(msgspec.Struct, gc=False):
    """A captured message; ``api`` is the schema name without suffix (``"Fetch"``).

    ``time`` is nanoseconds since the start of the test, corrected for the clock of the node that
    has captured it. ``asker`` sent the request and ``replier`` the response; they are node ids, -1
    if not known. ``request`` and ``response`` are the messages of consensus as objects, those of
    other APIs as decoded bodies. Bytes of records are left out. ``records`` describes them: (base
    offset and epoch of the first batch, end offset of the last), None for none. ``sent`` is when
    the request was sent, -1 if not known. ``as_gateway``: the replier got it on a
    listener for clients; it may elect leaders, too.
    """

    time: int
    asker: int
    replier: int
    api: str
    request: Any = None
    response: Any = None
    records: tuple[int, int, int] | None = None
    sent: int = -1
    as_gateway: bool = False

    @property
    def begun(self) -> int:
        """When the request was sent; ``time`` if that is not known."""
        return self.sent if self.sent >= 0 else self.time

    @property
    def is_exchange(self) -> bool:
        """Whether it has a request, of which is known when it was sent, and its response."""
        return self.request is not None and self.response is not None and self.sent >= 0
