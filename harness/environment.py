"""The faults that can be injected into a cluster, on any kind of host.

Implemented over SSH (``harness.remote.environment``) and over the simulator
(``harness.simulated.run``); the fault families in ``nemesis`` depend on this interface only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from kraftwreck.harness.voter_changes import VoterChange
from kraftwreck.histories.disturbance import Disturbance

Grudge = Mapping[str, frozenset[str]]
"""For each node, the nodes whose packets it drops on arrival (Jepsen's grudge)."""

Evidence = dict[str, Any]

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


class Environment(Protocol):
    """A running cluster as a nemesis sees it. All methods return evidence, keyed by node."""

    @property
    def nodes(self) -> Sequence[str]:
        """The names of all nodes, in order of node id."""
        ...

    @property
    def controllers(self) -> Sequence[str]:
        """The names of the nodes that are or may become voters, in order of node id."""
        ...

    @property
    def dynamic_quorum(self) -> bool:
        """Whether voters can be changed (KIP-853). If not, the fault model excludes new disks: a
        node with a new disk has forgotten its votes."""
        ...

    @property
    def concurrent(self) -> bool:
        """Whether nodes may be killed, started, paused or resumed concurrently, one thread per
        node; calls on one node are sequential."""
        ...

    def leader(self) -> str | None:
        """Return the node that most recently claimed leadership in the highest epoch."""
        ...

    def drop(self, grudge: Grudge) -> Evidence:
        """Make every node drop packets from the nodes in its grudge."""
        ...

    def heal(self) -> Evidence:
        """Undo every drop; the evidence counts the packets that each node dropped."""
        ...

    def kill(self, node: str) -> Evidence:
        """kill -9 the node's process and keep an image of its disk."""
        ...

    def start(self, node: str) -> Evidence:
        """Start the node's process again (does nothing if it runs)."""
        ...

    def pause(self, node: str) -> Evidence:
        """SIGSTOP the node's process."""
        ...

    def resume(self, node: str) -> Evidence:
        """SIGCONT the node's process."""
        ...

    def cut_power(self, node: str) -> Evidence:
        """End the node's process like a loss of power: unflushed data is lost."""
        ...

    def stop(self, node: str) -> Evidence:
        """Shut the node's process down (SIGTERM) and make sure that it ends."""
        ...

    def upgrade(self, node: str) -> Evidence:
        """Let the node, which is down, use the other version of the code from its next start."""
        ...

    def busiest_broker(self) -> str | None:
        """Return the broker that leads most partitions, None while this is unknown."""
        ...

    def crash_host(self, node: str) -> Evidence:
        """Cut the power of the node's machine, with all its processes and its network."""
        ...

    def boot_host(self, node: str) -> Evidence:
        """Boot the node's machine; its node is down, and no fault is in force there."""
        ...

    def wipe(self, node: str) -> Evidence:
        """Give the node, which is down, an empty disk with a new directory id."""
        ...

    def disturb(self, wanted: Sequence[Disturbance]) -> Evidence:
        """Apply exactly the disturbances in ``wanted`` to messages between nodes.

        The evidence counts the messages that each disturbance affected since the last call.
        """
        ...

    def set_clock(self, node: str, setting: ClockSetting) -> Evidence:
        """Run the clocks of this node only as in ``setting``, also for processes started later.
        The evidence has their readings before and after."""
        ...

    def trouble_disk(self, node: str, trouble: DiskTrouble, draw: int) -> Evidence:
        """Give the node's disk a fault until :meth:`mend_disk`.

        ``slow``: fsync takes 10 to 100 times longer. ``full``: only some more bytes can be written,
        and the last write is cut short. ``error``: writes, reads or fsyncs fail. ``readonly``: it
        can only be read, as after a remount because of errors. A process that cannot continue
        safely ends, and may be unable to start.
        """
        ...

    def damage_disk(self, node: str, draw: int) -> Evidence:
        """Change one bit in a file of the node, which is down; the evidence names it."""
        ...

    def tear_log(self, node: str, draw: int) -> Evidence:
        """Append the beginning of a batch to the log of the node, which is down, like a write cut
        short by a loss of power. The evidence has its length."""
        ...

    def disk_damaged(self, node: str) -> bool:
        """Return whether the damage to the node's disk is still there, not yet repaired."""
        ...

    def mend_disk(self, node: str) -> Evidence:
        """End the fault of the node's disk, and restore a bit that is still changed. The evidence
        counts the fault's effects."""
        ...

    def squeeze(self, node: str, resource: Resource, draw: int) -> Evidence:
        """Limit a resource of the node's process until :meth:`release`.

        ``cpu``: 5 to 40 % of one CPU. ``memory``: its present use and some MB. ``files``: its
        present number of open files and connections, and a few. ``oom``: the kernel kills it at
        once, out of memory. A process that cannot continue ends.
        """
        ...

    def release(self, node: str) -> Evidence:
        """End a :meth:`squeeze`; the evidence has its effects."""
        ...

    def launch(self, node: str) -> Evidence:
        """Start the node's process without waiting until it serves."""
        ...

    def change_voters(self, changes: Sequence[VoterChange]) -> Evidence:
        """Queue ``changes``, to be carried out one after the other, and return at once.

        Earlier changes come first; no change is abandoned.
        """
        ...

    def voter_changes(self) -> Evidence:
        """Return the changes that ``ended`` since the last call, and how many are ``open``."""
        ...
