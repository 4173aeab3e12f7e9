"""Watches leaders that announce themselves to silent voters (F9).

A leader sends BeginQuorumEpoch to each voter that has not fetched for half a fetch timeout, and
again as long as the voter is silent (KIP-595, KAFKA-15489). A voter that was away, or whose disk is
new, may have no other way to learn of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kraftwreck.checkers.kraft.limits import STEPS_US
from kraftwreck.checkers.kraft.quorum_model.quorum import voters_in
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import Send
from kraftwreck.nodes.consensus.kraft.messages import BeginQuorumEpochRequest, FetchRequest
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.election_watch import quorum_settings
from kraftwreck.systems.kraft.simulated.voter_watch import VoterWatch


@dataclass(slots=True)
class _Reign:
    """An epoch's leader, and when (virtual µs) it last heard from each voter or wrote to it."""

    epoch: int
    heard: dict[int, int]


class AnnouncementWatch:
    """Knows since when each leader has been silent towards each silent voter."""

    def __init__(self, world: World, failures: Failures, voters: VoterWatch) -> None:
        self._world = world
        self._failures = failures
        self._voters = voters
        self._reigns: dict[int, _Reign] = {}
        self._limits = {host.id: _limit_ms(world, host) for host in world.hosts}
        world.on_trace.append(self._on_trace)
        world.on_request.append(self._on_request)
        world.wires.on_send.append(self._on_send)

    def finish(self) -> None:
        """Judge the leaders at the end of the run."""
        for host in self._world.hosts:
            if host.node is not None and not host.paused and not host.busy:
                self._judge_all(host)

    def _on_trace(self, host: Host, event: TraceEvent) -> None:
        if event.kind in ("state", "start"):
            if event.kind == "state":
                self._judge_all(host)
            self._reigns.pop(host.id, None)
            if event.state == "leader":
                self._reigns[host.id] = _Reign(event.epoch, {})
                self._count(host, self._voters.of(host.name))
        elif event.kind == "voters":
            self._count(host, voters_in(event))

    def _count(self, host: Host, voters: Iterable[int]) -> None:
        """Follow a change of the voters; the time of a new one begins now."""
        reign, now = self._reigns.get(host.id), self._world.now
        if reign is not None:
            others = sorted(set(voters) - {host.id})
            reign.heard = {voter: reign.heard.get(voter, now) for voter in others}

    def _on_request(self, host: Host, message: Any) -> None:
        reign = self._reigns.get(host.id)
        if (
            reign is not None
            and isinstance(message, FetchRequest)
            and message.current_leader_epoch == reign.epoch
            and message.replica_id in reign.heard
        ):
            self._judge(host, reign, message.replica_id)
            reign.heard[message.replica_id] = self._world.now

    def _on_send(self, host: Host, effect: Send) -> None:
        reign = self._reigns.get(host.id)
        if (
            reign is not None
            and isinstance(effect.message, BeginQuorumEpochRequest)
            and effect.destination in reign.heard
        ):
            self._judge(host, reign, effect.destination)
            reign.heard[effect.destination] = self._world.now

    def _judge_all(self, host: Host) -> None:
        reign = self._reigns.get(host.id)
        if reign is not None and not host.stopping:
            for voter in reign.heard:
                self._judge(host, reign, voter)

    @rule(
        "F9",
        "LeadersAnnounce",
        "A leader announces itself to a voter that does not fetch from it, and repeats that as "
        "long as the voter is silent.",
        simulated=True,
    )
    def _judge(self, host: Host, reign: _Reign, voter: int) -> None:
        since, now = reign.heard[voter], self._world.now
        if host.waited(since, now, STEPS_US) > 1000 * self._limits[host.id]:
            self._failures.add(
                "F9",
                now,
                f"{host.name} leads epoch {reign.epoch}, and has neither heard from voter {voter}"
                f" nor announced itself to it for {(now - since) / 1e6:.1f} s",
            )


def _limit_ms(world: World, host: Host) -> int:
    """Return how long a leader may be silent: a period, a request without answer, a back-off."""
    settings = quorum_settings(world, host)
    waits = settings["request_timeout_ms"] + settings["reconnect_backoff_max_ms"]
    return int(settings["fetch_timeout_ms"] // 2 + waits)
