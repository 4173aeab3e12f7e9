"""Capabilities: what faults can do to a running cluster, each a small protocol.

A system offers some of them on some hosts. A fault family names those it needs, and an
:class:`Environment` is the record of those that one cluster offers, with a reason for each of the
others. A system may define capabilities of its own: a protocol and a :class:`Capability` for it.

Methods return evidence, keyed by node or process: what was measured, not what was assumed. They
raise any exception with one line if they fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

Evidence = dict[str, Any]

Grudge = Mapping[str, frozenset[str]]
"""For each node, the nodes whose packets it drops on arrival (Jepsen's grudge)."""

Resource = Literal["cpu", "memory", "files", "oom"]

DiskTrouble = Literal["slow", "full", "error", "readonly"]


@dataclass(frozen=True, slots=True)
class ClockSetting:
    """How the clocks of one node run from now on; by default undisturbed.

    ``wall_us`` is how far its wall clock is ahead (microseconds, may be negative). With
    ``strobe_us`` it is ahead only in every other period of this many microseconds, starting with
    the first. ``rate_ppm`` is how much too fast both clocks run, in parts per million (more than
    -1,000,000). The monotonic clock never jumps: it keeps what it has gained or lost. A wall clock
    that is no longer disturbed is right again.
    """

    wall_us: int = 0
    strobe_us: int = 0
    rate_ppm: int = 0


@dataclass(slots=True, frozen=True)
class MemberChange:
    """``add``: make ``node`` a member with its current disk, replacing an older disk of the same
    node. ``remove``: make it a non-member, whatever its disk."""

    action: Literal["add", "remove"]
    node: str


C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Capability(Generic[C]):
    """The key of a capability in an :class:`Environment`.

    ``name`` is what a system declares when it lacks it. ``protocol`` has the methods; it is checked
    when an environment is made.
    """

    name: str
    protocol: type

    def missing_in(self, offer: object) -> list[str]:
        """Return the methods of the protocol that ``offer`` lacks."""
        names = [name for name in dir(self.protocol) if not name.startswith("_")]
        return [name for name in names if not hasattr(offer, name)]


class Packets(Protocol):
    """Drops packets between nodes."""

    def drop(self, grudge: Grudge) -> Evidence:
        """Make every node drop packets from the nodes in its grudge, and no others."""
        ...

    def heal(self) -> Evidence:
        """Undo every drop; the evidence counts the packets that each node dropped."""
        ...


class Messages(Protocol):
    """Delays, loses, duplicates, reorders and damages messages between nodes."""

    def disturb(self, wanted: Sequence[Any]) -> Evidence:
        """Apply exactly ``wanted`` (:class:`~histories.disturbance.Disturbance`) to messages.

        The evidence counts the messages that each disturbance affected since the last call.
        """
        ...


class Processes(Protocol):
    """Ends, starts and pauses processes.

    A process is named by its node (``n2``), or ``n2/sentinel`` where a node has several.
    """

    def kill(self, process: str) -> Evidence:
        """SIGKILL the process, and keep an image of its files if the system does that."""
        ...

    def start(self, process: str) -> Evidence:
        """Start the process again (does nothing if it runs) and wait until it serves."""
        ...

    def pause(self, process: str) -> Evidence:
        """SIGSTOP the process."""
        ...

    def resume(self, process: str) -> Evidence:
        """SIGCONT the process."""
        ...

    def stop(self, process: str) -> Evidence:
        """Shut the process down (SIGTERM) and make sure that it ends."""
        ...


class Power(Protocol):
    """Cuts the power of nodes."""

    def cut_power(self, process: str) -> Evidence:
        """End the process like a loss of power: unflushed data is lost."""
        ...


class Clocks(Protocol):
    """Sets the clocks of nodes."""

    def set_clock(self, node: str, setting: ClockSetting) -> Evidence:
        """Run the clocks of this node only as in ``setting``, also for processes started later.
        The evidence has their readings before and after."""
        ...


class Disks(Protocol):
    """Breaks and repairs the disks of processes."""

    def trouble_disk(self, process: str, trouble: DiskTrouble, draw: int) -> Evidence:
        """Give the disk a fault until :meth:`mend_disk`.

        ``slow``: fsync takes 10 to 100 times longer. ``full``: only some more bytes can be written,
        and the last write is cut short. ``error``: writes, reads or fsyncs fail. ``readonly``: it
        can only be read, as after a remount because of errors. A process that cannot continue
        safely ends, and may be unable to start.
        """
        ...

    def damage_disk(self, process: str, draw: int) -> Evidence:
        """Change one bit in a file of the process, which is down; the evidence names it."""
        ...

    def disk_damaged(self, process: str) -> bool:
        """Return whether the damage to the disk is still there, not yet repaired."""
        ...

    def mend_disk(self, process: str) -> Evidence:
        """End the fault of the disk, and restore a bit that is still changed. The evidence counts
        the fault's effects."""
        ...


class Hosts(Protocol):
    """Crashes and boots the machines of nodes."""

    def crash_host(self, node: str) -> Evidence:
        """Cut the power of the machine, with all its processes and its network."""
        ...

    def boot_host(self, node: str) -> Evidence:
        """Boot the machine; its processes are down, and no fault is in force there."""
        ...


class Limits(Protocol):
    """Limits the resources of processes."""

    def squeeze(self, process: str, resource: Resource, draw: int) -> Evidence:
        """Limit a resource of the process until :meth:`release`.

        ``cpu``: 5 to 40 % of one CPU. ``memory``: its present use and some MB. ``files``: its
        present number of open files and connections, and a few. ``oom``: the kernel kills it at
        once, out of memory. A process that cannot continue ends.
        """
        ...

    def release(self, process: str) -> Evidence:
        """End a :meth:`squeeze`; the evidence has its effects."""
        ...

    def launch(self, process: str) -> Evidence:
        """Start the process without waiting until it serves."""
        ...


class Upgrades(Protocol):
    """Exchanges the code of processes."""

    def upgrade(self, process: str) -> Evidence:
        """Let the process, which is down, use the other version of the code from its next start."""
        ...


class Membership(Protocol):
    """Changes the members of a group of nodes that agree by majority."""

    def members(self) -> Sequence[str]:
        """Return the nodes that are or may become members, in order."""
        ...

    def change_members(self, changes: Sequence[MemberChange]) -> Evidence:
        """Queue ``changes``, to be carried out one after the other, and return at once.

        Earlier changes come first; no change is abandoned.
        """
        ...

    def member_changes(self) -> Evidence:
        """Return the changes that ``ended`` since the last call, and how many are ``open``."""
        ...

    def wipe(self, node: str) -> Evidence:
        """Give the node, which is down, an empty disk with a new identity."""
        ...


class TornWrites(Protocol):
    """Cuts writes short."""

    def tear_log(self, process: str, draw: int) -> Evidence:
        """Append the beginning of a write to a file of the process, which is down, like a write cut
        short by a loss of power. The evidence has its length."""
        ...


class Load(Protocol):
    """Knows how work is distributed among nodes."""

    def busiest(self) -> str | None:
        """Return the node that serves most of the data, None while this is unknown."""
        ...


class Commands(Protocol):
    """Runs programs on the machines of nodes."""

    def run_command(self, process: str, argv: Sequence[str]) -> Evidence:
        """Run ``argv`` as root on the machine of the process; the evidence has its ``output``.

        An argument ``{pid}`` becomes the pid of the process. Raises an exception if the process is
        needed and does not run, or if the program fails. Nothing undoes the command.
        """
        ...


class Leaders(Protocol):
    """Knows which node leads."""

    def leader(self) -> str | None:
        """Return the node that most recently claimed leadership, None while none is known."""
        ...


PACKETS: Capability[Packets] = Capability("packets", Packets)
MESSAGES: Capability[Messages] = Capability("messages", Messages)
PROCESSES: Capability[Processes] = Capability("processes", Processes)
POWER: Capability[Power] = Capability("power", Power)
CLOCKS: Capability[Clocks] = Capability("clocks", Clocks)
DISKS: Capability[Disks] = Capability("disks", Disks)
HOSTS: Capability[Hosts] = Capability("hosts", Hosts)
LIMITS: Capability[Limits] = Capability("limits", Limits)
UPGRADES: Capability[Upgrades] = Capability("upgrades", Upgrades)
MEMBERSHIP: Capability[Membership] = Capability("membership", Membership)
TORN_WRITES: Capability[TornWrites] = Capability("torn writes", TornWrites)
LOAD: Capability[Load] = Capability("load", Load)
COMMANDS: Capability[Commands] = Capability("commands", Commands)
LEADERS: Capability[Leaders] = Capability("leaders", Leaders)


CAPABILITIES: tuple[Capability[Any], ...] = (
    PACKETS,
    MESSAGES,
    PROCESSES,
    POWER,
    CLOCKS,
    DISKS,
    HOSTS,
    LIMITS,
    UPGRADES,
    MEMBERSHIP,
    TORN_WRITES,
    LOAD,
    COMMANDS,
    LEADERS,
)
"""The capabilities that families of any system use."""


class UnsupportedError(Exception):
    """A capability that an environment does not offer; the message is its reason, one line."""


class Environment:
    """A running cluster as faults see it: its nodes, and the capabilities it offers.

    ``offers`` has an object for each capability. One object may serve several. ``lacking`` has the
    reason, one line, for others, by name. ``roles`` names the nodes of each role, for shapes that
    hit one role only. ``processes`` are the names of all processes (None: one per node, with its
    name). ``concurrent`` says whether calls for different processes may be made at the same time;
    calls for one process never are.

    Raises TypeError for an offer without a method of its capability.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        offers: Mapping[Capability[Any], object],
        *,
        lacking: Mapping[str, str] | None = None,
        roles: Mapping[str, Sequence[str]] | None = None,
        processes: Sequence[str] | None = None,
        concurrent: bool = True,
    ) -> None:
        for capability, offer in offers.items():
            missing = capability.missing_in(offer)
            if missing:
                raise TypeError(
                    f"{type(offer).__name__} is offered for {capability.name!r}"
                    f" and lacks {', '.join(missing)}"
                )
        self.nodes = tuple(nodes)
        self.processes = self.nodes if processes is None else tuple(processes)
        self.roles = {role: tuple(names) for role, names in (roles or {}).items()}
        self.concurrent = concurrent
        self._offers = dict(offers)
        self._lacking = dict(lacking or {})

    def __getitem__(self, capability: Capability[C]) -> C:
        """Return what offers ``capability``. Raises :class:`UnsupportedError` with the reason."""
        why = self.why_not(capability)
        if why is not None:
            raise UnsupportedError(why)
        offer: C = self._offers[capability]  # type: ignore[assignment]  # by the check above
        return offer

    def why_not(self, capability: Capability[Any]) -> str | None:
        """Return the reason why ``capability`` is not offered, None if it is."""
        if capability in self._offers:
            return None
        return self._lacking.get(capability.name, f"the system offers no {capability.name}")

    def leader(self) -> str | None:
        """Return the leader, None if it is unknown or the system has none."""
        return self[LEADERS].leader() if LEADERS in self._offers else None

    def processes_of(self, node: str) -> tuple[str, ...]:
        """Return the processes of a node."""
        return tuple(name for name in self.processes if host_of(name) == node)


def host_of(process: str) -> str:
    """Return the node of a process: ``n2`` for ``n2`` and for ``n2/sentinel``."""
    return process.partition("/")[0]
