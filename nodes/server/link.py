"""One connection to another node, with one request on it at a time.

On every new connection an ApiVersions request gets the peer's versions; a request is sent at the
highest version that both sides support.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.protocol.apis import (
    API_KEYS,
    NAMES,
    SUPPORTED,
    decode_response,
    encode_request,
)
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.errors import NONE
from kraftwreck.nodes.protocol.limits import ANSWER
from kraftwreck.nodes.server.quorum_requests import SOFTWARE
from kraftwreck.nodes.server.shapes import Body

CONNECT_TIMEOUT_S: Final = 1.0
HANDSHAKE_VERSION: Final = 3
_CORRELATION_MASK: Final = 2**31 - 1
_WILDCARDS: Final = ("", "0.0.0.0", "::")  # noqa: S104  # compared with, never bound to


def local_address(listener: Endpoint) -> tuple[str, int] | None:
    """Return the source address for packets to peers, None for any."""
    return None if listener.host in _WILDCARDS else (listener.host, 0)


class Link:
    """A connection to ``endpoint``, opened when it is needed.

    ``listener`` is an address this node listens on. Packets to peers carry it, so a network fault
    by address cuts both directions.
    """

    def __init__(self, node_id: int, endpoint: Endpoint, listener: Endpoint) -> None:
        self.endpoint = endpoint
        self._client_id = f"node-{node_id}"
        self._local = local_address(listener)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._versions: dict[str, tuple[int, int]] = {}

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that the peer has not closed."""
        return self._reader is not None and not self._reader.at_eof()

    async def open(self) -> None:
        """Connect and request the peer's versions, unless that is done already.

        Raises OSError, EOFError, TimeoutError and ProtocolError; no request was sent then.
        """
        if self.is_open:
            return
        self.close()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            self._reader, self._writer = await asyncio.open_connection(
                self.endpoint.host, self.endpoint.port, local_addr=self._local
            )
        answer = await self.call("ApiVersions", HANDSHAKE_VERSION, 0, dict(SOFTWARE))
        if answer["error_code"] != NONE:
            raise ProtocolError(f"ApiVersions failed with error {answer['error_code']}")
        self._versions = {
            NAMES[served["api_key"]]: (served["min_version"], served["max_version"])
            for served in answer["api_keys"]
            if served["api_key"] in NAMES
        }

    def version(self, api: str) -> int:
        """Return the highest version of ``api`` that both sides support; ProtocolError for none."""
        low, high = self._versions.get(api, (0, -1))
        version = min(high, SUPPORTED[api][1])
        if version < max(low, SUPPORTED[api][0]):
            raise ProtocolError(f"no version of {api} (api {API_KEYS[api]}) in common")
        return version

    async def call(self, api: str, version: int, correlation: int, body: Body) -> Body:
        """Send one request and return the body of its answer.

        Raises OSError, EOFError and ProtocolError; the connection is unusable then.
        """
        assert self._reader is not None and self._writer is not None
        correlation &= _CORRELATION_MASK
        frame = encode_request(api, version, correlation, self._client_id, body)
        self._writer.write(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(await self._reader.readexactly(4), "big", signed=True)
        if not 0 <= size <= ANSWER.size:
            raise ProtocolError(f"a frame of {size} bytes is not an answer")
        data = await self._reader.readexactly(size)
        received, answer = decode_response(api, version, data, ANSWER.items)
        if received != correlation:
            raise ProtocolError(f"answer to request {received} instead of {correlation}")
        return answer

    def close(self) -> None:
        """Close the connection; :meth:`open` makes a new one."""
        if self._writer is not None:
            # At once: data for an unreachable node must not linger in the kernel.
            self._writer.transport.abort()
        self._reader = self._writer = None
