"""Gives brokers each answer of a controller to heartbeats and registrations (F36).

Controllers of a run give few of them: hardly one forgets a broker that runs. Compiled brokers
cannot be copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from typing import Any, Final, NamedTuple

from kraftwreck.checkers.kraft.limits import REGISTRATION_BACKOFF_MS, STEPS_US
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.broker.leadership import ControllerAddress, controller_of
from kraftwreck.nodes.broker.lifecycle import NO_EPOCH, Life, Lifecycle
from kraftwreck.nodes.consensus.effects import ApiResponseReceived
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.protocol import errors
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.replica_copies import INTERPRETED

HEARTBEAT: Final = "BrokerHeartbeat"
REGISTRATION: Final = "BrokerRegistration"
FORGOTTEN: Final = (errors.STALE_BROKER_EPOCH, errors.BROKER_ID_NOT_REGISTERED)
REFUSED: Final = (
    errors.NOT_CONTROLLER,
    errors.UNKNOWN_SERVER_ERROR,
    errors.DUPLICATE_BROKER_REGISTRATION,
)
NEW_EPOCH: Final = 1 << 40
"""The broker epoch of a registration that succeeds."""
FIRST: Final = 1 << 28
"""A correlation id that no other request has."""


class Next(NamedTuple):
    """The due consequences of an answer: the broker's state, its epoch, and the API of its next
    request, None if it ends."""

    state: Life
    epoch: int
    api: str | None


class LifecycleRehearsal:
    """Judges the first broker of ``world`` in each state that has asked its controller."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._judged = set[tuple[str, Life]]()
        if INTERPRETED:
            world.wires.on_ask.append(self._on_ask)

    @rule(
        "F36",
        "BrokersHearControllers",
        "A broker that a controller does not know registers again, or ends if it was to stop. It "
        "takes each other answer as its state demands, keeps its epoch, and sends the next request "
        "in time.",
        simulated=True,
    )
    def _on_ask(self, host: Host, rpc: Rpc) -> None:
        message, node = rpc.message, host.node
        if type(message) is not ApiMessage or message.api not in (HEARTBEAT, REGISTRATION):
            return
        if not isinstance(node, Node) or node.broker is None:
            return
        parts = vars(node.broker)
        life, controller = parts["_life"], controller_of(parts["_quorum"])
        asked = vars(life)["_asked"]
        kind = message.api, life.state
        if controller is None or asked is None or asked[0] != rpc.correlation:
            return
        if kind in self._judged:
            return
        self._judged.add(kind)
        now = host.clock.mono(self._world.now)
        for wrong in misjudged(life, message.api, controller, now):
            self._failures.add("F36", self._world.now, f"{host.name} {wrong}")
            return


def answers(api: str) -> Iterator[dict[str, Any] | None]:
    """Yield the answers of a controller, None for none."""
    yield None
    for code in (*FORGOTTEN, *REFUSED):
        yield {"error_code": code, "broker_epoch": -1}
    if api == REGISTRATION:
        yield {"error_code": errors.NONE, "broker_epoch": NEW_EPOCH}
        return
    names = "is_caught_up", "is_fenced", "should_shut_down"
    for flags in product((False, True), repeat=len(names)):
        yield {"error_code": errors.NONE, **dict(zip(names, flags, strict=True))}


def expected(life: Lifecycle, api: str, answer: dict[str, Any] | None) -> Next:
    """Return what a broker in the state of ``life``, which has sent ``api``, is to do."""
    state, epoch = life.state, life.epoch
    amends = api == REGISTRATION and epoch != NO_EPOCH
    same = Next(state, epoch, REGISTRATION if epoch == NO_EPOCH else HEARTBEAT)
    if answer is None or answer["error_code"] == errors.NOT_CONTROLLER:
        return same._replace(api=api)
    code = answer["error_code"]
    if code in FORGOTTEN and epoch != NO_EPOCH:
        if state is Life.PENDING_CONTROLLED_SHUTDOWN:
            return Next(Life.STOPPED, NO_EPOCH, None)
        return Next(Life.STARTING, NO_EPOCH, REGISTRATION)
    if code != errors.NONE or amends:
        return same
    if api == REGISTRATION:
        return Next(state, answer["broker_epoch"], HEARTBEAT)
    opened = vars(life)["_logs_open"]
    if state is Life.STARTING and answer["is_caught_up"] and opened:
        return same._replace(state=Life.RECOVERY)
    if state is Life.RECOVERY and not answer["is_fenced"]:
        return same._replace(state=Life.RUNNING)
    if state is Life.PENDING_CONTROLLED_SHUTDOWN and answer["should_shut_down"]:
        return Next(Life.STOPPED, epoch, None)
    return same


def misjudged(life: Lifecycle, api: str, controller: ControllerAddress, now: int) -> Iterator[str]:
    """Yield what a copy of ``life`` would do wrong after an answer to its request for ``api``."""
    correlation = vars(life)["_asked"][0]
    stranger = deepcopy(life)
    *_, last = answers(api)
    late = ApiResponseReceived(controller.node_id, correlation - 1, last)
    if stranger.response(late, now) or vars(stranger)["_asked"] is None:
        yield "would take an answer to another request"
    interval = vars(life)["_config"].heartbeat_interval_ms
    limit = now + 1000 * max(interval, REGISTRATION_BACKOFF_MS) + STEPS_US
    give_up_at = vars(life)["_give_up_at"]
    if give_up_at is not None and limit >= give_up_at:
        return
    for answer in answers(api):
        copy, wanted = deepcopy(life), expected(life, api, answer)
        copy.response(ApiResponseReceived(controller.node_id, correlation, answer), now)
        sent = copy.tick(controller, FIRST, limit)
        done = Next(copy.state, copy.epoch, None if sent is None else sent.api)
        if done != wanted:
            yield f"would be {done} in place of {wanted} after {answer} to its {api}"
        elif sent is not None and sent.api == HEARTBEAT:
            said = tuple(
                sent.body[name] for name in ("broker_epoch", "want_fence", "want_shut_down")
            )
            stops = wanted.state is Life.PENDING_CONTROLLED_SHUTDOWN
            if said != (wanted.epoch, wanted.state is Life.STARTING, stops):
                yield f"would say {said} in the state {wanted.state.value} after {answer}"
