"""Requests to the active controller and to members of the quorum, which scripted peers answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from kraftwreck.nodes.consensus.effects import Send, SendApi
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft.messages import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from kraftwreck.nodes.protocol.apis import SUPPORTED
from kraftwreck.nodes.protocol.errors import NONE, UNSUPPORTED_VERSION
from kraftwreck.nodes.server.calls import Calls
from kraftwreck.nodes.server.peers import Peers
from kraftwreck.nodes.server.wire import PRE_VOTE, request_from_body, response_to_body
from kraftwreck.systems.kraft.sockets.asking import LISTENER, SELF, TIMEOUT_MS, Asking
from kraftwreck.systems.kraft.sockets.scripted_peer import Body, Handled, ScriptedPeer

CONTROLLER: Final = 3
VOTER: Final = 4
AT_ONCE: Final = 3
"""So many heartbeats are on their way at the same time."""
CLUSTER: Final = "scripted"
DIRECTORY: Final = bytes([5]) * 16
ERRORS: Final = (NONE, NONE, 6, 41, 74)
WITH_ENDPOINTS: Final = 1
"""The first versions whose answers name the leader's address."""
FLAGS: Final = ("is_caught_up", "is_fenced", "should_shut_down")


class AskingQuorum:
    """Sends heartbeats, votes and requests for snapshots."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._dice = asking.dice
        self._calls = Calls(SELF, LISTENER, TIMEOUT_MS, asking.events.append)
        self._peers = Peers(SELF, {}, LISTENER, TIMEOUT_MS, asking.events.append)
        network = asking.network
        self._controller = ScriptedPeer(network, (f"10.0.0.{CONTROLLER}", 9093), self._heartbeat)
        self._voter = ScriptedPeer(network, (f"10.0.0.{VOTER}", 9093), self._of_quorum)
        self._messages: dict[int, Any] = {}
        """The voter's answers."""

    async def play(self) -> None:
        """Send all requests."""
        asking = self._asking
        beat = partial(asking.repeat, self._controller, self._ask_controller, alone=False)
        await asyncio.gather(
            *(beat() for _ in range(AT_ONCE)),
            asking.repeat(self._voter, self._ask_voter),
        )

    async def close(self) -> None:
        """Close all connections, and note what the peers did not understand."""
        await self._calls.close()
        await self._peers.close()
        self._asking.wrong += [*self._controller.wrong, *self._voter.wrong]

    # --- the active controller --------------------------------------------------------------

    def _heartbeat(self, _: Handled) -> Body:
        flags = {name: self._dice.random() < 0.5 for name in FLAGS}
        return {"throttle_time_ms": 0, "error_code": self._dice.choice(ERRORS), **flags}

    async def _ask_controller(self) -> None:
        asking, dice, number = self._asking, self._dice, self._asking.number()
        body = {
            "broker_id": number,
            "broker_epoch": dice.randrange(1 << 40),
            "current_metadata_offset": dice.randrange(1 << 40),
            "want_fence": dice.random() < 0.5,
            "want_shut_down": dice.random() < 0.5,
        }
        own_ms = dice.choice((0, 700))
        endpoint = Endpoint(*self._controller.address)
        self._calls.send(
            SendApi(
                CONTROLLER,
                number,
                endpoint,
                "BrokerHeartbeat",
                body | {"offline_log_dirs": []},
                own_ms,
            )
        )
        event = await asking.event(number, (own_ms or TIMEOUT_MS) / 1000, "a heartbeat")
        if event is None:
            return
        arrived = [each for each in self._controller.handled if each.body["broker_id"] == number]
        if len(arrived) > 1:
            asking.wrong.append(f"a heartbeat is sent {len(arrived)} times")
        for each in arrived:
            if any(each.body[name] != value for name, value in body.items()):
                asking.wrong.append(f"the heartbeat {body} is sent as {each.body}")
            if not event.sent:
                asking.wrong.append("a request that has arrived counts as not sent")
        answer = arrived[-1].answer if arrived else None
        if event.source != CONTROLLER or event.body != answer:
            asking.wrong.append(f"the answer {answer} to a heartbeat is taken as {event.body}")
        if event.sent and not self._controller.connections:
            asking.wrong.append("a request without a connection counts as sent")

    # --- members of the quorum --------------------------------------------------------------

    def _of_quorum(self, handled: Handled) -> Body:
        dice = self._dice
        error, partition_error = dice.choice(ERRORS), dice.choice(ERRORS)
        if error:
            partition_error, leader = NONE, (-1, 0)
        else:
            leader = dice.randrange(-1, 5), dice.randrange(99)
        message: Any
        if handled.api == "Vote":
            granted = not error and dice.random() < 0.5
            message = VoteResponse(error, partition_error, *leader, granted)
        elif error:
            message = FetchSnapshotResponse(error, partition_error, *leader)
        else:
            data = b"s" * dice.choice((0, 1, 5_000, 200_000))
            message = FetchSnapshotResponse(
                error,
                partition_error,
                *leader,
                snapshot_end=dice.randrange(1 << 40),
                snapshot_epoch=dice.randrange(99),
                size=dice.randrange(1 << 40),
                position=dice.randrange(1 << 40),
                data=data,
            )
        self._messages[handled.number] = message
        if not error and leader[0] >= 0 and handled.version >= WITH_ENDPOINTS:
            message.leader_endpoint = Endpoint("leader", dice.randrange(1 << 16))
        return response_to_body(message, handled.version, {}, handled.api)

    def _question(self) -> Any:
        dice = self._dice
        epoch, offset = dice.randrange(99), dice.randrange(1 << 40)
        if dice.random() < 0.5:
            return FetchSnapshotRequest(
                CLUSTER, SELF, DIRECTORY, 1 << 20, epoch + 1, offset, epoch, dice.randrange(1 << 40)
            )
        return VoteRequest(
            CLUSTER,
            VOTER,
            epoch + 1,
            SELF,
            DIRECTORY,
            DIRECTORY,
            epoch,
            offset,
            dice.random() < 0.5,
        )

    async def _ask_voter(self) -> None:
        asking, voter = self._asking, self._voter
        endpoint = Endpoint(*voter.address)
        forgotten = 0
        if self._dice.random() < 0.3:
            # The core forgets a request when it sends another one.
            forgotten = asking.number()
            self._peers.send(Send(VOTER, forgotten, self._question(), endpoint))
            await asyncio.sleep(self._dice.choice((0.0, 0.002, 0.01)))
            asking.events[:] = [each for each in asking.events if each.correlation != forgotten]
        number, question = asking.number(), self._question()
        before = len(voter.handled)
        self._peers.send(Send(VOTER, number, question, endpoint))
        event = await asking.event(number, TIMEOUT_MS / 1000, "a request of the quorum")
        if event is None:
            return
        asking.wrong += self._misunderstood(event, number, question, before, certain=not forgotten)

    def _refused_here(self, message: Any, *, certain: bool) -> Any:
        """Return what is to be taken for a pre-vote that no voter has got.

        A voter that has named older versions only does not get it. ``certain``: the newest
        connection is that of the request.
        """
        voter = self._voter
        newest = range(voter.connections, voter.connections - (1 if certain else 3), -1)
        known = [voter.highest[each]["Vote"] for each in newest if each in voter.highest]
        is_old = any(version < PRE_VOTE for version in known)
        if is_old and (message is not None or (certain and not voter.away)):
            return VoteResponse(UNSUPPORTED_VERSION, NONE, -1, 0, vote_granted=False)
        return None

    def _misunderstood(
        self, event: Any, number: int, question: Any, before: int, *, certain: bool
    ) -> Iterator[str]:
        """Yield what was wrong about a request that has ended."""
        voter = self._voter
        arrived = [each for each in voter.handled[before:] if each.number == number]
        if len(arrived) > 1:
            yield f"a request of the quorum is sent {len(arrived)} times"
        pre_votes = isinstance(question, VoteRequest) and question.pre_vote
        for each in arrived:
            if pre_votes and each.version < PRE_VOTE:
                yield f"a pre-vote is sent in version {each.version}, as a vote"
            read = request_from_body(each.api, each.version, each.body)
            if each.version == SUPPORTED[each.api][1] and read != question:
                yield f"{question} is sent as {read}"
        taken = None
        if arrived and arrived[-1].answer is not None:
            taken = self._messages[number]
        elif pre_votes and not arrived:
            taken = self._refused_here(event.message, certain=certain)
        if event.source != VOTER or event.message != taken:
            yield f"the answer {taken} of a voter is taken as {event.message}"
