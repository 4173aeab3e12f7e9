"""The binding of a core to the simulator: its messages, events and effects.

A core is a pure state machine (:class:`simulation.host.Core`). The world moves its messages and
carries out its effects without knowing what they mean; everything that depends on the protocol is
here. :mod:`simulation.plain` has the binding of cores that need nothing special.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kraftwreck.simulation.host import ClientCall, Host, SimulatedDisk
from kraftwreck.simulation.network import Rpc

Outlet = Callable[[Host, Any], None]
"""Carries out one effect of a host's core."""


class Binding(Protocol):
    """The parts of a core's protocol that the world needs: messages, events and effects.

    Every method that makes or converts a message may raise
    :class:`~nodes.consensus.effects.FatalError`: the process that sent it then dies.
    """

    @property
    def durable(self) -> frozenset[type]:
        """The types of effects that reach the disk before any message of the same step leaves."""
        ...

    def outlets(self, world: Any) -> Mapping[type, Outlet]:
        """Return how ``world`` (:class:`simulation.world.World`) carries out the effects of the
        protocol's own, by type."""
        ...

    def new_disk(self) -> SimulatedDisk:
        """Return the first disk of a host, empty."""
        ...

    # --- between nodes ------------------------------------------------------------------

    def request(self, host: Host, effect: Any) -> Any:
        """Return the message of a :class:`Send` as its receiver reads it."""
        ...

    def received(self, token: int, rpc: Rpc, sender: str) -> Any:
        """Return the event by which a node gets a request; it answers to ``token``."""
        ...

    def posted(self, source: int, message: Any) -> Any:
        """Return the event by which a node gets a one-way message."""
        ...

    def reply(self, host: Host, rpc: Rpc, effect: Any) -> Any:
        """Check and complete an answer to another node; return the effect for watches."""
        ...

    def answer(self, rpc: Rpc, effect: Any) -> Any:
        """Return the answer in ``effect`` as the node that sent the request reads it."""
        ...

    def heard(self, rpc: Rpc, answer: Any) -> Any:
        """Return the event by which a sender learns the outcome of ``rpc``; None: no answer."""
        ...

    # --- from clients -------------------------------------------------------------------

    def prepared(self, request: Any) -> tuple[Any, Any]:
        """Return a client's request as it arrives, and another form of it for the node or None.

        Raises what the client gets if the request cannot be sent.
        """
        ...

    def arriving(self, call: ClientCall) -> Any:
        """Return ``call.message`` as the node reads it; FatalError if it cannot be read: then the
        node closes the connection."""
        ...

    def called(self, token: int, call: ClientCall, message: Any) -> Any:
        """Return the event by which a node gets a client's request."""
        ...

    def call_answer(self, host: Host, call: ClientCall, effect: Any) -> Any:
        """Return the answer in ``effect``, for watches."""
        ...

    def call_read(self, call: ClientCall, answer: Any) -> Any:
        """Return ``answer`` as the client reads it."""
        ...

    # --- faults on messages ---------------------------------------------------------------

    def name(self, message: Any) -> str:
        """Return the name of a message's kind, for faults on messages and for people."""
        ...

    def copies(self, message: Any) -> bool:
        """Whether a faulty network can deliver the request twice."""
        ...

    def copy(self, message: Any) -> Any:
        """Return a second copy of a request."""
        ...

    def fragile(self, effect: Any) -> bool:
        """Whether the answer or one-way message in ``effect`` has bytes that can be damaged."""
        ...

    def damaged(self, host: Host, effect: Any, number: int) -> Any:
        """Return ``effect`` with one part of its message damaged, chosen by ``number``; itself if
        nothing can be."""
        ...

    def connection(self, host: Host, event: Any) -> tuple[bool, int] | None:
        """Return the connection that ``event`` came by: (whether from a client, number of it).
        None for an event that cannot wait for a paused process."""
        ...
