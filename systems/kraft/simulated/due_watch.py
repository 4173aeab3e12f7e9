"""Watches what waits at the leader of the quorum and at the active controller (F22).

A fetch of the metadata log waits for news, a request to the controller for the commit of a record.
The step that brings either must wake all requests that wait for it: one that is forgotten is
answered later, by luck or by its time-out. Records wait for others of their batch, and reads for
others that share a record, but no longer than the first of them may. So each wait has an end that
is known when it begins, and the node must ask for a Tick by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.checkers.kraft.limits import LINGER_MS, MAX_IDLE_MS, READ_LINGER_US
from kraftwreck.checkers.kraft.rule import rule
from kraftwreck.nodes.consensus.effects import ApiRequest, RequestReceived
from kraftwreck.nodes.consensus.kraft.leader import Leader
from kraftwreck.nodes.consensus.kraft.messages import AddRaftVoterRequest, FetchRequest
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.metadata.controller import Controller
from kraftwreck.nodes.metadata.image import MetadataImage
from kraftwreck.nodes.metadata.served import READS, WRITES
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.replication.events import is_from_shell
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World

WAITING: Final = frozenset((*READS, *WRITES)) - {"UpdateFeatures"}
"""Requests that wait for a record of the controller. An upgrade of kraft.version appends one of the
quorum instead."""


@dataclass(slots=True)
class _Asked:
    """A request to the active controller: its API, when (µs of the node's clock) it arrived, and
    the end of the records that it waits for, None before the controller has appended one."""

    api: str
    arrived: int
    offset: int | None = None


@dataclass(slots=True)
class _Process:
    """One process as its last step left it. Times are µs of its own clock.

    ``fetches`` and ``asked`` are the requests that it has handled, by token. ``joins`` are
    those for a voter that are to be answered before the commit, and ``joined`` those whose voter is
    in the log. ``leads``, ``end`` and ``hw`` are its role, log end and high watermark, ``stable``
    the offset that its image shows, and ``due`` its next Tick. ``last`` is the last record of its
    image, proposals included, which its active controller has known since ``idle`` (None: it is not
    active). ``queued`` is since when records wait for their batch, None while there are none.
    """

    life: int
    fetches: dict[int, FetchRequest] = field(default_factory=dict)
    asked: dict[int, _Asked] = field(default_factory=dict)
    joins: dict[int, AddRaftVoterRequest] = field(default_factory=dict)
    joined: set[int] = field(default_factory=set)
    leads: bool = False
    end: int = 0
    hw: int = 0
    stable: int = 0
    due: int = 0
    last: int = 0
    idle: int | None = None
    queued: int | None = None


class DueWatch:
    """Judges the nodes of ``world`` after each of their steps."""

    def __init__(self, world: World, failures: Failures) -> None:
        self._world = world
        self._failures = failures
        self._processes: dict[int, _Process] = {}
        self._limits = {
            host.id: (
                1000 * settings.get("linger_ms", LINGER_MS),
                1000 * settings.get("max_idle_ms", MAX_IDLE_MS),
            )
            for host in world.hosts
            for settings in (world.knobs.settings_of(host.id),)
        }
        world.on_step.append(self._on_step)

    def _on_step(self, host: Host, event: Any) -> None:
        node = host.node
        if not isinstance(node, Node) or is_from_shell(event):
            return
        replica, controller = getattr(node, "replica", None), getattr(node, "controller", None)
        if not isinstance(replica, Replica) or controller is None:
            return
        known = self._processes.get(host.id)
        if known is None or known.life != host.life:
            known = self._processes[host.id] = _Process(host.life)
        if known.fetches:
            self._judge_fetches(host, known)
        if known.asked:
            self._judge_asked(host, known)
        if known.joins:
            self._judge_joins(host, known, replica)
        if type(event) is RequestReceived and type(event.message) is FetchRequest:
            known.fetches[event.token] = event.message
        if type(event) is RequestReceived and type(event.message) is AddRaftVoterRequest:
            asked = event.message
            if not (asked.ack_when_committed or _has_voter(replica, asked)):
                known.joins[event.token] = asked
        if type(event) is ApiRequest and controller.is_active and event.api in WAITING:
            now = host.clock.mono(self._world.now)
            # A late step does work that was due, too: a new record may not be the request's.
            if now < known.due:
                known.asked[event.token] = _Asked(event.api, now)
        leads = isinstance(replica.state, Leader)
        if leads:
            due = max(host.clock.mono(self._world.now), node.deadline)
            self._follow_queue(host, known, replica, due)
            self._follow_controller(host, known, controller, node.image, due)
            known.stable, known.due = node.image.stable_offset, due
            known.end, known.hw = replica.log.end_offset, replica.high_watermark
        else:
            known.queued = known.idle = None
        known.leads = leads

    def _follow_queue(self, host: Host, known: _Process, replica: Replica, due: int) -> None:
        """Judge the records that wait for their batch; ``due`` is the next Tick, or now."""
        state = replica.state
        if not isinstance(state, Leader) or state.next_offset <= replica.log.end_offset:
            known.queued = None
            return
        if known.queued is None or replica.log.end_offset != known.end:
            known.queued = host.clock.mono(self._world.now)
        limit = self._limits[host.id][0]
        if due > known.queued + limit:
            self._fail(
                host,
                f"lets records from offset {replica.log.end_offset} on wait for their batch"
                f" {(due - known.queued) / 1e6:.3f} s; linger is {limit // 1000} ms",
            )
            known.queued = due

    def _follow_controller(
        self,
        host: Host,
        known: _Process,
        controller: Controller,
        image: MetadataImage,
        due: int,
    ) -> None:
        """Note the records of an active controller, and judge one that appends none."""
        now = host.clock.mono(self._world.now)
        if not controller.is_active:
            known.idle = None
            return
        if known.idle is None or image.last_offset != known.last:
            known.idle, known.last = now, image.last_offset
            # The image of the only voter moves by commits alone, those of the quorum included.
            if image.proposed:
                for each in known.asked.values():
                    if each.offset is None:
                        each.offset = image.last_offset
        limit = self._limits[host.id][1]
        if due > known.idle + limit:
            self._fail(
                host,
                f"has appended no record for {(due - known.idle) / 1e6:.3f} s as the active"
                f" controller; the longest idle time is {limit // 1000} ms",
            )
            known.idle = due

    # --- rules ----------------------------------------------------------------------------

    @rule(
        "F22",
        "WaitsEnd",
        "A fetch of the metadata log that waits is answered by the step that appends or commits "
        "what it lacks, and a request to the active controller by the step that applies its "
        "record. A request for a voter that need not wait for the commit is answered by the step "
        "that appends the voters. Records wait for their batch at most as long as the first of "
        "them may, reads 5 ms for a record. An active controller appends a record at the latest "
        "after the longest idle time.",
        simulated=True,
    )
    def _judge_fetches(self, host: Host, known: _Process) -> None:
        """Judge the fetches that the last step has left unanswered."""
        waiting = {token: each for token, each in known.fetches.items() if token in host.tokens}
        known.fetches = waiting
        for each in waiting.values():
            news = max(known.end - each.fetch_offset, 0)
            if known.leads and not news and known.hw <= each.high_watermark:
                continue
            why = f"there are {news} records, and its high watermark is {known.hw}"
            if not known.leads:
                why = "it leads no longer"
            self._fail(
                host,
                f"lets a fetch of node {each.replica_id} at {each.fetch_offset} with high watermark"
                f" {each.high_watermark} wait although {why}",
            )

    def _judge_joins(self, host: Host, known: _Process, replica: Replica) -> None:
        """Judge the requests for voters that the last step has left unanswered."""
        known.joins = {token: e for token, e in known.joins.items() if token in host.tokens}
        for token in known.joined & known.joins.keys():
            voter = known.joins.pop(token).voter_id
            self._fail(
                host,
                f"lets the request for voter {voter} wait, which need not be committed, although"
                " the voter is in its log",
            )
        leads = isinstance(replica.state, Leader)
        joins = known.joins.items()
        known.joined = {token for token, e in joins if leads and _has_voter(replica, e)}

    def _judge_asked(self, host: Host, known: _Process) -> None:
        """Judge the requests to the controller that the last step has left unanswered."""
        waiting = {token: each for token, each in known.asked.items() if token in host.tokens}
        known.asked = waiting
        for token, each in list(waiting.items()):
            if each.offset is not None:
                if known.leads and each.offset > known.stable:
                    continue
                wrong = f"for a record at {each.offset}; it has applied {known.stable}"
            elif known.due > each.arrived + READ_LINGER_US and len(known_voters(host)) > 1:
                late = (known.due - each.arrived) / 1e6
                wrong = f"for any record, and appends none for {late:.3f} s after its arrival"
            else:
                continue
            del waiting[token]
            self._fail(host, f"lets a {each.api} wait {wrong}")

    def _fail(self, host: Host, text: str) -> None:
        self._failures.add("F22", self._world.now, f"{host.name} {text}")


def known_voters(host: Host) -> tuple[int, ...]:
    """Return the voters that the process of ``host`` knows."""
    node = host.node
    return node.replica.voters if isinstance(node, Node) else ()


def _has_voter(replica: Replica, asked: AddRaftVoterRequest) -> bool:
    return replica.history.latest.has(asked.voter_id, asked.directory)
