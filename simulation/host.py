"""One simulated machine: a process that runs a node, or none, and a permanent disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from kraftwreck.histories.trace import TraceEvent
from kraftwreck.simulation.clocks import Clock
from kraftwreck.simulation.disk_trouble import DiskTrouble, Kind
from kraftwreck.simulation.network import Rpc
from kraftwreck.simulation.pieces import WorkBeside


class Core(Protocol):
    """A pure state machine, the process of a host.

    It has no socket, clock, file, thread or random source. Events and effects are the values that
    its :class:`~simulation.binding.Binding` names.
    """

    @property
    def deadline(self) -> int:
        """Monotonic microseconds of the next Tick that it needs."""
        ...

    def start(self, now: int, wall_ms: int) -> list[Any]:
        """Return the first effects. ``now`` is the monotonic clock in microseconds, ``wall_ms`` the
        wall clock in milliseconds."""
        ...

    def step(self, event: Any, now: int, wall_ms: int) -> list[Any]:
        """Handle one event; return its effects."""
        ...


class Gathering(Protocol):
    """Requests that a process has received and handles when its turn is over."""

    def add(self, request: Any) -> None:
        """Keep ``request`` until then."""
        ...


class CoreFactory(Protocol):
    """Makes the process of a host from ``recovered``, the contents of its disk."""

    def __call__(self, host: Host, recovered: Any, now: int, wall_ms: int) -> Core: ...


class SimulatedDisk(Protocol):
    """The disk of a host: carries out durable effects, and loses what a crash may lose.

    ``directory`` identifies it. ``findings`` are the faults that the last start found, ``refusal``
    is the reason why the last start was refused because of a hardware fault. ``beside`` is the work
    beside the process, None if each effect is complete when it is written.
    """

    directory: bytes
    beside: WorkBeside | None
    findings: list[str]
    refusal: str | None
    trouble: DiskTrouble | None

    @property
    def damaged(self) -> bool:
        """Whether a bit is flipped and no start has repaired it."""
        ...

    @property
    def start_steps(self) -> int:
        """The number of file changes of a start, at most; 0: a start changes nothing."""
        ...

    def cached(self, effect: Any) -> bool:
        """Whether ``effect`` ends when the page cache has it; all others wait for the platter."""
        ...

    def early(self, effect: Any) -> bool:
        """Whether watches must see ``effect`` even if a crash interrupted it."""
        ...

    def fact(self, effect: Any) -> str:
        """Return a short text that stands for ``effect`` in a run's digest."""
        ...

    def write(self, effect: Any) -> None:
        """Carry out ``effect`` in the files. Raises OSError if the hardware fails."""
        ...

    def note(self, effect: Any) -> None:
        """Record that ``effect`` was carried out."""
        ...

    def interrupt(self, effect: Any, draw: int) -> bool:
        """Let the process die during ``effect``; return whether it was carried out."""
        ...

    def process_ended(self) -> None:
        """End the process, with its locks and open files."""
        ...

    def lose_power(self, draw: int) -> object:
        """Drop what is not on the platter, except for what ``draw`` chooses."""
        ...

    def begin(self, steps: int, torn: int = 0) -> None:
        """Let a process start and die again after ``steps`` changes of files."""
        ...

    def recover(self) -> Any:
        """Start a process: return the state on disk."""
        ...

    def refuse(self, reason: str) -> None:
        """Note that a process has read the disk and stopped."""
        ...

    def refuses(self, error: Exception) -> bool:
        """Whether a start may end with ``error`` because the disk is damaged."""
        ...

    def begin_trouble(self, kind: Kind, draw: int) -> DiskTrouble:
        """Begin trouble of this ``kind`` with the hardware."""
        ...

    def end_trouble(self) -> dict[str, Any]:
        """End the hardware trouble; return its effects."""
        ...


@dataclass(slots=True, eq=False)
class ClientCall:
    """A client's request; ``node_life`` is the process it was sent to. ``message`` is another form
    of it for the node (:meth:`~simulation.binding.Binding.prepared`), ``sent`` the time (µs)."""

    client: int
    node: int
    node_life: int
    number: int
    request: Any
    listener: str
    message: Any = None
    sent: int = 0
    done: bool = False


@dataclass(slots=True)
class DiskWork:
    """The durable effects of one step, each with the time at which it is complete."""

    operations: list[tuple[int, Any]]
    effects: list[Any]
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
    disk: SimulatedDisk
    listener: str = ""
    node: Core | None = None
    incarnation: int = 0
    """The incarnation that the node gets: the number of processes with a trace, and the present
    one."""
    life: int = 0
    """Counts every process: no connection, timer or disk work outlives its process."""
    port: int = 0
    """The port at which the process listens for requests that name one, 0: at all."""
    paused: bool = False
    busy: DiskWork | None = None
    frozen: bool = False
    """Disk work ended while the process was stopped; its messages leave on resume."""
    caused: deque[Any] = field(default_factory=deque)
    """Events of the disk, which the process handles before any other."""
    inbox: deque[Any] = field(default_factory=deque)
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
    working: bool = False
    """Whether a piece of work on the disk is under way beside the process."""
    stalled: bool = False
    """That piece would have ended while the process was stopped."""
    piece_count: int = 0
    stopping: bool = False
    """A shutdown of the process was requested."""
    left: Any = None
    """The :class:`Stopped` effect of the previous process after a graceful shutdown, else None."""
    stuck: int = 0
    """Ticks in a row that neither moved the deadline nor wrote anything."""
    gathering: Gathering | None = None
    """Requests of one turn of the process's event loop (:mod:`simulation.turns`)."""
    turn_end: Callable[[], None] | None = None
    """Ends a turn that is over, once the process runs."""

    @property
    def is_writing(self) -> bool:
        """Whether a step waits for its work on the disk."""
        return self.busy is not None

    def waited(self, since: int, now: int, slack: int) -> int:
        """Return how long (µs) the process has waited by ``now``, on its own clock, less ``slack``.

        The wait began at ``since``, or when the process resumed after a pause.
        """
        begun = max(since, self.resumed_at) + slack
        return self.clock.elapsed(begun, now) if begun < now else 0

    def origin(self, token: int) -> tuple[bool, int]:
        """Return the sender of the open request ``token``: (whether a client, number of it)."""
        asked = self.tokens[token]
        if isinstance(asked, Rpc):
            return False, asked.source
        return True, asked.client

    def process_ended(self) -> None:
        """Forget everything that was in memory only."""
        self.node = None
        self.disk.process_ended()
        self.paused = self.frozen = self.sweep = self.stopping = False
        self.working = self.stalled = False
        self.busy = None
        self.timer = -1
        self.stuck = 0
        self.gathering = self.turn_end = None
        self.caused.clear()
        self.inbox.clear()
        self.tokens.clear()
        self.requests.clear()
