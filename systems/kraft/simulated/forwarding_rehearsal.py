"""Lets forwarded requests fail in each way, many of which runs hardly show (F33).

A broker sends clients' requests to the active controller. If that does not answer, a write may have
been carried out, so it must not be sent again. If the request was not sent, or the node does not
lead, it must be sent again. Compiled brokers cannot be copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.broker.forwarding import Forwarding
from kraftwreck.nodes.broker.leadership import ControllerAddress, controller_of
from kraftwreck.nodes.consensus.effects import ApiResponseReceived
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol.errors import NOT_CONTROLLER, REQUEST_TIMED_OUT
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED
from kraftwreck.systems.kraft.workloads.probes import codes_in

ENVELOPE: Final = "Envelope"
READS: Final = frozenset({"DescribeQuorum", "ListPartitionReassignments"})
"""Forwarded requests that change nothing."""
MOST: Final = 2
"""How many reads and how many writes are judged in a run."""
FIRST: Final = 1 << 28
"""A correlation id that no other request has."""

_REFUSED: Final = {"error_code": NOT_CONTROLLER, "response_data": None}
OUTCOMES: Final[tuple[tuple[str, Any, bool], ...]] = (
    ("was not sent", None, False),
    ("was not answered", None, True),
    ("went to a node that does not lead", _REFUSED, True),
)
"""Ends of an envelope: in words, with the answer, and with False if no byte of it was sent."""


class ForwardingRehearsal:
    """Judges the brokers of ``world`` that have just forwarded a request."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._judged: Counter[bool] = Counter()
        if INTERPRETED:
            world.wires.on_ask.append(self._on_ask)

    @rule(
        "F33",
        "ForwardedOnce",
        "A broker sends a forwarded write again within a second if the controller has certainly "
        "not carried it out. If that may have happened, the client gets REQUEST_TIMED_OUT. A "
        "forwarded read is sent again in both cases.",
        simulated=True,
    )
    def _on_ask(self, host: Host, rpc: Rpc) -> None:
        message, node = rpc.message, host.node
        if type(message) is not ApiMessage or message.api != ENVELOPE:
            return
        if not isinstance(node, Node) or node.broker is None:
            return
        parts = vars(node.broker)
        controller = controller_of(parts["_quorum"])
        now = host.clock.mono(self._world.now)
        [*others, forwarded] = vars(parts["_forwarding"])["_waiting"] or [None]
        if others or forwarded is None or controller is None:
            return  # Another request may have the same bytes.
        reads = forwarded.request.api in READS
        if forwarded.deadline <= now + 2 * STEPS_US or self._judged[reads] >= MOST:
            return
        self._judged[reads] += 1
        for wrong in misjudged(parts["_forwarding"], forwarded, controller, now):
            self._failures.add("F33", self._world.now, f"{host.name} {wrong}")


def misjudged(
    forwarding: Forwarding, forwarded: Any, controller: ControllerAddress, now: int
) -> Iterator[str]:
    """Yield what a copy would do wrong after an outcome of the only request that it has sent."""
    api, token = forwarded.request.api, forwarded.request.token
    for how, body, sent in OUTCOMES:
        copy = deepcopy(forwarding)
        copy.response(
            ApiResponseReceived(controller.node_id, forwarded.correlation, body, sent), now
        )
        answers = [each.body for each in copy.take_replies() if each.token == token]
        again = sum(
            len(copy.tick(controller, FIRST, at))
            for at in (now, now + STEPS_US // 2, now + STEPS_US)
        )
        open_ended = body is None and sent and api not in READS
        if open_ended and (
            again or len(answers) != 1 or REQUEST_TIMED_OUT not in codes_in(answers[0])
        ):
            yield f"would send a {api} again that {how}, or answer {answers}"
        elif not open_ended and (answers or again != 1):
            yield f"would send a {api} {again} times that {how}, and answer {answers}"
