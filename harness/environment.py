"""What faults can do to a cluster, on any kind of host.

Implemented once over SSH (``harness.remote.environment``) and once over the simulator
(``harness.simulated.run``); fault families in ``nemesis`` are written against this only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from harness.voter_changes import VoterChange
from histories.disturbance import Disturbance

Grudge = Mapping[str, frozenset[str]]
"""For each node, the nodes whose packets it drops on arrival (Jepsen's grudge)."""

Evidence = dict[str, Any]

Resource = Literal["cpu", "memory", "files", "oom"]

DiskTrouble = Literal["slow", "full", "error", "readonly"]


@dataclass(frozen=True, slots=True)
class ClockSetting:
    """How the clocks of one node run from now on; by default as they would by themselves.

    ``wall_us`` is what its wall clock is put ahead (microseconds, also negative); with
    ``strobe_us`` it is so only in every other period of this many microseconds, beginning
    with the first. ``rate_ppm`` is how much faster than the truth both clocks run, in parts
    per million (more than -1,000,000). The monotonic clock never jumps: what it has gained
    or lost it keeps, while a wall clock that is no longer disturbed is right again.
    """

    wall_us: int = 0
    strobe_us: int = 0
    rate_ppm: int = 0


class Environment(Protocol):
    """A running cluster, as a nemesis sees it. All methods return evidence, keyed by node."""

    @property
    def nodes(self) -> Sequence[str]:
        """The names of all nodes, in order of node id."""
        ...

    @property
    def controllers(self) -> Sequence[str]:
        """The names of the nodes that vote or may vote, in order of node id."""
        ...

    @property
    def dynamic_quorum(self) -> bool:
        """Whether the voters can be changed (KIP-853). Where they cannot, a node that comes
        back with another disk may break promises it made: outside of the fault model."""
        ...

    @property
    def concurrent(self) -> bool:
        """Whether several nodes may be killed, started, paused or resumed at the same time,
        by a thread for each; calls about one node follow each other."""
        ...

    def leader(self) -> str | None:
        """Return the node that most recently claimed leadership in the highest epoch."""
        ...

    def drop(self, grudge: Grudge) -> Evidence:
        """Make every node drop packets from the nodes it holds a grudge against."""
        ...

    def heal(self) -> Evidence:
        """Undo every drop; the evidence says how many packets each node had dropped."""
        ...

    def kill(self, node: str) -> Evidence:
        """kill -9 the node's process and keep an image of its disk."""
        ...

    def start(self, node: str) -> Evidence:
        """Start the node's process again (a no-op when it runs)."""
        ...

    def pause(self, node: str) -> Evidence:
        """SIGSTOP the node's process."""
        ...

    def resume(self, node: str) -> Evidence:
        """SIGCONT the node's process."""
        ...

    def cut_power(self, node: str) -> Evidence:
        """End the node's process as a loss of power would: what was not flushed is gone."""
        ...

    def stop(self, node: str) -> Evidence:
        """Ask the node's process to end in good order (SIGTERM), and see that it does."""
        ...

    def upgrade(self, node: str) -> Evidence:
        """Let the node, which is down, start with the other version of the code from now on."""
        ...

    def busiest_broker(self) -> str | None:
        """Return the broker that leads most partitions, None while nobody knows of one."""
        ...

    def crash_host(self, node: str) -> Evidence:
        """Let the node's machine lose its power, with all that runs there and its network."""
        ...

    def boot_host(self, node: str) -> Evidence:
        """Start the node's machine again; its node is down, and nothing is disturbed there."""
        ...

    def wipe(self, node: str) -> Evidence:
        """Give the node, which is down, an empty disk with a new directory id."""
        ...

    def disturb(self, wanted: Sequence[Disturbance]) -> Evidence:
        """Let messages between nodes suffer what is ``wanted``, and nothing else, from now on.

        The evidence says how many messages suffered what since this was last asked for.
        """
        ...

    def set_clock(self, node: str, setting: ClockSetting) -> Evidence:
        """Let the node's clocks, and nobody else's, run as ``setting`` says, also those of a
        process that is started later. The evidence says what they read before and after."""
        ...

    def trouble_disk(self, node: str, trouble: DiskTrouble, draw: int) -> Evidence:
        """Let the node's disk be in trouble from now on, until :meth:`mend_disk`.

        ``slow``: fsync takes 10 to 100 times longer. ``full``: some bytes more can be written,
        the last of them in the middle of a write. ``error``: writes, reads or fsyncs fail.
        ``readonly``: it can be read and nothing else, as after a remount because of errors.
        A process that cannot keep its promises ends, and one may be unable to start.
        """
        ...

    def damage_disk(self, node: str, draw: int) -> Evidence:
        """Change one bit in a file of the node, which is down; the evidence says which."""
        ...

    def tear_log(self, node: str, draw: int) -> Evidence:
        """Add the beginning of a batch to the log of the node, which is down, as a write does
        that a loss of power cuts short; the evidence says how much of it."""
        ...

    def disk_damaged(self, node: str) -> bool:
        """Whether the node's disk is still as a damage left it: no process has repaired it."""
        ...

    def mend_disk(self, node: str) -> Evidence:
        """End the trouble of the node's disk, and put right a bit that is still changed; the
        evidence says what its trouble did."""
        ...

    def squeeze(self, node: str, resource: Resource, draw: int) -> Evidence:
        """Let the node's process have little of a resource until :meth:`release`.

        ``cpu``: 5 to 40 % of one. ``memory``: no more than it has, and some MB. ``files``: no
        more open files and connections than it has, and a few. ``oom``: it is killed at once for
        want of memory. A process that cannot go on ends.
        """
        ...

    def release(self, node: str) -> Evidence:
        """Give back what :meth:`squeeze` took; the evidence says what came of it."""
        ...

    def launch(self, node: str) -> Evidence:
        """Start the node's process and do not wait until it serves."""
        ...

    def change_voters(self, changes: Sequence[VoterChange]) -> Evidence:
        """Begin to bring ``changes`` about, one after the other, and return at once.

        Changes that were asked for before come first; none is given up.
        """
        ...

    def voter_changes(self) -> Evidence:
        """Return the changes that ``ended`` since this was last asked, and how many are
        ``open``."""
        ...
