"""One simulated machine: a process that runs a node, or none, and a permanent disk."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.nodes.consensus.effects import Effect, Event
from kraftwreck.nodes.consensus.kraft.messages import Request
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.simulation.clocks import Clock
from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.disk_index import Durable
from kraftwreck.simulation.network import Rpc


class SimNode(Protocol):
    """The interface of a node in the simulator; ``nodes.node.Node`` implements it."""

    @property
    def deadline(self) -> int:
        """Monotonic microseconds of the next Tick that it needs."""
        ...

    def start(self, now: int, wall_ms: int) -> list[Effect]: ...

    def step(self, event: Event, now: int, wall_ms: int) -> list[Effect]: ...


class NodeFactory(Protocol):
    """Makes the process of a host from the contents of its disk."""

    def __call__(self, host: Host, recovered: Recovered, now: int, wall_ms: int) -> SimNode: ...


@dataclass(slots=True, eq=False)
class ClientCall:
    """A client's request; ``node_life`` is the process it was sent to. ``message`` is the form
    for the node if the request is one of the quorum; ``sent`` is the time (µs)."""

    client: int
    node: int
    node_life: int
    number: int
    api: str
    version: int
    body: dict[str, Any]
    listener: str
    message: Request | None = None
    sent: int = 0
    done: bool = False


@dataclass(slots=True)
class DiskWork:
    """The durable effects of one step, each with the time at which it is complete."""

    operations: list[tuple[int, Durable]]
    effects: list[Effect]
    begun: int = 0


@dataclass(slots=True, eq=False)
class Host:
    """A machine. ``node`` is None while no process runs; ``busy`` is its disk I/O.

    ``listener`` is the name of the clients' listener. ``timer`` is the virtual time of the earliest
    scheduled Tick, -1 for none.
    """

    id: int
    name: str
    clock: Clock
    listener: str = "CONTROLLER"
    disk: Disk = field(default_factory=Disk)
    node: SimNode | None = None
    incarnation: int = 0
    """The incarnation that the node gets: the number of processes with a trace, and the present
    one."""
    life: int = 0
    """Counts every process: no connection, timer or disk work outlives its process."""
    paused: bool = False
    busy: DiskWork | None = None
    frozen: bool = False
    """Disk work ended while the process was stopped; its messages leave on resume."""
    inbox: deque[Event] = field(default_factory=deque)
    timer: int = -1
    wake: int = 0
    """Virtual time of the node's deadline as of its last step."""
    sweep: bool = False
    requests: dict[int, Rpc] = field(default_factory=dict)
    """Requests sent and not answered, oldest first; see ``Wires`` for the keys."""
    tokens: dict[int, Rpc | ClientCall] = field(default_factory=dict)
    """Requests received and not answered."""
    resumed_at: int = -(1 << 62)
    stepped_at: int = 0
    """When the step began whose messages leave now: a flush may have delayed them."""
    trace_seq: int = 0
    last_trace: TraceEvent | None = None
    disk_count: int = 0
    stopping: bool = False
    """A shutdown of the process was requested."""
    clean_epoch: int = -1
    """The broker epoch that the previous process left after a clean shutdown, else -1."""
    stuck: int = 0
    """Ticks in a row that did not move the deadline."""

    def waited(self, since: int, now: int, slack: int) -> int:
        """Return how long (µs) the process has waited by ``now``, on its own clock, less ``slack``.

        The wait began at ``since``, or when the process resumed after a pause.
        """
        begun = max(since, self.resumed_at) + slack
        return self.clock.elapsed(begun, now) if begun < now else 0

    def process_ended(self) -> None:
        """Forget everything that was in memory only."""
        self.node = None
        self.disk.process_ended()
        self.paused = self.frozen = self.sweep = self.stopping = False
        self.busy = None
        self.timer = -1
        self.stuck = 0
        self.inbox.clear()
        self.tokens.clear()
        self.requests.clear()
