"""Captures the messages of a simulated run for checkers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kraftwreck.checkers.kraft.invariants.unrequested import APIS
from kraftwreck.checkers.kraft.recorded.capture import Capture
from kraftwreck.nodes.consensus.effects import ApiReply, AppendLog, FinishSnapshot, ResponseReceived
from kraftwreck.nodes.consensus.kraft.messages import FetchResponse
from kraftwreck.nodes.log.batch import BatchError, parse_header
from kraftwreck.simulation.host import ClientCall, Host
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.api_message import ApiMessage
from kraftwreck.systems.kraft.simulated.binding import disk_of
from kraftwreck.systems.kraft.simulated.data_requests import RecordMessage

_ON_ARRIVAL = frozenset(
    (*APIS, "AlterPartitionReassignments", "BrokerHeartbeat", "BrokerRegistration", "ElectLeaders")
)


def listen(world: World) -> Capture:
    """Return the capture that will hold the messages of ``world``.

    Each request is captured with its response, when the response is sent. Fetch responses are
    captured again when they arrive. Clients' requests for changes and requests of scripted brokers
    are also captured when they arrive, since they may be carried out without a response. Batches
    and the headers of snapshots are captured when they reach a disk, so the whole log is known even
    after cleaning.
    """
    capture = Capture()

    def on_reply(host: Host, rpc: Rpc, effect: Any) -> None:
        now, sent, asked = world.now * 1000, rpc.sent * 1000, rpc.message
        if isinstance(asked, RecordMessage):
            return
        if isinstance(effect, ApiReply):
            assert isinstance(asked, ApiMessage)
            capture.api(now, rpc.source, host.id, asked.api, asked.body, effect.body, sent)
        else:
            capture.exchange(now, rpc.source, host.id, asked, effect.message, sent)

    def on_response(host: Host, event: ResponseReceived) -> None:
        if type(event.message) is FetchResponse:
            capture.answer(world.now * 1000, host.id, event.source, event.message)

    def on_client_reply(host: Host, call: ClientCall, body: dict[str, Any]) -> None:
        now, sent = world.now * 1000, call.sent * 1000
        if isinstance(call.request, RecordMessage):
            return
        capture.api(now, -1, host.id, call.request.api, call.request.body, body, sent)

    def on_call(call: ClientCall) -> None:
        if call.request.api in _ON_ARRIVAL:
            sent = call.sent * 1000
            capture.api(
                world.now * 1000, -1, call.node, call.request.api, call.request.body, None, sent
            )

    def on_disk(host: Host, effect: object) -> None:
        kind = type(effect)
        if kind is AppendLog:
            assert isinstance(effect, AppendLog)
            capture.batches[effect.batch] = None
        elif kind is FinishSnapshot:
            assert isinstance(effect, FinishSnapshot)
            name = effect.end_offset, effect.epoch
            content = disk_of(host).parts.get(name, b"")
            with suppress(BatchError):  # Other checkers report damaged ones.
                first = bytes(content[: parse_header(content).length])
                capture.headers.setdefault((*name, first), host.id)

    world.on_disk.append(on_disk)
    world.wires.calls.on_call.append(on_call)
    world.wires.on_client_reply.append(on_client_reply)
    world.wires.on_reply.append(on_reply)
    world.on_response.append(on_response)
    return capture
